"""Takes a step for one attempt: lock, compare state and freeze, lease, attempt number, log."""

from __future__ import annotations

import logging
import time
from typing import Any

import pydantic
from django.db.models import Exists, OuterRef

from runs import bell, keys, lifecycle, registry, signals
from runs.capability import Capability, Payload
from runs.engine.attempt import Attempt, call_for, lease_for, timeout_of, worker_name
from runs.exceptions import NotReleasable
from runs.freezing import frozen, is_frozen
from runs.locking import locked_run
from runs.models import CapabilityRecord, Run, Step, TargetPause
from runs.models.step import StepQuerySet
from runs.pauses import in_words, paused
from runs.states import RunState, StepState
from sagaboard.quick import Prepared

log = logging.getLogger(__name__)
_DISABLED = CapabilityRecord.objects.exclude(disabled_at=None)


def _claimable(run_id: int, pk: int) -> StepQuerySet:
    """The step, and whether its lease is free, its capability was disabled, and everything is frozen."""
    found = Step.objects.filter(run=run_id, pk=pk).with_lease_state()
    return found.annotate(disabled=Exists(_DISABLED.filter(name=OuterRef("capability"))), frozen=frozen())


_STEP = Prepared(_claimable, -1, -2)


def to_do(run_id: int, step_id: int) -> Attempt | None:
    """An attempt at `do`, or None: it has ended, another worker holds it, or it may not run now."""
    with locked_run(run_id) as run:
        step = _free(run, step_id)
        if step is None or not _may_begin(run, step):
            return None
        capability = _defined(run, step)
        if capability is None or _is_disabled(run, step):
            return None
        payload = None
        if step.is_irreversible:
            try:
                payload = _approved_payload(run, step)
            except NotReleasable as exc:
                log.info("Step %s of run %s does not go out: %s", step.number, run.number, exc)
                return None
        if not _args_fit(capability, step):
            said = f"The arguments no longer fit {step.capability}, which was changed since. Ask for it again, as it is now."
            lifecycle.close(run, step, "dropped", actor="engine", said=said)
            return None
        if pause := paused(call_for(capability, step).args.model_dump(mode="json"), run.now):
            _wait_for(step, pause)
            return None
        return _start(run, step, capability, payload)


def to_look(run_id: int, step_id: int) -> Attempt | None:
    """An attempt at finding out what became of a call whose worker was lost or whose answer never came."""
    with locked_run(run_id) as run:
        step = _free(run, step_id)
        if step is None or step.state not in (StepState.RUNNING, StepState.UNKNOWN):
            return None
        if step.due_at is not None and step.due_at > run.now and step.state == StepState.UNKNOWN:
            return None
        capability = _defined(run, step)
        if capability is None:
            return None
        seconds = lease_for(timeout_of(capability))
        fields = step.take_lease(seconds, worker_name())
        if step.state == StepState.RUNNING:
            # Due from now on: if this look is lost as well, the sweep brings another.
            step.error, step.due_at = step.error or "the worker was lost", run.now
            step.move(StepState.UNKNOWN, "error", "due_at", *fields)
            run.append("step.unknown", step=step, attempt=step.attempt, why=step.error)
        else:
            step.save(update_fields=fields)
        return _attempt(run, step, capability, seconds, None)


def _wait_for(step: Step, pause: TargetPause) -> None:
    """Its target asked for a pause: not before that is over, and it costs no attempt."""
    step.due_at, step.error = pause.until, in_words(pause.target, pause.until, pause.why)
    step.save(update_fields=["due_at", "error"])


def _free(run: Run, step_id: int) -> Step | None:
    """The step, if nobody holds it by the database's clock and nothing is frozen."""
    step: Any = _STEP.first(run.pk, step_id)
    if step is None:
        log.error("No step %s in run %s: the message is dropped.", step_id, run.pk)
        return None
    step.run = run
    return None if not step.lease_free or is_frozen(step.frozen) else step


def _may_begin(run: Run, step: Step) -> bool:
    if step.due_at is not None and step.due_at > run.now:
        return False
    return step.state in (StepState.REQUESTED, StepState.QUEUED) and run.is_going_forward


def _approved_payload(run: Run, step: Step) -> Payload | None:
    """What the outbox lets go, checked in this very transaction; NotReleasable if it doesn't."""
    answers: list[tuple[Any, Any]] = signals.step_sending.send(Step, run=run, step=step)
    found = next((answer for _, answer in answers if isinstance(answer, Payload)), None)
    if found is None:
        raise NotReleasable("nothing approved it")
    return found


def _start(run: Run, step: Step, capability: Capability[Any], payload: Payload | None) -> Attempt:
    prepares = capability.has("prepare") and step.prepared is None
    seconds = lease_for(timeout_of(capability), timeout_of(capability) if prepares else 0)
    fields = ["tries", "started_at", "due_at", "error", *step.take_lease(seconds, worker_name())]
    step.tries += 1
    step.started_at, step.due_at, step.error = run.now, None, ""
    if step.intent_seq is None:
        step.intent_seq = run.next_seq()
        fields.append("intent_seq")
    saves = step.moved(StepState.RUNNING, *fields)
    run.append("step.started", step=step, attempt=step.attempt, actor=f"worker:{step.worker}", saves=saves, call_key=step.call_key)
    return _attempt(run, step, capability, seconds, payload)


def _attempt(run: Run, step: Step, capability: Capability[Any], seconds: float, payload: Payload | None) -> Attempt:
    return Attempt(
        run_id=run.pk,
        step_id=step.pk,
        number=step.attempt,
        capability=capability,
        call=call_for(capability, step, payload=payload),
        ends=time.monotonic() + seconds,
        has_prepared=step.prepared is not None,
    )


def _args_fit(capability: Capability[Any], step: Step) -> bool:
    try:
        capability.Args.model_validate_json(keys.canonical(step.args))
    except pydantic.ValidationError:
        return False
    return True


def _is_disabled(run: Run, step: Any) -> bool:
    """Disabled meanwhile: what was asked for ends here, what waits in the outbox goes on waiting."""
    record = _DISABLED.filter(name=step.capability).first() if step.disabled else None
    if record is None:
        return False
    if step.state == StepState.REQUESTED:
        said = f"{step.capability} was disabled by {record.disabled_by or 'an admin'}: {record.disabled_why}"
        lifecycle.close(run, step, "dropped", actor="engine", said=said)
    return True


def _defined(run: Run, step: Step) -> Capability[Any] | None:
    """The capability's code; where it is gone, the step waits in front of a person."""
    capability = registry.find(step.capability)
    if capability is not None:
        return capability
    why = f"No code defines the capability {step.capability} any more; step {step.number} can't go on."
    if step.state in (StepState.REQUESTED, StepState.QUEUED):
        step.error, step.ended_at = why, run.now
        lifecycle.close(run, step, "dropped", actor="engine", said=why)
    elif run.state != RunState.STUCK and run.state in (RunState.RELEASING, RunState.COMPENSATING):
        lifecycle.stop(run, why, step=step)
    bell.answer(step.pk)
    return None
