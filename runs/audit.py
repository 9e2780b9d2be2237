"""Who did what, over all runs a person can see and to what governs them: asked for by address, a page of it, all of it as a file."""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import heapq
import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.models import ADDITION, DELETION
from django.contrib.admin.models import LogEntry as AdminEntry
from django.db.models import QuerySet
from django.utils import timezone

from runs import logwords
from runs.models import LogEntry, Run
from runs.models.log import EVENTS, LogQuerySet
from sagaboard.accounts import changes
from sagaboard.accounts.models import User
from sagaboard.templatetags.words import shown

# An auditor's right: to see what was done to rights, policies, owners and capabilities, and to take all of it away as a file.
EXPORT = "runs.view_logentry"
# The kind of those acts, which belong to no run.
GOVERNING = "governing"
PAGE = 100
# Few are governed so often that a page of acts has more than these between its first and its last.
GOVERNED = 500
# What a spreadsheet takes for a formula, which may send away what stands beside it.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
Line = tuple[dt.datetime, dict[str, Any], dict[str, Any]]
COLUMNS = ("at", "who", "event", "run", "seq", "step", "on", "digest", "from", "detail", "hash")
KINDS = sorted({GOVERNING, *(event.partition(".")[0] for event in EVENTS)})


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


@dataclasses.dataclass(frozen=True)
class Act:
    """One act, of either sort. `entry` is that of a run's log; None for what was done to what governs."""

    at: dt.datetime
    who: str
    is_token: bool
    word: str
    event: str
    on: str
    detail: str
    digest: str = ""
    whence: str = ""
    entry: LogEntry | None = None


@dataclasses.dataclass(frozen=True)
class Page:
    """Acts, newest first, and the log's entry before which the next page begins; `cut` where more governing acts belong here."""

    acts: list[Act]
    older: int | None
    cut: bool


def page(user: User, asked: Asked, before: str) -> Page:
    """The newest acts before that entry of a log."""
    found = list(entries(user, asked).narrowed(before=before)[: PAGE + 1])
    lines, older = found[:PAGE], found[PAGE - 1].pk if len(found) > PAGE else None
    governed = governing(user, asked)
    if lines and older:
        governed = governed.filter(action_time__gte=lines[-1].at)
    if before.isascii() and before.isdigit() and len(before) < 18:
        governed = governed.filter(action_time__lt=LogEntry.objects.filter(pk=int(before)).values("at"))
    changed = list(governed[: GOVERNED + 1])
    acts = [*map(of_entry, lines), *map(of_change, changed[:GOVERNED])]
    return Page(sorted(acts, key=lambda act: act.at, reverse=True), older, len(changed) > GOVERNED)


def entries(user: User, asked: Asked) -> LogQuerySet:
    """What people and tokens did in runs, newest first."""
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


def governing(user: User, asked: Asked) -> QuerySet[AdminEntry]:
    """What people did to what governs runs, newest first; for auditors."""
    if asked.run or asked.event or asked.kind not in ("", GOVERNING) or not user.has_perm(EXPORT):
        return AdminEntry.objects.none()
    found = changes.found(who=asked.who, on=asked.on)
    if day := _day(asked.since):
        found = found.filter(action_time__gte=day)
    if day := _day(asked.until, after=1):
        found = found.filter(action_time__lt=day)
    return found


def of_entry(entry: LogEntry) -> Act:
    line, data = logwords.line(entry), entry.data
    is_token = entry.actor.startswith("token:")
    return Act(
        entry.at, line.who, is_token, line.word, entry.event, line.about, line.detail,
        str(data.get("digest", "")), str(data.get("from", "")), entry,
    )  # fmt: skip


def of_change(change: AdminEntry) -> Act:
    word = {ADDITION: "added", DELETION: "deleted"}.get(change.action_flag, "changed")
    kind = str(change.content_type.name) if change.content_type else "something"
    on = f"{kind} “{change.object_repr}”"
    return Act(
        change.action_time, shown(str(change.user)), False, word, GOVERNING, shown(on), logwords.cut(shown(change.get_change_message()))
    )


def _day(given: str, *, after: int = 0) -> dt.datetime | None:
    """The beginning of that day in the reader's zone, or of one so many days after it; None for what is no day."""
    try:
        day = dt.date.fromisoformat(given) + dt.timedelta(days=after)
        return dt.datetime.combine(day, dt.time(), timezone.get_current_timezone())
    except (ValueError, OverflowError):
        return None


def as_csv(user: User, asked: Asked) -> Iterator[str]:
    """For a spreadsheet, which must not run what others wrote."""
    line = csv.writer(_Echo())
    yield str(line.writerow(COLUMNS))
    for act, _ in _whole(user, asked):
        yield str(line.writerow([_tame(value) for value in act.values()]))


def as_json_lines(user: User, asked: Asked) -> Iterator[str]:
    """One object a line; `data` is the log entry's own, whole."""
    for act, data in _whole(user, asked):
        yield f"{json.dumps({**act, **data}, ensure_ascii=False)}\n"


def _whole(user: User, asked: Asked) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All of them, newest first, each as its columns and what more there is of it."""
    of_runs: Iterator[Line] = ((entry.at, _row(entry), {"data": entry.data}) for entry in entries(user, asked).iterator(chunk_size=1000))
    governed: Iterable[AdminEntry] = governing(user, asked).iterator(chunk_size=1000)
    of_governing: Iterator[Line] = ((change.action_time, _governed(change), {}) for change in governed)
    for _, row, more in heapq.merge(of_runs, of_governing, key=lambda line: line[0], reverse=True):
        yield row, more


def _row(entry: LogEntry) -> dict[str, Any]:
    step, data = entry.step, entry.data
    values = (
        _iso(entry.at), entry.actor, entry.event, entry.run_id, entry.seq, step.number if step else None,
        step.capability if step else "", data.get("digest", ""), data.get("from", ""), logwords.detail(entry), entry.hash,
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def _governed(change: AdminEntry) -> dict[str, Any]:
    act = of_change(change)
    values = (_iso(act.at), f"person:{change.user}", GOVERNING, None, None, None, act.on, "", "", change.get_change_message(), "")
    return dict(zip(COLUMNS, values, strict=True))


def _iso(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat()


def _tame(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


class _Echo:
    """Where the writer writes to: it gives back the line."""

    def write(self, line: str) -> str:
        return line
