"""The end of a run as its agent and its checkers tell it."""

from __future__ import annotations

from runs import lifecycle
from runs.engine.sweep import fail_if_red
from runs.exceptions import Invalid, NotOpen, Refused, Unfinished
from runs.locking import locked_run
from runs.models import Check, Run, Step
from runs.services.opening import check_session
from runs.states import CheckState, RunState, StepState
from sagaboard.accounts.models import Token

NOT_FINISHED = (StepState.REQUESTED, StepState.RUNNING, StepState.UNKNOWN, StepState.FAILED, StepState.ON_HOLD, StepState.PLANNED)


def finish_run(run: Run, *, token: Token, session: int | None = None) -> Run:
    """The agent is done: from here the checks decide. Refused, naming them, while steps are open."""
    with locked_run(run.pk) as locked:
        check_session(locked, session)
        if locked.state in (RunState.CHECKING, RunState.RELEASING, RunState.SUCCEEDED):
            return locked
        if locked.state != RunState.OPEN:
            raise NotOpen(f"Run {locked.number} is {locked.get_state_display().lower()}; it can't be finished.", state=locked.state)
        unfinished = [*locked.steps.filter(state__in=NOT_FINISHED), *_open_gates(locked)]
        if unfinished:
            named = ", ".join(f"{step.ref or step.number} ({step.get_state_display().lower()})" for step in unfinished)
            raise Unfinished(
                f"Not finished: {named}. Ask for what is planned or failed, or skip it with a reason, and wait for what runs.",
                steps=[{"number": step.number, "ref": step.ref, "state": step.state} for step in unfinished],
            )
        locked.checking_since = locked.last_heard_at = locked.now
        locked.move(RunState.CHECKING, "checking_since", "last_heard_at")
        locked.append("run.checking", actor=f"token:{token.name}", checks=list(locked.checks.values_list("name", flat=True)))
        lifecycle.advance(locked)
        return locked


def _open_gates(run: Run) -> list[Step]:
    return list(run.steps.filter(state=StepState.QUEUED, needs_result=True))


def fail_run(run: Run, *, token: Token, reason: str, session: int | None = None) -> Run:
    """The agent gives up."""
    with locked_run(run.pk) as locked:
        check_session(locked, session)
        if locked.state == RunState.FAILED:
            return locked
        if not locked.is_going_forward:
            raise NotOpen(f"Run {locked.number} is {locked.get_state_display().lower()}; it can't fail any more.", state=locked.state)
        lifecycle.fail(locked, reason, actor=f"token:{token.name}")
        return locked


def report_check(run: Run, *, token: Token, name: str, state: str, subject: str = "", url: str = "") -> Check:
    """A checker's word on one part of the success condition. After the run failed it is only written down."""
    if token.checks and name not in token.checks:
        raise Refused(f"This token reports {', '.join(token.checks)}, not “{name}”.")
    with locked_run(run.pk) as locked:
        check = locked.checks.filter(name=name).first()
        if check is None:
            known = ", ".join(locked.checks.values_list("name", flat=True)) or "none"
            raise Invalid(f"Run {locked.number} has no check “{name}”. It has: {known}.")
        check.state, check.subject, check.url = state, subject, url
        check.reported_by, check.reported_at = f"token:{token.name}", locked.now
        check.save()
        locked.append("check.reported", actor=f"token:{token.name}", check=name, state=state, subject=subject, url=url)
        if state == CheckState.FAILURE and locked.is_going_forward:
            fail_if_red(locked)
        else:
            lifecycle.checks_changed(locked)
        return check
