"""Queries of the ORM that are composed once and asked often.

On the paths that every step takes, the ORM needs four times as long to compose a query as the database to answer it, and the
database as long to plan it as to answer it. Only those paths use this; everywhere else the ORM's own calls read better.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, models
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from django.db.models.expressions import RawSQL

M = TypeVar("M", bound=models.Model)


def cursor() -> CursorWrapper:
    """A cursor whose values travel beside the statement, so that the database plans a statement only the first few times."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_thread_sharing()
    found: Any = ServerBindingCursor(connection.connection)  # type: ignore[call-arg]  # the stubs forget the base
    return connection.make_debug_cursor(found) if connection.queries_logged else connection.make_cursor(found)


class Prepared(Generic[M]):
    """A queryset as a function of its values: whole rows of one model, with annotations, without related ones.

    `samples` stand for the values when the query is composed. Each has to differ from all that the query itself holds.
    """

    def __init__(self, query: Callable[..., models.QuerySet[M]], *samples: Any) -> None:
        self.query, self.samples = query, samples

    def all(self, *values: Any) -> list[M]:
        sql, places, fixed = self._composed
        params = [values[place] if place is not None else value for place, value in zip(places, fixed, strict=True)]
        with cursor() as ours:
            ours.execute(sql, params)
            return [self._built(list(row)) for row in ours.fetchall()]

    def first(self, *values: Any) -> M | None:
        return next(iter(self.all(*values)), None)

    def get(self, *values: Any) -> M:
        found = self.first(*values)
        if found is None:
            raise ObjectDoesNotExist(f"no {self._model.__name__} {values}")
        return found

    @cached_property
    def _queryset(self) -> models.QuerySet[M]:
        return self.query(*self.samples)

    @cached_property
    def _composed(self) -> tuple[str, list[int | None], list[Any]]:
        """The SQL; for each of its parameters which value goes there, if any; the parameters with the samples in place."""
        sql, params = self._queryset.query.sql_with_params()
        places = [self.samples.index(one) if one in self.samples else None for one in params]
        return sql, places, list(params)

    @cached_property
    def _model(self) -> type[M]:
        return self._queryset.model

    @cached_property
    def _names(self) -> list[str]:
        return [field.attname for field in self._model._meta.concrete_fields]

    @cached_property
    def _converters(self) -> list[tuple[int, Any]]:
        fields = enumerate(self._model._meta.concrete_fields)
        return [(place, field.from_db_value) for place, field in fields if hasattr(field, "from_db_value")]

    def _built(self, row: list[Any]) -> M:
        for place, convert in self._converters:
            row[place] = convert(row[place], None, connection)
        own = len(self._names)
        found: M = self._model.from_db(connection.alias, self._names, row[:own])
        for name, value in zip(self._queryset.query.annotation_select, row[own:], strict=True):
            setattr(found, name, value)
        return found


def save(row: models.Model, *names: str) -> None:
    """Writes these fields of a row that exists, or all of them; values may be `RawSQL`. No signal of the ORM is sent."""
    settings, params = [], []
    fields: list[Any] = [row._meta.get_field(name) for name in names] or [one for one in row._meta.concrete_fields if not one.primary_key]
    for field in fields:
        value = getattr(row, field.attname)
        if isinstance(value, RawSQL):
            settings.append(f'"{field.column}" = {value.sql}')
            params += value.params
        else:
            settings.append(f'"{field.column}" = %s')
            params.append(field.get_db_prep_save(value, connection))
    sql = f'UPDATE "{row._meta.db_table}" SET {", ".join(settings)} WHERE id = %s'  # noqa: S608  (names of columns)
    with cursor() as ours:
        ours.execute(sql, [*params, row.pk])
        assert ours.rowcount == 1, f"{row!r} is not there any more"
