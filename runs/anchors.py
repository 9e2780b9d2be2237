"""The head of the log outside the database: a file a day, so that a cut tail or a restored backup shows.

A line holds the time, the newest entry's id, and the head of every run that moved since the line before. The files of an
installation lie in a folder of its own; a restored database has the same name for itself, a new one has another.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Max

from runs.models import LogEntry, System

# A line a minute; more often only makes files longer.
EVERY = dt.timedelta(seconds=60)
# Entries get their ids before they are committed, so that a lower one may appear after a higher one.
OVERLAP = 1000
HELD = """
SELECT count(*) FROM unnest(%s::bigint[], %s::integer[], %s::text[]) AS head (run, seq, hash)
JOIN runs_logentry entry ON entry.run_id = head.run AND entry.seq = head.seq AND entry.hash = head.hash
"""


@dataclasses.dataclass(frozen=True)
class Anchor:
    """What the log's heads were: each a run's number, a `seq` and its hash."""

    at: dt.datetime
    entry: int
    heads: list[tuple[int, int, str]]


def folder(system: System) -> Path:
    return Path(settings.ANCHOR_DIR) / str(system.installation)


def read(folder: Path) -> Iterator[Anchor]:
    """Every anchor that lies there, oldest first."""
    for path in sorted(folder.glob("*.jsonl")):
        yield from filter(None, map(_anchor, path.read_text().splitlines()))


def last(system: System) -> Anchor | None:
    newest = max(folder(system).glob("*.jsonl"), default=None)
    lines = reversed(newest.read_text().splitlines()) if newest else ()
    return next(filter(None, map(_anchor, lines)), None)


def write(system: System, now: dt.datetime) -> None:
    """Adds a line if the log grew and the last one is old enough."""
    before = last(system)
    if before is not None and now - before.at < EVERY:
        return
    entry = LogEntry.objects.newest_id()
    if entry == (before.entry if before else 0):
        return
    path = folder(system) / f"{now:%Y-%m-%d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = {"at": now.isoformat(), "entry": entry, "heads": _heads(before.entry - OVERLAP if before else 0)}
    with path.open("a") as file:
        file.write(f"{json.dumps(line)}\n")


def cut(system: System) -> Anchor | None:
    """The last anchor, if the log does not hold what it says. What a thaw came after is taken as known."""
    anchor = last(system)
    if anchor is None or (system.thawed_at is not None and anchor.at <= system.thawed_at):
        return None
    return None if _held(anchor.heads) == len(anchor.heads) else anchor


def _held(heads: list[tuple[int, int, str]]) -> int:
    """How many of them the logs have. By one query: the first anchor of an installation names every run it ever had."""
    with connection.cursor() as cursor:
        cursor.execute(HELD, [list(column) for column in zip(*heads, strict=True)] or [[], [], []])
        return int(cursor.fetchone()[0])


def holds(run: int, seq: int, head: str) -> bool:
    """Whether this run's log has that hash at that place."""
    return LogEntry.objects.filter(run=run, seq=seq, hash=head).exists()


def _heads(after: int) -> list[tuple[int, int, str]]:
    moved = LogEntry.objects.filter(pk__gt=after).order_by().values("run").annotate(newest=Max("pk")).values("newest")
    return list(LogEntry.objects.filter(pk__in=moved).order_by("run").values_list("run", "seq", "hash"))


def _anchor(line: str) -> Anchor | None:
    """None for a line that a crash cut short."""
    try:
        given = json.loads(line)
        return Anchor(dt.datetime.fromisoformat(given["at"]), given["entry"], [tuple(head) for head in given["heads"]])
    except (ValueError, KeyError):
        return None
