"""What people do to a run: take it, stop it, undo it, leave it standing, settle a step. Rights are checked here, by name."""

from __future__ import annotations

from typing import Any

import pydantic

from runs import bell, isolation, lifecycle, registry, signals
from runs.engine.attempt import bounded, call_for, reason_of
from runs.engine.walk import leave
from runs.exceptions import Invalid, NotAllowed, NotCompensatable, NotSettleable, Refused, StalePreview
from runs.locking import locked_run
from runs.models import LogEntry, Run, Step
from runs.states import IN_EFFECT, CheckState, RunState, StepState
from runs.storable import storable
from sagaboard.accounts import rights
from sagaboard.accounts.models import User

SETTLEABLE = frozenset({StepState.UNKNOWN, StepState.UNDO_FAILED, StepState.DRIFTED})
BY_TOKEN = frozenset({RunState.FAILED, RunState.STUCK})
BY_PERSON = BY_TOKEN | {RunState.SUCCEEDED, RunState.LEFT_STANDING}
SETTLE_AS = {"happened", "never_happened", "undone_by_hand", "left_standing"}


def check_right(user: User, right: str, run: Run) -> None:
    """NotAllowed, naming the right, unless this person has it in the run's team."""
    if f"runs.{right}" not in rights.held(user, run.team):
        raise NotAllowed(f"You may not do this: it wants the right “{right.replace('_', ' ')}” in the team {run.team}.")


def take_run(run: Run, *, by: User) -> None:
    """Says who is on it."""
    check_right(by, "take_run", run)
    with locked_run(run.pk) as locked:
        locked.taken_by, locked.taken_at = by, locked.now
        locked.save(update_fields=["taken_by", "taken_at"])
        locked.append("run.taken", actor=f"person:{by}")


def step_back(run: Run, *, by: User) -> None:
    """Whoever was on it no longer is; only they can say so, others take over."""
    with locked_run(run.pk) as locked:
        if locked.taken_by_id != by.pk:
            raise Refused(f"{locked.taken_by} is on it; take over instead." if locked.taken_by else "Nobody is on it.")
        locked.taken_by = locked.taken_at = None
        locked.save(update_fields=["taken_by", "taken_at"])
        locked.append("run.taken", actor=f"person:{by}", back=True)


def stop_run(run: Run, *, by: User, reason: str) -> None:
    """A person fails a run that goes forward."""
    check_right(by, "take_run", run)
    want(reason, "say why")
    with locked_run(run.pk) as locked:
        if not locked.is_going_forward:
            raise Refused(f"It is {locked.get_state_display().lower()} already.")
        lifecycle.fail(locked, f"Stopped by {by}: {reason}", actor=f"person:{by}")


def compensate_run(
    run: Run,
    *,
    actor: str,
    by: User | None = None,
    head: str | None = None,
    to: str = "",
    override: bool = False,
    undo_over: list[int] | None = None,
    why: str = "",
) -> None:
    """Undoes the run from its log. `head` is the hash of the last entry its preview saw; the run must not have moved since."""
    if by is not None:
        check_right(by, "compensate_run", run)
        if override:
            check_right(by, "override_pivot", run)
    with locked_run(run.pk) as locked:
        if locked.state == RunState.COMPENSATING:
            return  # joined: it is being undone already
        if head is not None and head != LogEntry.objects.filter(run=locked).moving_head():
            raise StalePreview("The run moved while you read. Nothing was undone; look again.")
        allowed = (
            {RunState.FAILED, RunState.STUCK}
            if by is None
            else {RunState.FAILED, RunState.STUCK, RunState.SUCCEEDED, RunState.LEFT_STANDING}
        )
        if locked.state not in allowed:
            raise NotCompensatable(f"Run {locked.number} is {locked.get_state_display().lower()}: there is nothing to undo now.")
        if not override:
            _check_pivot(locked)
        if to and not locked.steps.filter(ref=to, intent_seq__isnull=False).exists():
            raise Invalid(f"No step “{to}” ran in this run.")
        _reopen_left(locked)
        lifecycle.begin_compensation(locked, actor=actor, why=why, to=to, override=override, undo_over=undo_over)


def _check_pivot(run: Run) -> None:
    """NotCompensatable where nothing could be undone without going back past a call that went out."""
    last = run.steps.gone_out().filter(intent_seq__isnull=False).order_by("-intent_seq").first()
    if last is None:
        return
    after = run.steps.to_undo().filter(intent_seq__gte=last.intent_seq).exists()
    if run.state in (RunState.SUCCEEDED, RunState.LEFT_STANDING) or not after:
        raise NotCompensatable(
            f"Step {last.number}, {last.capability}, went out and can't be taken back. "
            "Undoing what came before it wants the right to override the pivot."
        )


def _reopen_left(run: Run) -> None:
    """What was left standing on purpose is undone too when a person presses Compensate after all."""
    if run.state == RunState.LEFT_STANDING:
        run.steps.filter(state=StepState.LEFT_STANDING, effect__isnull=False, kind__in=["reversible", "compensatable"]).update(
            state=StepState.UNDO_FAILED
        )


def pause_run(run: Run, *, by: User) -> None:
    """Stops the walk after the undo that runs."""
    check_right(by, "compensate_run", run)
    with locked_run(run.pk) as locked:
        if locked.state != RunState.COMPENSATING:
            raise Refused(f"It is {locked.get_state_display().lower()}; there is nothing to pause.")
        locked.pause_asked = True
        locked.save(update_fields=["pause_asked"])
        locked.append("run.paused", actor=f"person:{by}")


def leave_standing(run: Run, *, by: User, reason: str) -> None:
    """Keeps a failed or stuck run's effects, on purpose; what people can see is corrected."""
    check_right(by, "compensate_run", run)
    want(reason, "say why the effects stay")
    with locked_run(run.pk) as locked:
        if locked.state not in (RunState.FAILED, RunState.STUCK):
            raise Refused(f"It is {locked.get_state_display().lower()}; nothing is left standing now.")
        for step in locked.steps.filter(state__in=IN_EFFECT):
            if step.state == StepState.RUNNING or (step.lease_until and step.lease_until > locked.now):
                raise Refused(f"Step {step.number} is being dealt with by a worker. Wait for its end.")
            leave(locked, step, actor=f"person:{by}", why=reason)
        locked.stopped_why = reason
        locked.move(RunState.LEFT_STANDING, "stopped_why")
        locked.append("run.left_standing", actor=f"person:{by}", why=reason)
        signals.run_ended.send(Run, run=locked)


def settle_step(step: Step, *, by: User, how: str, reason: str, effect: str = "") -> None:
    """A person states how a step ended. The machine looks once itself, and what it saw is written beside it."""
    check_right(by, "settle_step", step.run)
    want(reason, "say how you know")
    if how not in SETTLE_AS:
        raise Invalid(f"Say one of: {', '.join(sorted(SETTLE_AS))}.")
    given = _effect(effect) if how == "happened" else {}
    seen = _look(step)
    with locked_run(step.run_id) as run:
        current = run.steps.get(pk=step.pk)
        if run.state == RunState.COMPENSATING:
            raise NotSettleable("The run is being undone right now. Pause it first, or wait until it stops here.")
        known_to_have_failed = current.is_unsent and not run.has_ended
        if (current.state not in SETTLEABLE and not known_to_have_failed) or (current.lease_until and current.lease_until > run.now):
            raise NotSettleable(f"It is {current.get_state_display().lower()} now; there is nothing to settle.")
        if known_to_have_failed and how != "happened":
            raise NotSettleable("It is known that it did not go out; say that it did, send it again, or drop it.")
        if how in ("happened", "never_happened") and current.state not in (StepState.UNKNOWN, StepState.FAILED):
            raise NotSettleable("It is known that it happened; say whether it was undone by hand or is left standing.")
        _settle(run, current, by=by, how=how, reason=reason, effect=given, seen=seen)


def _settle(run: Run, step: Step, *, by: User, how: str, reason: str, effect: dict[str, Any], seen: str) -> None:
    step.settled_by, step.settled_why, step.settled_as, step.seen_at_settling = f"person:{by}", reason, how, seen
    step.ended_at, step.due_at = run.now, None
    if how in ("undone_by_hand", "left_standing"):
        # Both say that it happened: at the earliest when it began.
        step.done_at = step.done_at or step.started_at
    fields = ["settled_by", "settled_why", "settled_as", "seen_at_settling", "ended_at", "due_at", "done_at"]
    if how == "happened":
        step.effect, step.done_at = storable(effect), run.now
        step.move(StepState.SENT if step.is_irreversible else StepState.DONE, "effect", *fields)
    elif how == "never_happened":
        step.move(StepState.FAILED, *fields)
    elif how == "undone_by_hand":
        step.undone_at = run.now
        step.move(StepState.SETTLED, "undone_at", *fields)
    else:
        step.move(StepState.LEFT_STANDING, *fields)
    run.append("step.settled", step=step, actor=f"person:{by}", how=how, why=reason, seen=seen)
    isolation.free(run, step)
    if how in ("undone_by_hand", "left_standing") and step.seen_by_people and step.done_at:
        signals.effect_ended.send(Step, run=run, step=step, how="settled" if how == "undone_by_hand" else how)
    bell.answer(step.pk)
    if how != "never_happened" and step.is_irreversible:
        signals.step_sent.send(Step, run=run, step=step)
    _go_on(run, by)


def _go_on(run: Run, by: User) -> None:
    """A stuck walk back goes on by itself once the person has settled what it stopped at."""
    if run.state == RunState.STUCK and run.compensating_since is not None:
        lifecycle.begin_compensation(
            run, actor=f"person:{by}", why="settled", to=run.undo_to, override=run.override_pivot, undo_over=run.undo_over
        )


def confirm_green(run: Run, *, by: User, reason: str) -> None:
    """A person stands in for the checks of a run that has none."""
    check_right(by, "compensate_run", run)
    want(reason, "say what you checked")
    with locked_run(run.pk) as locked:
        if locked.state != RunState.CHECKING or locked.checks.exists():
            raise Refused("Its checks decide, not a person." if locked.checks.exists() else f"It is {locked.get_state_display().lower()}.")
        locked.checks.create(
            name="person", state=CheckState.SUCCESS, reported_by=f"person:{by}", reported_at=locked.now, subject=reason[:200]
        )
        locked.append("check.reported", actor=f"person:{by}", check="person", state="success", subject=reason)
        lifecycle.advance(locked)


def _look(step: Step) -> str:
    """What the machine sees now, in words; it is evidence, not the decision."""
    capability = registry.find(step.capability)
    if capability is None:
        return "nothing could look: the capability's code is gone"
    try:
        call = call_for(capability, step)
        if step.state in (StepState.UNKNOWN, StepState.FAILED):
            return f"probe: {bounded(capability.probe, call) or 'not there'}" if capability.has("probe") else "no probe is written"
        return f"verify_undone: {'gone' if bounded(capability.verify_undone, call) else 'still there'}"
    except Exception as exc:  # a person decides anyway; what the look ran into is part of what is known
        return f"the look failed: {reason_of(exc)}"


def _effect(given: str) -> dict[str, Any]:
    try:
        found = pydantic.TypeAdapter(dict[str, Any]).validate_json(given)
    except pydantic.ValidationError:
        raise Invalid("The effect must be a JSON object with the identifiers that an undo needs.") from None
    if not found:
        raise Invalid("Give the effect: the identifiers that an undo needs.")
    return found


def want(reason: str, what: str) -> None:
    """Invalid unless a reason is given."""
    if not reason.strip():
        raise Invalid(f"A reason is required: {what}.")
