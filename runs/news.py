"""Whether anything happened since an open list was made: one look at the end of the log, which lists that poll begin with."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from runs.models import LogEntry

# Seconds after which a list is made anew without news in the log: time runs out, rules change, answers are counted.
ANEW = 60
# Entries get their numbers before they are committed, so one may show up behind others: among so many last ones it is missed.
TOGETHER = 100


def newest() -> QuerySet[LogEntry]:
    """The entries that name a moment."""
    return LogEntry.objects.order_by("-pk")[:TOGETHER]


def mark(last: Collection[int] | None = None) -> str:
    """Names this moment, by the newest entry of the log and how many are near it. Read before, or with, what the list shows.

    `last` are the numbers of the newest entries, where the caller has read them already.
    """
    if last is None:
        last = newest().values_list("pk", flat=True)
    end = max(last, default=0)
    return f"{end}-{sum(pk > end - TOGETHER for pk in last)}-{_seconds()}"


def since(given: str, events: Collection[str] = ()) -> bool:
    """Whether an entry was written since the moment `given`, one of these events if any are named; also when that was long ago."""
    parts = given.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 18 for part in parts):
        return True
    end, near, made = map(int, parts)
    if abs(_seconds() - made) > ANEW:
        return True
    later = Q(pk__gt=end, event__in=events) if events else Q(pk__gt=end)
    found = LogEntry.objects.filter(pk__gt=end - TOGETHER)
    seen = found.aggregate(near=Count("pk", filter=Q(pk__lte=end)), later=Count("pk", filter=later))
    return bool(seen["later"]) or seen["near"] != near


def _seconds() -> int:
    return int(timezone.now().timestamp())
