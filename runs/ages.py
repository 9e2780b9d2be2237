"""How long anything waits: for each state that is not an end, how many are in it, the oldest, its bound and who is next."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Max, Min, QuerySet

from runs.models import LogEntry, Run, Step
from runs.states import RunState, StepState
from sagaboard.templatetags.words import duration


@dataclasses.dataclass(frozen=True)
class Age:
    """One state: `oldest` in seconds, None if nothing is in it."""

    what: str
    state: str
    count: int
    oldest: float | None
    bound: str
    owner: str


@dataclasses.dataclass(frozen=True)
class Waits:
    """Since when something in a state waits (a field, or the event that began it), until what, and for whom."""

    since: str
    bound: str
    owner: str


def _after(seconds: float) -> str:
    return f"told after {duration(seconds)}"


REMINDED = f"told again every {duration(settings.REMIND_EVERY)}"
R, S = RunState, StepState
OF_RUNS: Mapping[str, Waits] = {
    R.OPEN: Waits("last_heard_at", "its patience, while the agent is next", "agent"),
    R.CHECKING: Waits("checking_since", f"fails after {duration(settings.CHECKING_DEADLINE)}", "checker"),
    R.RELEASING: Waits("run.released", REMINDED, "reviewer, then on-call"),
    R.FAILED: Waits("run.failed", f"{REMINDED}, while something is in effect", "on-call"),
    R.COMPENSATING: Waits("run.compensating", REMINDED, "worker"),
    R.STUCK: Waits("run.stuck", REMINDED, "on-call"),
}
OF_STEPS: Mapping[str, Waits] = {
    S.REQUESTED: Waits("requested_at", _after(settings.PAGE_AFTER), "worker"),
    S.ON_HOLD: Waits("requested_at", f"{_after(settings.PAGE_AFTER)}, ends after {duration(settings.HELD_AT_MOST)}", "owner"),
    S.QUEUED: Waits("requested_at", "its run's release and its policy's deadline", "reviewer"),
    S.RUNNING: Waits("started_at", "its lease", "worker"),
    S.UNKNOWN: Waits("started_at", _after(settings.PAGE_AFTER), "worker, then on-call"),
    S.UNDOING: Waits("undo_started_at", "its lease", "worker"),
    S.UNDO_FAILED: Waits("done_at", REMINDED, "on-call"),
    S.DRIFTED: Waits("done_at", REMINDED, "on-call"),
}
# Filled by the apps above: what else waits, each a function of the database's time.
more: list[Callable[[dt.datetime], Iterable[Age]]] = []


def all_ages() -> list[Age]:
    """Every state that is not an end, whether anything is in it or not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now = cursor.fetchone()[0]
    found = [_of_runs(state, waits, now) for state, waits in OF_RUNS.items()]
    steps = Step.objects.filter(run__in=Run.objects.unfinished())
    found += [of_rows("step", steps.filter(state=state), state, waits, now) for state, waits in OF_STEPS.items()]
    return found + [age for ask in more for age in ask(now)]


def _of_runs(state: str, waits: Waits, now: dt.datetime) -> Age:
    runs = Run.objects.filter(state=state)
    if state == RunState.FAILED:
        runs = runs.with_effects()
    if "." not in waits.since:
        return of_rows("run", runs, state, waits, now)
    began = LogEntry.objects.filter(run__in=runs.order_by().values("pk"), event=waits.since).order_by()
    times = [row["began"] for row in began.values("run").annotate(began=Max("at"))]
    return Age("run", state, runs.count(), (now - min(times)).total_seconds() if times else None, waits.bound, waits.owner)


def of_rows(what: str, rows: QuerySet[Any], state: str, waits: Waits, now: dt.datetime) -> Age:
    """The age of rows that hold since when they wait."""
    oldest = rows.order_by().aggregate(oldest=Min(waits.since))["oldest"]
    return Age(what, state, rows.count(), (now - oldest).total_seconds() if oldest else None, waits.bound, waits.owner)
