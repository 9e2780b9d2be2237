"""The lease of a compensation, and its records: each a short transaction that names the walk, so that a late one changes nothing."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, OuterRef

from runs import dispatch, isolation, lifecycle, signals
from runs.capability import Call, Capability
from runs.engine.attempt import LeaseTooShort, bounded, lease_for, patience_of, timeout_of, worker_name
from runs.freezing import is_frozen
from runs.locking import locked_run
from runs.models import CapabilityRecord, Run, Step
from runs.states import RunState, StepState
from runs.storable import text
from sagaboard import quick
from sagaboard.quick import Prepared

# Seconds for the looks before the first undo; half of them are left after each. Two walks whose looks overlap do no harm:
# only the one that still holds the lease gets to undo.
LOOKS = 60.0

_LAST = Prepared(lambda run: Step.objects.filter(run=run).to_undo().in_undo_order().annotate(undo_to=F("run__undo_to"))[:1], -1)
_UNPROVEN = CapabilityRecord.objects.filter(version=OuterRef("version")).exclude(proven_version=OuterRef("version"))
_NOW = Prepared(
    lambda pk: Step.objects.filter(pk=pk).annotate(
        gone_out_after=Exists(Step.objects.filter(run=OuterRef("run"), intent_seq__gt=OuterRef("intent_seq")).gone_out()),
        unproven=Exists(_UNPROVEN.filter(name=OuterRef("capability"))),
    ),
    -1,
)


@dataclasses.dataclass
class Walk:
    """A claim on the way back of one run; only writes that name this `number` count."""

    run_id: int
    number: int
    undo_over: frozenset[int]
    # Until when, by the local monotonic clock, the lease is certainly ours.
    ends: float = 0.0

    def begin(self, method: Callable[[Call[Any]], None], call: Call[Any]) -> None:
        """Calls out, unless the lease might end first: then another walk may be at it, and in a world that has moved on."""
        if time.monotonic() + call.timeout > self.ends:
            raise LeaseTooShort
        bounded(method, call)

    def keep(self, run: Run, seconds: float) -> None:
        """Sees that the lease lasts so long. It gets a margin more, so that an undo soon after the last one writes nothing here."""
        if time.monotonic() + seconds > self.ends:
            self.ends = time.monotonic() + lease_for(seconds)
            quick.save(run, *run.renew_lease(lease_for(seconds)))


def claim(run_id: int) -> Walk | None:
    """The walk, if the run is compensating, nobody walks it already and no step of it still runs."""
    with locked_run(run_id) as run:
        if run.state != RunState.COMPENSATING or is_frozen() or (run.lease_until and run.lease_until > run.now):
            return None
        # First the fence: what runs ends or loses its lease, and rings again when it does.
        if run.steps.filter(state__in=[StepState.RUNNING, StepState.UNKNOWN], lease_until__gt=run.now).exists():
            return None
        if _paused(run):
            return None
        ends = time.monotonic() + _for_looks()
        quick.save(run, *run.take_lease(_for_looks(), worker_name()))
        return Walk(run.pk, run.attempt, frozenset(run.undo_over), ends)


def next_step(held: Walk) -> Step | None:
    """The step to deal with now: the last intent that is still in the world, or None at the end of the walk."""
    last: Any = _LAST.first(held.run_id)
    if last is None or not last.undo_to:
        return last  # type: ignore[no-any-return]
    steps = Step.objects.filter(run=held.run_id)
    savepoint = steps.filter(ref=last.undo_to).values_list("intent_seq", flat=True).first()
    return steps.to_undo().filter(intent_seq__gt=savepoint or 0).in_undo_order().first()


def hand_over(held: Walk, queue: str) -> None:
    """The next step is for workers with other credentials: they take the walk from here."""
    with locked_run(held.run_id) as run:
        if _is_ours(run, held):
            run.save(update_fields=run.drop_lease())
            dispatch.walk(run.pk, queue)


def after_look(held: Walk, step: Step) -> bool:
    """After looking for a lost call: go on if it is known now; else wait for the next look, or stop for a person."""
    with locked_run(held.run_id) as run:
        current = run.steps.get(pk=step.pk)
        if current.state not in (StepState.RUNNING, StepState.UNKNOWN):
            return _is_ours(run, held)
        if _is_ours(run, held):
            run.save(update_fields=run.drop_lease())
            if current.due_at is None and not current.lease_until and run.state == RunState.COMPENSATING:
                lifecycle.stop(run, f"Step {step.number}, {step.capability}, may or may not have happened.", step=current)
        return False


def undo_started(held: Walk, step: Step, capability: Capability[Any]) -> bool:
    """The undo's intent, before it is called. False: the walk is no longer ours, or must not cross the pivot."""
    with locked_run(held.run_id) as run:
        if not _is_ours(run, held) or (current := _unchanged(run, step)) is None or _paused(run) or _crosses_pivot(run, current):
            return False
        seconds = lease_for(timeout_of(capability), patience_of(capability.verify_for), timeout_of(capability))
        held.keep(run, seconds)
        fields = ["undo_tries", "undo_started_at", *step.take_lease(seconds, worker_name())]
        step.undo_tries += 1
        step.undo_started_at = run.now
        saves = step.moved(StepState.UNDOING, *fields)
        run.append("undo.started", step=step, attempt=step.attempt, actor=f"worker:{step.worker}", saves=saves)
        return True


def undone(held: Walk, step: Step, *, already: bool) -> bool:
    """`verify_undone` said that it is gone."""
    with locked_run(held.run_id) as run:
        if not _is_ours(run, held) or (current := _unchanged(run, step)) is None or _crosses_pivot(run, current):
            return False
        step.undone_at = step.ended_at = run.now
        step.undo_error = ""
        saves = step.moved(StepState.UNDONE, "undone_at", "ended_at", "undo_error", *step.drop_lease())
        held.keep(run, _for_looks() / 2)
        run.append("undo.skipped" if already else "undo.verified", step=step, saves=saves, evidence="verify_undone: gone")
        if current.unproven and not already:
            prove(step, f"undone in run {run.number}")
        isolation.free(run, step)
        if step.seen_by_people and step.done_at:
            signals.effect_ended.send(Step, run=run, step=step, how="gone" if already else "undone")
    return True


def prove(step: Step, how: str) -> None:
    """A real, verified undo of this version proves it."""
    proven = {"proven_version": step.version, "proven_at": step.undone_at, "proven_how": how}
    CapabilityRecord.objects.filter(name=step.capability, version=step.version).exclude(proven_version=step.version).update(**proven)


def undo_failed(held: Walk, step: Step, why: str) -> bool:
    return _stop(held, step, StepState.UNDO_FAILED, "undo.failed", why)


def drifted(held: Walk, step: Step, what: str) -> bool:
    return _stop(held, step, StepState.DRIFTED, "undo.drifted", what)


def _stop(held: Walk, step: Step, state: StepState, event: str, why: str) -> bool:
    with locked_run(held.run_id) as run:
        if not _is_ours(run, held) or _unchanged(run, step) is None:
            return False
        step.undo_error = text(why)
        step.move(state, "undo_error", *step.drop_lease())
        run.append(event, step=step, why=step.undo_error)
        if step.seen_by_people and step.done_at:
            # People see it for longer than anybody planned: their draft is ready before the undo is.
            signals.effect_ended.send(Step, run=run, step=step, how="stuck")
        lifecycle.stop(run, f"Stopped at step {step.number}, {step.capability}: {step.undo_error}", step=step)
    return False


def again(held: Walk, step: Step, error: str) -> bool:
    """The undo is tried once more by this same walk."""
    with locked_run(held.run_id) as run:
        if not _is_ours(run, held):
            return False
        run.append("undo.failed", step=step, why=text(error), again=True)
    return True


def finish(held: Walk) -> None:
    """The end of the walk: compensated, or back at the savepoint, or stopped before a call that went out."""
    with locked_run(held.run_id) as run:
        if not _is_ours(run, held):
            return
        sent = run.steps.filter(state=StepState.SENT)
        if run.undo_to:
            run.move(RunState.FAILED, *run.drop_lease())
            run.append("run.failed", why=f"undone back to {run.undo_to}", savepoint=run.undo_to)
        elif run.override_pivot or not sent.exists():
            for step in sent:
                leave(run, step, actor="engine", why="it went out and can't be taken back")
            run.move(RunState.COMPENSATED, *run.drop_lease())
            run.append("run.compensated")
            signals.run_ended.send(Run, run=run)
        else:
            lifecycle.stop(run, "What came after the pivot is undone; before it stands a call that went out and can't be taken back.")


def leave(run: Run, step: Step, *, actor: str, why: str) -> None:
    """An effect stays, on purpose."""
    step.settled_by, step.settled_why, step.settled_as, step.ended_at = actor, why, "left_standing", run.now
    # Whoever leaves a call standing that may have happened says that it did: at the earliest when it began.
    step.done_at = step.done_at or step.started_at
    step.move(StepState.LEFT_STANDING, "settled_by", "settled_why", "settled_as", "ended_at", "done_at", *step.drop_lease())
    run.append("step.settled", step=step, actor=actor, how="left_standing", why=why)
    if step.is_irreversible:
        signals.step_sent.send(Step, run=run, step=step)
    if step.seen_by_people and step.done_at:
        signals.effect_ended.send(Step, run=run, step=step, how="left_standing")


def _for_looks() -> float:
    return lease_for(min(LOOKS, 2 * (settings.CALL_TIMEOUT_AT_MOST + settings.PATIENCE_AT_MOST)))


def _is_ours(run: Run, held: Walk) -> bool:
    return run.attempt == held.number and run.state == RunState.COMPENSATING


def _unchanged(run: Run, step: Step) -> Any:
    """The step as it is now, if it is still as this walk read it: no person settled it, no other walk dealt with it meanwhile."""
    current = _NOW.get(step.pk)
    assert current.run_id == run.pk, f"step {step.pk} is not of run {run.pk}"
    return current if current.state == step.state and current.attempt == step.attempt else None


def _paused(run: Run) -> bool:
    if not run.pause_asked:
        return False
    lifecycle.stop(run, "Paused by a person.")
    return True


def _crosses_pivot(run: Run, current: Any) -> bool:
    """No automatic walk goes back past a call that went out, or that may have."""
    if run.override_pivot or not current.gone_out_after:
        return False
    lifecycle.stop(run, "Before this stands a call that went out and can't be taken back; a person with the right may go on.", step=current)
    return True
