"""Callers who wait for a step's end: at most half of the web threads, so that pages always find one free."""

from __future__ import annotations

import threading
import time

from django.conf import settings

from runs import bell
from runs.locking import read_step
from runs.models import Step
from runs.states import StepState

# A worker is next; the caller who waits will be answered by itself.
MOVING = frozenset({StepState.REQUESTED, StepState.RUNNING, StepState.UNKNOWN, StepState.UNDOING})
# A person or the run's release is next, which may take days.
AWAITING = frozenset({StepState.QUEUED, StepState.ON_HOLD})
_seats = threading.BoundedSemaphore(max(settings.WEB_THREADS // 2, 1))


def has_ended(step: Step) -> bool:
    return step.state not in MOVING | AWAITING


def for_end(step: Step, seconds: float, *, also_people: bool = False) -> Step:
    """The step, as it is when no worker is next any more, or after `seconds`; at once if too many wait already.

    `also_people` waits for a person's decision too; a gate's call always does.
    """
    waits = MOVING | AWAITING if also_people or step.is_gate else MOVING
    until = time.monotonic() + min(seconds, settings.WAIT_AT_MOST)
    if step.state not in waits or seconds <= 0 or not _seats.acquire(blocking=False):
        return step
    try:
        while step.state in waits and time.monotonic() < until:
            bell.await_answer(step.pk, until)
            step = read_step(step.pk)
    finally:
        _seats.release()
    return step
