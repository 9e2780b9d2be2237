"""Takes away what was left beside an effect only so that a lost call could be found again, once the run has ended with it."""

from __future__ import annotations

import datetime as dt
import logging

from django.conf import settings
from django.db.models import Q

from runs import registry
from runs.clock import Clock
from runs.engine.attempt import bounded, call_for, reason_of
from runs.freezing import is_frozen
from runs.locking import locked_run
from runs.models import Run, Step
from runs.states import RunState, StepState

log = logging.getLogger(__name__)
AGAIN_AFTER = dt.timedelta(days=1)
# What could not be taken away in this time stays; it does no harm, and names its run.
GIVEN_UP_AFTER = dt.timedelta(days=30)
AT_ONCE = 200
ENDED_WITH_EFFECTS = (RunState.SUCCEEDED, RunState.LEFT_STANDING)
STAYS = (StepState.DONE, StepState.SENT, StepState.LEFT_STANDING)


def tidy_up() -> None:
    """Once for each step; what can't be taken away now is tried again tomorrow."""
    if is_frozen():
        return
    leaving = [name for name, cls in registry.classes().items() if cls.has("tidy")]
    ended = Run.objects.filter(state__in=ENDED_WITH_EFFECTS, ended_at__gt=Clock() - GIVEN_UP_AFTER)
    ended = ended.filter(ended_at__lte=Clock() - dt.timedelta(seconds=settings.TIDY_AFTER))
    steps = Step.objects.filter(run__in=ended, capability__in=leaving, state__in=STAYS, tidied_at=None)
    due = steps.filter(Q(due_at=None) | Q(due_at__lte=Clock()))
    for pk, run_id in due.order_by("pk").values_list("pk", "run_id")[:AT_ONCE]:
        _tidy(run_id, pk)


def _tidy(run_id: int, step_id: int) -> None:
    with locked_run(run_id) as run:
        step = run.steps.get(pk=step_id)
        if run.state not in ENDED_WITH_EFFECTS or step.state not in STAYS:
            return
        step.due_at = run.now + AGAIN_AFTER
        step.save(update_fields=["due_at"])
    try:
        capability = registry.find(step.capability)
        if capability is not None:
            bounded(capability.tidy, call_for(capability, step))
    except Exception as exc:  # nobody waits for it
        log.info("What step %s of run %s left to be found by stays for now: %s", step.number, run_id, reason_of(exc))
        return
    Step.objects.filter(pk=step_id, state__in=STAYS).update(tidied_at=Clock(), due_at=None)
