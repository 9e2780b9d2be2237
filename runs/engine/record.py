"""Writes down how an attempt ended. Each function is one short transaction that names the attempt: a late one changes nothing."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from django.conf import settings

from runs import bell, dispatch, isolation, lifecycle, signals
from runs.capability import Capability
from runs.engine.attempt import Attempt, lease_for, patience_of, reason_of, timeout_of
from runs.exceptions import NoEffect, TryLater
from runs.locking import locked_run, step_of
from runs.models import Run, Step
from runs.paging import page
from runs.pauses import in_words, pause
from runs.states import RunState, StepState
from runs.storable import storable, text
from sagaboard.templatetags.words import duration


def prepared(attempt: Attempt, found: dict[str, Any]) -> bool:
    """Commits what `prepare` returned, before `do`, and renews the lease. False: the step is no longer ours."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.RUNNING)
        if step is None:
            return False
        step.prepared, step.started_at = storable(found), run.now
        step.save(update_fields=["prepared", "started_at", *_renew(step, attempt)])
        run.append("step.prepared", step=step, attempt=attempt.number, prepared=step.prepared)
    return True


def done(attempt: Attempt, effect: dict[str, Any] | None, *, how: str = "answered") -> None:
    """The call worked and left `effect`."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.RUNNING, StepState.UNKNOWN)
        if step is None:
            _late(run, attempt, effect or {}, how)
            return
        step.effect = storable(effect or {})
        _take_effect(run, step, how=how, attempt=attempt.number)


def _take_effect(run: Run, step: Step, *, how: str, attempt: int | None) -> None:
    step.error, step.due_at = "", None
    step.done_at = step.ended_at = run.now
    fields = ["effect", "error", "due_at", "done_at", "ended_at", *step.drop_lease()]
    if step.is_irreversible:
        step.move(StepState.SENT, *fields)
        run.append("step.sent", step=step, attempt=attempt, effect=step.effect, how=how)
        signals.step_sent.send(Step, run=run, step=step)
        lifecycle.advance(run)
    else:
        saves = step.moved(StepState.DONE if step.leaves_effect else StepState.NOTHING_TO_UNDO, *fields)
        run.append("step.done", step=step, attempt=attempt, saves=saves, effect=step.effect, how=how)
    _tell(run, step)


def failed(attempt: Attempt, exc: NoEffect) -> None:
    """Nothing happened, certainly. A send is tried again as its capability says; a step waits for its agent."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.RUNNING, StepState.UNKNOWN)
        if step is None:
            return
        step.error = text(exc.reason)
        # What nobody waits for any more is not tried again.
        again = _wait_before_again(run, step, attempt, exc) if run.is_going_forward else None
        run.append("step.failed", step=step, attempt=attempt.number, why=step.error, again_in=again)
        if again is None:
            _give_up(run, step, attempt.capability)
        else:
            _wait(run, step, again)
        _tell(run, step)


def _wait_before_again(run: Run, step: Step, attempt: Attempt, exc: NoEffect) -> float | None:
    """Seconds until the machine itself may try again; None if that is for the agent or a person."""
    if isinstance(exc, TryLater):
        return _put_off(run, step, attempt, exc)
    retry = attempt.capability.retry
    if step.is_irreversible and step.tries < retry.attempts:
        return float(retry.backoff * 2.0 ** max(step.tries - 1, 0))
    return None


def _put_off(run: Run, step: Step, attempt: Attempt, exc: TryLater) -> float | None:
    """The pause its target asked for, which holds for every call to that target."""
    if not _is_put_off(run, step, exc):
        return None
    until = run.now + dt.timedelta(seconds=exc.after)
    pause(attempt.call.args.model_dump(mode="json"), until=until, why=text(exc.reason))
    step.error = in_words("the target", until, text(exc.reason))
    return exc.after


def _is_put_off(run: Run, step: Step, exc: TryLater) -> bool:
    """Whether the target may say “later” once more. People hear of it after a while, and one day it is a failure."""
    asked = run.entries.filter(step=step, event__in=["step.requested", "step.queued"]).order_by("-seq").values("seq")[:1]
    begun = run.entries.filter(step=step, event="step.started", seq__gt=asked).order_by("seq").values_list("at", flat=True).first()
    waited = (run.now - begun).total_seconds() if begun else 0.0
    if waited + exc.after > settings.PUT_OFF_AT_MOST:
        step.error = text(f"{exc.reason}; it was put off for {duration(waited)}, and is not tried again by itself")
        return False
    step.tries = max(step.tries - 1, 0)  # waiting costs no attempt
    told = run.entries.filter(step=step, event="run.paged", at__gte=begun or run.now)
    if waited > settings.PAGE_AFTER and not told.exists():
        why = f"{step.capability} has been put off for {duration(waited)}: {exc.reason}. It is tried again by itself."
        page(run, f"step {step.number} is put off", why, step=step)
    return True


def _wait(run: Run, step: Step, seconds: float) -> None:
    step.due_at = run.now + dt.timedelta(seconds=seconds)
    back = StepState.QUEUED if step.is_irreversible else StepState.REQUESTED
    step.move(back, "error", "due_at", "tries", *step.drop_lease())


def _give_up(run: Run, step: Step, capability: Capability[Any]) -> None:
    step.ended_at, step.due_at = run.now, None
    step.move(StepState.FAILED, "error", "ended_at", "due_at", *step.drop_lease())
    if run.state == RunState.RELEASING:
        lifecycle.fail(run, f"{step.capability} could not be sent: {step.error}")
    elif run.state == RunState.OPEN and step.tries >= capability.retry.attempts:
        lifecycle.fail(run, f"Step {step.number}, {step.capability}, failed {step.tries} times: {step.error}")


def unknown(attempt: Attempt, exc: BaseException) -> None:
    """It may have happened: it is looked for before anything else."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.RUNNING)
        if step is None:
            return
        step.error, step.due_at = text(reason_of(exc)), run.now
        step.move(StepState.UNKNOWN, "error", "due_at", *step.drop_lease())
        run.append("step.unknown", step=step, attempt=attempt.number, why=step.error)
        dispatch.look(step)


def not_found(attempt: Attempt) -> None:
    """`probe` saw nothing. That is conclusive only after the call's start + timeout + the target's own delay."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.UNKNOWN)
        if step is None:
            return
        settled_at = conclusive_at(step, attempt.capability)
        if run.now < settled_at:
            step.due_at = settled_at
            step.save(update_fields=["due_at", *step.drop_lease()])
            run.append("step.probed", step=step, attempt=attempt.number, found=False, conclusive=False, next_look=settled_at)
            return
        run.append("step.probed", step=step, attempt=attempt.number, found=False, conclusive=True)
        _nothing_happened(run, step, attempt.capability)


def repeatable(attempt: Attempt) -> None:
    """There is no way to look, but the target gives one effect for one key: it is asked again with the same key."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.UNKNOWN)
        if step is None:
            return
        tries_left = run.is_going_forward and step.tries < attempt.capability.retry.attempts
        if tries_left or not step.leaves_effect:
            run.append("step.probed", step=step, attempt=attempt.number, found=None, why="nothing can look; it is asked again")
            _nothing_happened(run, step, attempt.capability, why="asked again with the same key")
        else:
            _to_a_person(run, step)


def not_begun(attempt: Attempt) -> None:
    """The log shows that the worker was lost before it could call."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.UNKNOWN)
        if step is not None:
            run.append("step.probed", step=step, attempt=attempt.number, found=False, conclusive=True, why="it was never called")
            _nothing_happened(run, step, attempt.capability, why="it was never called")


def _nothing_happened(run: Run, step: Step, capability: Capability[Any], why: str = "nothing happened, looked for it") -> None:
    if not run.is_going_forward or step.tries >= capability.retry.attempts:
        step.error = f"{why}; {step.error}".strip("; ")
        run.append("step.failed", step=step, why=step.error)
        _give_up(run, step, capability)
        _tell(run, step)
        return
    step.due_at = run.now
    step.move(StepState.QUEUED if step.is_irreversible else StepState.REQUESTED, "due_at", *step.drop_lease())
    dispatch.invoke(step)


def no_answer(attempt: Attempt, exc: Exception) -> None:
    """The look itself failed; another one follows, later and later."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.UNKNOWN)
        if step is None:
            return
        wait = min(2.0 ** min(attempt.number, 6), 60)
        step.due_at, step.error = run.now + dt.timedelta(seconds=wait), text(reason_of(exc))
        step.save(update_fields=["due_at", "error", *step.drop_lease()])
        run.append("step.probed", step=step, attempt=attempt.number, found=None, why=step.error, next_look=step.due_at)


def for_a_person(attempt: Attempt) -> None:
    """It can't be looked for and must not be repeated: a person states how it ended."""
    with locked_run(attempt.run_id) as run:
        step = _fenced(run, attempt, StepState.UNKNOWN)
        if step is not None:
            _to_a_person(run, step)


def _to_a_person(run: Run, step: Step) -> None:
    step.due_at = None
    step.save(update_fields=["due_at", *step.drop_lease()])
    why = f"Step {step.number}, {step.capability}, may or may not have happened, and nothing can look for it: {step.error}"
    if run.state in (RunState.RELEASING, RunState.COMPENSATING):
        lifecycle.stop(run, why, step=step)
    else:
        page(run, f"step {step.number} may or may not have happened", why, step=step)
    _tell(run, step)


def fenced(attempt: Attempt) -> None:
    """A worker woke after its lease and made no call. Where the step went on without it, the log says so."""
    with locked_run(attempt.run_id) as run:
        step = run.steps.get(pk=attempt.step_id)
        if step.attempt != attempt.number:
            run.append(
                "step.late_effect", step=step, attempt=attempt.number, effect=None, why="fenced: its lease was over, it made no call"
            )


def _late(run: Run, attempt: Attempt, effect: dict[str, Any], how: str) -> None:
    """A worker that lost its lease brings an effect. It is logged; if nobody knew of it, it is undone or paged."""
    step = run.steps.get(pk=attempt.step_id)
    run.append("step.late_effect", step=step, attempt=attempt.number, effect=storable(effect))
    if step.state == StepState.UNKNOWN:
        # The answer that everybody was looking for.
        step.effect = storable(effect)
        _take_effect(run, step, how="late", attempt=attempt.number)
        return
    if not step.leaves_effect or step.in_effect:
        if step.leaves_effect and how == "answered" and step.effect != storable(effect):
            why = f"Attempt {attempt.number} at step {step.number}, {step.capability}, took effect late, beside another. Look for two."
            page(run, f"step {step.number} may have happened twice", why, step=step)
        return
    step.effect, step.done_at = storable(effect), step.done_at or run.now
    if step.state == StepState.LEFT_STANDING:
        # A person kept it already; now it is known what was kept.
        step.save(update_fields=["effect", "done_at"])
        return
    step.settled_by = step.settled_why = step.closed_why = ""
    step.state = StepState.SENT if step.is_irreversible else StepState.DONE
    step.save(update_fields=["state", "effect", "done_at", "settled_by", "settled_why", "closed_why"])
    # Held again as far as nobody else took it meanwhile.
    isolation.claim(run, step)
    if step.is_irreversible:
        signals.step_sent.send(Step, run=run, step=step)
    _after_late(run, step)


def _after_late(run: Run, step: Step) -> None:
    """What becomes of a run in which something took effect after all."""
    why = f"Step {step.number}, {step.capability}, took effect after it was taken to be over."
    if run.is_going_forward or run.state == RunState.COMPENSATING:
        return
    if run.state == RunState.STUCK or (run.state == RunState.FAILED and run.on_failure == "ask"):
        page(run, "something took effect late", why)
    elif run.pivot_at or step.is_irreversible or run.state == RunState.LEFT_STANDING:
        lifecycle.stop(run, why, step=step)
    else:
        lifecycle.begin_compensation(run, actor="engine", why=why)


def _tell(run: Run, step: Step) -> None:
    bell.answer(step.pk)
    isolation.free(run, step)
    if run.state == RunState.COMPENSATING:
        bell.ring("runs.tasks.compensate_run", run.pk)


def _fenced(run: Run, attempt: Attempt, *states: StepState) -> Step | None:
    """The step, if it is still this attempt's."""
    step = step_of(run, attempt.step_id)
    return step if step.attempt == attempt.number and step.state in states else None


def _renew(step: Step, attempt: Attempt) -> tuple[str, ...]:
    seconds = lease_for(attempt.call.timeout)
    attempt.ends = time.monotonic() + seconds
    return step.renew_lease(seconds)


def conclusive_at(step: Step, capability: Capability[Any]) -> dt.datetime:
    """From when on a look that sees nothing means that nothing happened."""
    assert step.started_at is not None
    # A worker may begin its call as late as its lease allows, which is the margin after its claim.
    return step.started_at + dt.timedelta(seconds=lease_for(timeout_of(capability), patience_of(capability.probe_for)))
