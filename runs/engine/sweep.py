"""Finds what no message is carrying. It only re-dispatches, and is safe to run twice; one wedged run never holds up another."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Greatest

from runs import bell, dispatch, lifecycle, signals
from runs.clock import Clock
from runs.engine import bounds, drill, windows
from runs.freezing import freeze_if_restored
from runs.locking import locked_run
from runs.models import Check, Run, Step
from runs.models.leased import lease_is_free
from runs.states import GOING_FORWARD, CheckState, RunState, StepState

log = logging.getLogger(__name__)
# A requested step is some worker's in milliseconds; older ones lost their message.
GRACE = dt.timedelta(seconds=2)
AT_ONCE = 500


def sweep() -> None:
    """One look at everything that may be due."""
    if freeze_if_restored():
        return
    for part in PARTS:
        try:
            part()
        except Exception:  # the others are still looked at; this one again in a few seconds
            log.exception("The sweep's %s failed.", part.__name__)


def steps_due() -> None:
    """Requested steps nobody claimed, sends whose turn it is, expired leases, lost calls to look for."""
    # By way of the runs, of which few are unfinished. An index on what every step changes would cost each of them more than this look.
    due = Step.objects.filter(lease_is_free(), run__in=Run.objects.unfinished()).select_related(None)
    asked = Q(state=StepState.REQUESTED, requested_at__lt=Clock() - GRACE) & (Q(due_at=None) | Q(due_at__lte=Clock()))
    waiting = Q(state=StepState.QUEUED, due_at__lte=Clock(), run__state__in=GOING_FORWARD)
    lost = Q(state=StepState.RUNNING) | Q(state=StepState.UNKNOWN, due_at__lte=Clock())
    # All three by one pass over those steps.
    found = due.filter(asked | waiting | lost).only("pk", "run_id", "capability", "state").order_by("pk")
    for step in found[: 3 * AT_ONCE]:
        if step.state in (StepState.REQUESTED, StepState.QUEUED):
            dispatch.invoke(step)
        else:
            dispatch.look(step)


def walks_due() -> None:
    """Compensations that stand still."""
    for run in Run.objects.filter(lease_is_free(), state=RunState.COMPENSATING)[:AT_ONCE]:
        bell.ring("runs.tasks.compensate_run", run.pk)


def drills_due() -> None:
    """Drills that a worker left before their end."""
    for run in drill.unfinished()[:AT_ONCE]:
        bell.ring_at(drill.queue_of(run.pk), "runs.tasks.drill_run", run.pk)


def silent_runs() -> None:
    """Agents that were not heard of within their run's patience."""
    for pk in silent().values_list("pk", flat=True)[:AT_ONCE]:
        _each(pk, _fail_if_silent)


def silent() -> QuerySet[Run]:
    """Open runs past their patience. The clock stands while a step runs or a person is awaited."""
    last = Step.objects.filter(run=OuterRef("pk")).order_by()
    heard = Greatest(
        F("last_heard_at"),
        Coalesce(Subquery(last.order_by(F("ended_at").desc(nulls_last=True)).values("ended_at")[:1]), F("last_heard_at")),
        Coalesce(Subquery(last.order_by(F("requested_at").desc(nulls_last=True)).values("requested_at")[:1]), F("last_heard_at")),
    )
    busy = Q(state__in=[StepState.REQUESTED, StepState.RUNNING, StepState.UNKNOWN, StepState.ON_HOLD])
    gate = Q(state=StepState.QUEUED, needs_result=True)
    return (
        Run.objects.filter(state=RunState.OPEN)
        .exclude(Exists(Step.objects.filter(busy | gate, run=OuterRef("pk"))))
        .annotate(heard=heard)
        .filter(heard__lt=Clock() - F("patience") * dt.timedelta(seconds=1))
    )


def _fail_if_silent(run: Run) -> None:
    if run.state == RunState.OPEN and silent().filter(pk=run.pk).exists():
        lifecycle.fail(run, f"The agent was silent for more than {run.patience} s.")


def red_checks() -> None:
    """Checks that stayed red longer than the run's grace."""
    red = Check.objects.filter(state=CheckState.FAILURE, run__state__in=[RunState.OPEN, RunState.CHECKING, RunState.RELEASING]).filter(
        reported_at__lte=Clock() - F("run__check_grace") * dt.timedelta(seconds=1)
    )
    for pk in set(red.values_list("run", flat=True)[:AT_ONCE]):
        _each(pk, fail_if_red)


def fail_if_red(run: Run) -> None:
    """Fails a run that goes forward although a check has been red for longer than its grace."""
    limit = run.now - dt.timedelta(seconds=run.check_grace)
    red = run.checks.filter(state=CheckState.FAILURE, reported_at__lte=limit).first()
    if run.is_going_forward and red is not None:
        lifecycle.fail(run, f"The check {red.name} is red.")


def late_checks() -> None:
    """Runs that waited for their checks past the deadline."""
    limit = Clock() - dt.timedelta(seconds=settings.CHECKING_DEADLINE)
    for pk in Run.objects.filter(state=RunState.CHECKING, checking_since__lt=limit).values_list("pk", flat=True)[:AT_ONCE]:
        _each(pk, _fail_if_still_checking)


def _fail_if_still_checking(run: Run) -> None:
    if run.state == RunState.CHECKING:
        lifecycle.fail(run, "Its checks were not all green by the deadline.")


def of_apps_above() -> None:
    """What only the apps above know to be due."""
    for receiver, answer in signals.sweeping.send_robust(None):
        if isinstance(answer, Exception):
            log.error("The sweep's %s failed.", receiver, exc_info=answer)


def _each(run_id: int, change: Callable[[Run], None]) -> None:
    """One run in a transaction of its own; one that fails is the next sweep's, and holds up nobody."""
    try:
        with locked_run(run_id) as run:
            change(run)
    except Exception:
        log.exception("The sweep could not deal with run %s.", run_id)


PARTS = (
    steps_due,
    walks_due,
    drills_due,
    silent_runs,
    red_checks,
    late_checks,
    bounds.waits_too_long,
    bounds.stands_still,
    windows.ending,
    of_apps_above,
)
