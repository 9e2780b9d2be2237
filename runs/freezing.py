"""Freeze and thaw: while frozen nothing is called, sent or undone. After a restore that is what people want first."""

from __future__ import annotations

import logging

from django.db import connection, transaction
from django.db.models import Exists

from runs import anchors
from runs.clock import Clock
from runs.exceptions import Invalid
from runs.models import System
from sagaboard.quick import Prepared

log = logging.getLogger(__name__)
IDENTITY = "SELECT (pg_control_system()).system_identifier::text, (pg_control_checkpoint()).timeline_id"
_FROZEN = Prepared(lambda: System.objects.filter(frozen_at__isnull=False))


def frozen() -> Exists:
    """For a query that reads something else as well."""
    return Exists(System.objects.filter(frozen_at__isnull=False))


def is_frozen(seen: bool | None = None) -> bool:
    """Whether nothing may be called now. No restore outlives a connection, so a new one first asks whose history it sees.

    `seen` is what the caller has just read by `frozen`.
    """
    connection.ensure_connection()
    session = connection.connection
    if not getattr(session, "history_is_known", False):
        if freeze_if_restored():
            return True
        session.history_is_known = True  # ours, beside what the driver keeps there
    return _FROZEN.first() is not None if seen is None else seen


def freeze(*, by: str, why: str) -> None:
    _row()
    System.objects.filter(pk=1, frozen_at=None).update(frozen_at=Clock(), frozen_by=by, frozen_why=why)


def thaw(*, by: str) -> None:
    """Goes on, and takes the database's present history as the known one. Who lifted it stays written down."""
    if not by.strip():
        raise Invalid("Say who lifts the freeze: a name.")
    _row()
    identifier, timeline = _identity()
    known = {"identifier": identifier, "timeline": timeline, "thawed_at": Clock(), "thawed_by": by}
    System.objects.filter(pk=1).update(frozen_at=None, frozen_by="", frozen_why="", **known)
    log.warning("The freeze was lifted by %s.", by)


def freeze_if_restored() -> bool:
    """Freezes by itself when the database's history is not the one this installation knows. True if it is frozen now."""
    with transaction.atomic():
        row = _row()
        identifier, timeline = _identity()
        if row.frozen_at is not None:
            return True
        if not row.identifier:
            System.objects.filter(pk=1).update(identifier=identifier, timeline=timeline)
        why = _what_changed(row, identifier, timeline)
        if why:
            log.error("Frozen: %s", why)
            # This very installation, not one that has taken its place since it was read.
            found = System.objects.filter(pk=1, installation=row.installation, frozen_at=None)
            found.update(frozen_at=Clock(), frozen_by="engine", frozen_why=why)
        return bool(why)


def write_anchor() -> None:
    """The log's heads as they are now go into a file, unless they are in doubt."""
    with transaction.atomic():
        row = _row()
        now = System.objects.filter(pk=1).values_list(Clock(), flat=True).get()
    if row.frozen_at is None:
        try:
            anchors.write(row, now)
        except OSError as exc:  # the sweep goes on; that nothing is kept must be seen
            log.error("The log's heads can't be kept outside the database: %s", exc)


def _what_changed(row: System, identifier: str, timeline: int) -> str:
    if row.identifier and (row.identifier, row.timeline) != (identifier, timeline):
        return "The database was restored or moved: its system identifier or timeline changed."
    if anchor := anchors.cut(row):
        return f"The database was restored or its log was cut: it lacks what stood there at {anchor.at:%Y-%m-%d %H:%M} UTC."
    return ""


def _row() -> System:
    return System.objects.get_or_create(pk=1)[0]


def _identity() -> tuple[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(IDENTITY)
        identifier, timeline = cursor.fetchone()
    return str(identifier), int(timeline)
