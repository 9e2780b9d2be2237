"""Queries of the ORM that are composed once and asked often.

On the paths that every step takes, the ORM needs four times as long to compose a query as the database to answer it, and the
database as long to plan it as to answer it. Only those paths use this, and what stands in the frame of every page; everywhere
else the ORM's own calls read better.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Generic, TypeVar

import psycopg
from django.core.exceptions import ObjectDoesNotExist
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.backends.postgresql.psycopg_any import mogrify
from django.db.backends.utils import CursorDebugWrapper
from django.db.models.expressions import RawSQL

M = TypeVar("M", bound=models.Model)


def rows(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What a statement that returns rows returns. Its values travel beside it, so that the database plans it only the first few times.

    Django's own cursor costs more than the statement: each connection keeps one of the driver's instead.
    """
    ours = connections[DEFAULT_DB_ALIAS]
    ours.close_if_health_check_failed()
    ours.ensure_connection()
    ours.validate_thread_sharing()
    session: Any = ours.connection
    if not hasattr(session, "kept_cursor"):
        session.kept_cursor = ServerBindingCursor(session)  # type: ignore[call-arg]  # the stubs forget the base
    kept: psycopg.Cursor[Any] = session.kept_cursor
    noted = CursorDebugWrapper(kept, ours).debug_sql(mogrify(sql, values, session)) if ours.queries_logged else nullcontext()
    with ours.wrap_database_errors, noted:
        kept.execute(sql, values)
        return kept.fetchall()


class Prepared(Generic[M]):
    """A queryset as a function of its values: whole rows of one model, with annotations, without related ones.

    `samples` stand for the values when the query is composed. Each has to differ from all that the query itself holds.
    """

    def __init__(self, query: Callable[..., models.QuerySet[M]], *samples: Any) -> None:
        self.query, self.samples = query, samples

    def all(self, *values: Any) -> list[M]:
        sql, places, fixed = self._composed
        params = [values[place] if place is not None else value for place, value in zip(places, fixed, strict=True)]
        return [self._built(list(row)) for row in rows(sql, params)]

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


class ForPerson:
    """Rows of values as a function of a person, composed once for all who have the same rights.

    What the query asks about the person is in their rights and in their number, and it asks nothing of the database while it is
    composed: that is made sure of by composing it for two numbers, which may differ in nothing else.
    """

    STANDING_IN = (-1_000_003, -1_000_033)
    # Of what was composed; there are as many as sets of rights.
    AT_MOST = 500

    def __init__(self, query: Callable[..., models.QuerySet[Any, Any]]) -> None:
        self.query = query
        self.composed: dict[Any, tuple[str, list[Any]]] = {}

    def rows(self, person: Any, *given: Any) -> list[tuple[Any, ...]]:
        """`given` go to the query as they are; each combination of them and of rights is composed and kept."""
        shape = (person.is_active, person.is_superuser, not person.is_superuser and frozenset(person.get_all_permissions()), given)
        # Other threads fill and empty it too.
        found = self.composed.get(shape)
        if found is None:
            if len(self.composed) > self.AT_MOST:
                self.composed.clear()
            found = self.composed[shape] = self._compose(person, given)
        sql, params = found
        return rows(sql, [person.pk if one is self else one for one in params])

    def _compose(self, person: Any, given: tuple[Any, ...]) -> tuple[str, list[Any]]:
        (sql, params), (same, others) = (self._composed_for(person, number, given) for number in self.STANDING_IN)
        wrong = [pair for pair in zip(params, others, strict=True) if pair[0] != pair[1] and pair != self.STANDING_IN]
        assert sql == same and not wrong, f"the query depends on more than the rights and the number: {wrong}"
        return sql, [self if one == self.STANDING_IN[0] else one for one in params]

    def _composed_for(self, person: Any, number: int, given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        stand_in = copy.copy(person)
        stand_in.pk = number
        found: tuple[str, tuple[Any, ...]] = self.query(stand_in, *given).query.sql_with_params()
        return found


def save(row: models.Model, *names: str, then: tuple[str, Sequence[Any]] = ("", ())) -> None:
    """Writes these fields of a row that exists, or all of them; values may be `RawSQL`. No signal of the ORM is sent.

    `then` is an INSERT that goes with it in one statement: up to its SELECT, and that one's values.
    """
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
    sql = f'UPDATE "{row._meta.db_table}" SET {", ".join(settings)} WHERE id = %s RETURNING id'  # noqa: S608  (names of columns)
    insert, values = then
    if insert:
        sql = f"WITH changed AS ({sql}) {insert} FROM changed RETURNING seq"
    written = rows(sql, [*params, row.pk, *values])
    assert written, f"{row!r} is not there any more"
