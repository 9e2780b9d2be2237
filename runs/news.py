"""Whether anything happened since an open list was made: one indexed look at the end of the log, which lists that poll begin with."""

from __future__ import annotations

from collections.abc import Collection

from django.utils import timezone

from runs.models import LogEntry

# Seconds after which a list is made anew without news in the log: time runs out, rules change, answers are counted.
ANEW = 60


def mark(newest: int | None = None) -> str:
    """Names this moment, by the newest entry of the log, where the caller has read that by itself."""
    return f"{LogEntry.objects.newest_id() if newest is None else newest}-{_seconds()}"


def since(given: str, events: Collection[str] = ()) -> bool:
    """Whether an entry was written since the moment `given`, one of these events if any are named; also when that was long ago."""
    newest, _, made = given.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 18 for part in (newest, made)) or abs(_seconds() - int(made)) > ANEW:
        return True
    found = LogEntry.objects.filter(pk__gt=int(newest))
    return (found.filter(event__in=events) if events else found).exists()


def _seconds() -> int:
    return int(timezone.now().timestamp())
