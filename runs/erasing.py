"""Erases large documents that lie beside the log of runs that ended long ago.

The log itself stays whole: it holds the digest of each document, and says what was erased, when, by whom and why.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable

from django.db.models import QuerySet

from runs.clock import Clock
from runs.locking import locked_runs
from runs.models import LogEntry, StoredPayload
from runs.states import ENDED

DIGEST = "data__$beside"


@dataclasses.dataclass(frozen=True)
class Old:
    """A document, and the runs whose logs hold its digest, by number."""

    digest: str
    bytes: int
    runs: list[int]


def old(*, after: dt.timedelta) -> list[Old]:
    """What may be erased: of runs that ended so long ago, and of no other."""
    runs, sizes = defaultdict(set), {}
    of_ended = _beside(StoredPayload.objects.values_list("pk", flat=True)).filter(run__state__in=ENDED, run__ended_at__lt=Clock() - after)
    for digest, size, run in of_ended.values_list(DIGEST, "data__bytes", "run"):
        runs[digest].add(run)
        sizes[digest] = size
    kept = set(_beside(list(runs)).exclude(pk__in=of_ended.values("pk")).values_list(DIGEST, flat=True))
    return [Old(digest, sizes[digest], sorted(numbers)) for digest, numbers in sorted(runs.items()) if digest not in kept]


def erase(document: Old, *, by: str, why: str) -> bool:
    """Erases one document and writes that into the log of each of its runs, or does neither. False if it is gone already."""
    with locked_runs(document.runs) as runs:
        # Also by a run that came to hold it meanwhile.
        if _beside([document.digest]).exclude(run__in=runs).exists():
            return False
        gone, _ = StoredPayload.objects.filter(pk=document.digest).delete()
        for run in runs if gone else []:
            run.append("payload.erased", actor=f"person:{by}", digest=document.digest, bytes=document.bytes, why=why)
        return bool(gone)


def _beside(digests: Iterable[str]) -> QuerySet[LogEntry]:
    """Entries that hold one of these digests instead of their document."""
    return LogEntry.objects.filter(**{f"{DIGEST}__in": list(digests)})
