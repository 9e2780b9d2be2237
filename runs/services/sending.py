"""What a person can do about a call that should have gone out past the pivot and did not: try again, or drop it."""

from __future__ import annotations

from django.db.models import QuerySet

from runs import dispatch, lifecycle, signals
from runs.exceptions import Refused
from runs.locking import locked_run
from runs.models import Run, Step
from runs.services.people import check_right, want
from runs.states import CheckState, RunState, StepState
from sagaboard.accounts.models import User


def retry_sending(run: Run, *, by: User) -> None:
    """After a send that failed past the pivot: forward again, with the same key."""
    check_right(by, "compensate_run", run)
    with locked_run(run.pk) as locked:
        _check_stuck(locked)
        if locked.checks.filter(state=CheckState.FAILURE).exists():
            raise Refused("A check is red. Nothing goes out until it is green.")
        if lost := _unsent(locked, StepState.UNKNOWN).filter(due_at=None).first():
            raise Refused(f"Step {lost.number}, {lost.capability}, may or may not have gone out. Settle that first.")
        for step in _unsent(locked, StepState.FAILED):
            step.tries, step.due_at, step.ended_at = 0, locked.now, None
            step.move(StepState.QUEUED, "tries", "due_at", "ended_at")
            locked.append("step.queued", step=step, actor=f"person:{by}", again=True)
            dispatch.invoke(step)
        _go_on(locked, by)


def drop_send(step: Step, *, by: User, reason: str) -> None:
    """A call that could not be sent is not sent; what else waits goes on once nothing else stands in the way."""
    check_right(by, "compensate_run", step.run)
    want(reason, "say why it is not sent; it stands in the report")
    with locked_run(step.run_id) as run:
        _check_stuck(run)
        current = _unsent(run, StepState.FAILED).filter(pk=step.pk).first()
        if current is None:
            raise Refused("It is not a call whose sending failed; there is nothing to drop.")
        lifecycle.close(run, current, "dropped", actor=f"person:{by}", said=reason)
        stands = _unsent(run, StepState.FAILED, StepState.UNKNOWN).exists()
        if not stands and not run.checks.filter(state=CheckState.FAILURE).exists():
            _go_on(run, by)


def _check_stuck(run: Run) -> None:
    if run.state != RunState.STUCK or run.compensating_since is not None:
        raise Refused(f"It is {run.get_state_display().lower()}; no send waits for a retry.")


def _unsent(run: Run, *states: StepState) -> QuerySet[Step]:
    return run.steps.filter(state__in=states, kind="irreversible", leaves_effect=True)


def _go_on(run: Run, by: User) -> None:
    run.stopped_why = ""
    run.move(RunState.RELEASING, "stopped_why")
    run.append("run.released", actor=f"person:{by}", again=True)
    signals.run_released.send(Run, run=run)
    lifecycle.advance(run)
