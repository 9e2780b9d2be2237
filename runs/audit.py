"""Who did what, over all runs a person can see: what is asked for by address, a page of it, and all of it as a file."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from runs import logwords
from runs.models import LogEntry, Run
from runs.models.log import EVENTS, LogQuerySet
from sagaboard.accounts.models import User

PAGE = 100
# What a spreadsheet takes for a formula, which may send away what stands beside it.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
COLUMNS = ("at", "who", "event", "run", "seq", "step", "capability", "digest", "detail", "hash")
KINDS = sorted({event.partition(".")[0] for event in EVENTS})


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the list is narrowed to; what makes no sense narrows nothing. `on` is a capability or the beginning of a digest."""

    who: str = ""
    run: str = ""
    kind: str = ""
    event: str = ""
    on: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def read(cls, given: dict[str, str]) -> Asked:
        texts = {field.name: given.get(field.name, "").replace("\x00", "").strip()[:200] for field in dataclasses.fields(cls)}
        known = {"event": texts["event"] if texts["event"] in EVENTS else "", "kind": texts["kind"] if texts["kind"] in KINDS else ""}
        return cls(**{**texts, **known})

    @property
    def query(self) -> str:
        """The same as the end of an address; "" for none."""
        return urlencode({name: value for name, value in dataclasses.asdict(self).items() if value})


def entries(user: User, asked: Asked) -> LogQuerySet:
    """What people and tokens did, newest first."""
    found = LogEntry.objects.filter(run__in=Run.objects.visible_to(user)).by_people()
    found = found.narrowed(who=asked.who, run=asked.run, kind=asked.kind)
    if asked.event:
        found = found.filter(event=asked.event)
    if asked.on:
        found = found.about(asked.on)
    if day := _day(asked.since):
        found = found.filter(at__gte=day)
    if day := _day(asked.until, after=1):
        found = found.filter(at__lt=day)
    return found.order_by("-id").select_related("step__item", "run")


def _day(given: str, *, after: int = 0) -> dt.datetime | None:
    """The beginning of that day in the reader's zone, or of one so many days after it; None for what is no day."""
    try:
        day = dt.date.fromisoformat(given) + dt.timedelta(days=after)
        return dt.datetime.combine(day, dt.time(), timezone.get_current_timezone())
    except (ValueError, OverflowError):
        return None


def as_csv(found: LogQuerySet) -> Iterator[str]:
    """For a spreadsheet, which must not run what others wrote."""
    line = csv.writer(_Echo())
    yield str(line.writerow(COLUMNS))
    for entry in found.iterator(chunk_size=1000):
        yield str(line.writerow([_tame(value) for value in _row(entry).values()]))


def as_json_lines(found: LogQuerySet) -> Iterator[str]:
    """One object a line; `data` is the entry's own, whole."""
    for entry in found.iterator(chunk_size=1000):
        yield f"{json.dumps({**_row(entry), 'data': entry.data}, ensure_ascii=False)}\n"


def _row(entry: LogEntry) -> dict[str, Any]:
    step = entry.step
    values = (
        entry.at.astimezone(dt.UTC).isoformat(), entry.actor, entry.event, entry.run_id, entry.seq, step.number if step else None,
        step.capability if step else "", entry.data.get("digest", ""), logwords.detail(entry), entry.hash,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _tame(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


class _Echo:
    """Where the writer writes to: it gives back the line."""

    def write(self, line: str) -> str:
        return line
