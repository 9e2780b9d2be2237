"""How a run moves on: the steps of its life that the engine and the services share. Each wants the run's lock."""

from __future__ import annotations

from django.db.models import QuerySet

from runs import bell, isolation, signals
from runs.models import Run, Step
from runs.paging import page
from runs.states import RunState, StepState

STILL_GOING_OUT = (StepState.QUEUED, StepState.RUNNING, StepState.UNKNOWN, StepState.FAILED)


def fail(run: Run, why: str, *, actor: str = "engine") -> None:
    """The run failed: nothing that waits goes out any more, and its effects are undone or on-call is asked."""
    past_pivot = run.state == RunState.RELEASING and run.pivot_at
    if past_pivot:
        stop(run, why, actor=actor)
        return
    run.failed_at, run.failed_why = run.now, why
    run.move(RunState.FAILED, "failed_at", "failed_why")
    run.append("run.failed", actor=actor, why=why)
    withdraw(run, actor=actor)
    signals.run_failed.send(Run, run=run)
    if not run.steps.in_effect().exists():
        return
    if run.on_failure == "compensate":
        begin_compensation(run, actor="engine", why="the run's policy undoes at once")
    else:
        page(run, "failed, effects are still out there", why)


def fail_and_undo(run: Run, why: str, *, actor: str) -> None:
    """A rejection, or nobody's answer to a gate: everything before it is undone, whatever `on_failure` says."""
    fail(run, why, actor=actor)
    if run.state == RunState.FAILED and run.steps.in_effect().exists():
        begin_compensation(run, actor=actor, why=why)


def withdraw(run: Run, *, actor: str = "engine") -> None:
    """Closes what was asked for and has not begun."""
    for step in run.steps.filter(state__in=[StepState.REQUESTED, StepState.QUEUED, StepState.ON_HOLD]):
        close(run, step, "withdrawn", actor=actor)


def close(run: Run, step: Step, why: str, *, actor: str, said: str = "") -> None:
    """A waiting call will not be made. `why` is one of withdrawn, rejected, expired, dropped; `said` is the person's reason."""
    step.closed_why, step.error, step.ended_at = why, said, run.now
    step.move(StepState.CLOSED, "closed_why", "error", "ended_at")
    run.append("step.closed", step=step, actor=actor, why=why, said=said)
    isolation.free(run, step)
    signals.step_closed.send(Step, run=run, step=step)
    bell.answer(step.pk)


def stop(run: Run, why: str, *, actor: str = "engine", step: Step | None = None) -> None:
    """Stuck: nothing more is undone or sent until a person acts, and people are paged."""
    run.stopped_why = why
    fields = [*run.drop_lease(), "stopped_why"]
    if run.state != RunState.STUCK:
        run.move(RunState.STUCK, *fields)
    run.append("run.stuck", step=step, actor=actor, why=why)
    page(run, "stuck", why, step=step)


def begin_compensation(
    run: Run, *, actor: str, why: str = "", to: str = "", override: bool = False, undo_over: list[int] | None = None
) -> None:
    """From here the run is undone from its log, in reverse; a worker takes the walk."""
    run.compensating_since, run.undo_to, run.override_pivot, run.undo_over = run.now, to, override, undo_over or []
    run.stopped_why, run.pause_asked = "", False
    run.move(RunState.COMPENSATING, "compensating_since", "undo_to", "override_pivot", "undo_over", "stopped_why", "pause_asked")
    run.append("run.compensating", actor=actor, why=why, to=to, override=override, undo_over=undo_over or [])
    bell.ring("runs.tasks.compensate_run", run.pk)


def advance(run: Run) -> None:
    """Goes on as far as nothing stands in the way: checking, releasing, succeeded."""
    if run.state == RunState.CHECKING and run.required_checks_green():
        if run.steps.filter(state=StepState.QUEUED).exists():
            run.move(RunState.RELEASING)
            run.append("run.released")
            signals.run_released.send(Run, run=run)
        else:
            succeed(run)
    if run.state == RunState.RELEASING and not _still_going_out(run).exists():
        succeed(run)


def checks_changed(run: Run) -> None:
    """After a checker's word that is not red: goes on, also with sending that a check had held up."""
    releasing = run.state == RunState.RELEASING
    advance(run)
    if releasing and run.state == RunState.RELEASING and run.required_checks_green():
        signals.run_released.send(Run, run=run)


def succeed(run: Run) -> None:
    run.move(RunState.SUCCEEDED)
    run.append("run.succeeded")
    signals.run_ended.send(Run, run=run)


def _still_going_out(run: Run) -> QuerySet[Step]:
    return run.steps.filter(state__in=STILL_GOING_OUT, kind="irreversible", leaves_effect=True)
