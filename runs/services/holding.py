"""Calls that wait for a person before they may run at all: off the plan, stricter than planned, or where another run is busy."""

from __future__ import annotations

import json

from runs import dispatch, isolation, lifecycle, registry, signals
from runs.exceptions import Refused
from runs.locking import locked_run
from runs.models import CapabilityRecord, Run, Step
from runs.services.people import check_right, want
from runs.states import Overlap, StepState
from sagaboard.accounts.models import User


def let_through(step: Step, *, by: User) -> None:
    """A person lets a held call run (or wait in the outbox, if it can't be taken back)."""
    check_right(by, "take_run", step.run)
    with locked_run(step.run_id) as run:
        current = _held(run, step)
        if not run.is_going_forward:
            raise Refused(f"The run is {run.get_state_display().lower()}.")
        capability = registry.find(current.capability)
        if capability is None or not CapabilityRecord.objects.usable().filter(name=current.capability).exists():
            raise Refused(f"{current.capability} is disabled or its code is gone.")
        _claim(run, current)
        waits = current.is_irreversible
        current.error = ""
        if not waits:
            current.intent_seq = run.next_seq()
        current.move(StepState.QUEUED if waits else StepState.REQUESTED, "error", "intent_seq")
        run.append("step.queued" if waits else "step.requested", step=current, actor=f"person:{by}", let_through=True)
        if waits:
            args = capability.Args.model_validate_json(json.dumps(current.args))
            payload = capability.render(args) if capability.has("render") else None
            signals.step_queued.send(Step, run=run, step=current, payload=payload)
        else:
            dispatch.invoke(current)


def refuse_held(step: Step, *, by: User, reason: str) -> None:
    """A person says no to a held call; the agent gets the words, and the run goes on without it."""
    check_right(by, "take_run", step.run)
    want(reason, "say why; the agent gets it")
    with locked_run(step.run_id) as run:
        lifecycle.close(run, _held(run, step), "rejected", actor=f"person:{by}", said=reason)


def _held(run: Run, step: Step) -> Step:
    current = run.steps.get(pk=step.pk)
    if current.state != StepState.ON_HOLD:
        raise Refused(f"It is {current.get_state_display().lower()} now.")
    return current


def _claim(run: Run, step: Step) -> None:
    """What another run had when the call was held may be free now, or still not."""
    taken = isolation.claim(run, step)
    if taken is not None and run.overlap != Overlap.WARN:
        resource, other = taken
        raise Refused(f"Run {other} still has an effect on {resource}. Wait until it has ended, or refuse this call.", run=other)
