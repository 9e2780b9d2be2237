"""What is due and no worker takes. How long a state lasts is in ages; here real progress is measured, by what does not move."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, F, Max, Min, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce, Greatest, Now

from runs.ages import all_ages
from runs.clock import Clock
from runs.models import Alert, Page, Run, Step, System
from runs.models.leased import lease_is_free
from runs.states import RunState, StepState


@dataclasses.dataclass(frozen=True)
class Due:
    """Rows that are a worker's turn and in nobody's hands, and since when each has been so."""

    name: str
    rows: Callable[[], QuerySet[Any]]
    since: Any


@dataclasses.dataclass(frozen=True)
class Late:
    """`seconds` since the oldest became due; late once that is more than the bound."""

    name: str
    number: int
    oldest: dt.datetime | None
    seconds: float

    @property
    def is_late(self) -> bool:
        return self.seconds > float(settings.LATE_AFTER)


def _steps() -> QuerySet[Step]:
    waits = Q(state=StepState.REQUESTED) & (Q(due_at=None) | Q(due_at__lte=Now()))
    sends = Q(state__in=[StepState.QUEUED, StepState.UNKNOWN], due_at__lte=Now())
    # By way of the runs, as the sweep finds them: no index holds what steps wait for.
    return Step.objects.filter(waits | sends | Q(state=StepState.RUNNING)).filter(lease_is_free(), run__in=Run.objects.unfinished())


def _walks() -> QuerySet[Run]:
    return Run.objects.filter(lease_is_free(), state=RunState.COMPENSATING)


# Filled further by the apps above.
due: list[Due] = [
    Due("step", _steps, Greatest(Coalesce("due_at", "requested_at"), Coalesce("lease_until", "requested_at"), "requested_at")),
    Due("walk", _walks, Coalesce("lease_until", "compensating_since")),
    Due("page", lambda: Page.objects.all().due(), F("due_at")),
]


def measure() -> list[Late]:
    """Of everything that can be due."""
    return [_measure(kind) for kind in due]


def _measure(kind: Due) -> Late:
    found = kind.rows().order_by().annotate(since=kind.since).aggregate(number=Count("pk"), oldest=Min("since"), now=Max(Clock()))
    seconds = (found["now"] - found["oldest"]).total_seconds() if found["oldest"] else 0.0
    return Late(kind.name, found["number"], found["oldest"], max(seconds, 0.0))


class Trouble(NamedTuple):
    """What holds for everything: it is "frozen", by whom and why; work is "late"; or an "alert" says something."""

    what: str
    at: dt.datetime
    by: str
    says: str


def trouble() -> list[Trouble]:
    """For the lines above every page, by one query: that it is frozen; then since when work is due that nobody takes, or the last alert."""
    late = Clock() - dt.timedelta(seconds=settings.LATE_AFTER)
    empty = Value("", TextField())
    by_age = [kind.rows().annotate(at=kind.since).filter(at__lt=late).order_by("at") for kind in due[:2]]
    steps, walks = [rows.annotate(what=Value("late"), by=empty, says=empty).values_list("what", "at", "by", "says")[:1] for rows in by_age]
    alerts = Alert.objects.order_by("-last_at").annotate(what=Value("alert"), by=empty).values_list("what", "last_at", "by", "says")[:1]
    systems = System.objects.exclude(frozen_at=None).annotate(what=Value("frozen"))
    frozen = systems.values_list("what", "frozen_at", "frozen_by", "frozen_why")[:1]
    found = sorted((Trouble(*row) for row in steps.union(walks, alerts, frozen, all=True)), key=lambda one: one.at)
    loudest = [one for one in found if one.what == "late"][:1] or [one for one in found if one.what == "alert"]
    return [*(one for one in found if one.what == "frozen"), *loudest]


def metrics() -> str:
    """As Prometheus reads it: how long every state lasts, and what is due and late."""
    lines = []
    for age in all_ages():
        label = f'{{what="{age.what}",state="{age.state}"}}'
        lines += [f"sagaboard_waiting{label} {age.count}", f"sagaboard_oldest_seconds{label} {age.oldest or 0:.1f}"]
    for one in measure():
        label = f'{{what="{one.name}"}}'
        lines += [f"sagaboard_due{label} {one.number}", f"sagaboard_due_seconds{label} {one.seconds:.1f}"]
        lines.append(f"sagaboard_late{label} {int(one.is_late)}")
    return "\n".join(lines) + "\n"
