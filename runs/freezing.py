"""Freeze and thaw: while frozen nothing is called, sent or undone. After a restore that is what people want first."""

from __future__ import annotations

from django.db import connection, transaction

from runs.clock import Clock
from runs.models import System

IDENTITY = "SELECT (pg_control_system()).system_identifier::text, (pg_control_checkpoint()).timeline_id"


def freeze(*, by: str, why: str) -> None:
    _row()
    System.objects.filter(pk=1, frozen_at=None).update(frozen_at=Clock(), frozen_by=by, frozen_why=why)


def thaw(*, by: str) -> None:
    """Goes on, and takes the database's present history as the known one."""
    _row()
    identifier, timeline = _identity()
    System.objects.filter(pk=1).update(frozen_at=None, frozen_by="", frozen_why="", identifier=identifier, timeline=timeline)


def freeze_if_restored() -> bool:
    """Freezes by itself when PostgreSQL's history is not the one this installation knows. True if it is frozen now."""
    with transaction.atomic():
        row = _row()
        identifier, timeline = _identity()
        if not row.identifier:
            System.objects.filter(pk=1).update(identifier=identifier, timeline=timeline)
        elif (row.identifier, row.timeline) != (identifier, timeline) and row.frozen_at is None:
            freeze(by="engine", why="The database was restored or moved: its system identifier or timeline changed.")
            return True
    return row.frozen_at is not None


def _row() -> System:
    return System.objects.get_or_create(pk=1)[0]


def _identity() -> tuple[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(IDENTITY)
        identifier, timeline = cursor.fetchone()
    return str(identifier), int(timeline)
