"""The record an agent resumes from: what is done with its effects, what waits, what remains."""

from __future__ import annotations

from typing import Any

from runs.models import LogEntry, Run, Step
from runs.sections import sections
from runs.states import StepState

REMAINS = (StepState.PLANNED, StepState.FAILED)


def of_run(run: Run) -> dict[str, Any]:
    """Everything a fresh agent needs to go on, and a checker to judge."""
    items = sections.items_of(run)
    steps = [of_step(step, items.get(step.pk)) for step in run.steps.as_planned()]
    head = LogEntry.objects.filter(run=run).newest_first().values_list("seq", "hash").first() or (0, "")
    return {
        "run": run.number,
        "title": run.title,
        "state": run.state,
        "owner": run.owner.username,
        "ticket": run.ticket,
        "session": run.session,
        "patience": run.patience,
        "off_plan": run.off_plan,
        "on_failure": run.on_failure,
        "retry_of": run.retry_of_id,
        "opened_at": run.opened_at,
        "failed_why": run.failed_why,
        "stopped_why": run.stopped_why,
        "checks": [{"name": c.name, "state": c.state, "subject": c.subject, "url": c.url} for c in run.checks.all()],
        "waits_for": waits_for(run),
        "steps": steps,
        "remaining": [step["ref"] or step["number"] for step in steps if step["state"] in REMAINS],
        "log": {"entries": head[0], "head": head[1]},
    }


def of_step(step: Step, item: dict[str, Any] | None = None) -> dict[str, Any]:
    """One step as its agent sees it."""
    return {
        "run": step.run_id,
        "number": step.number,
        "ref": step.ref,
        "capability": step.capability,
        "args": step.args,
        "kind": step.kind,
        "audience": step.audience,
        "state": step.state,
        "closed_why": step.closed_why,
        "key": step.key,
        "effect": step.effect,
        "error": step.error,
        "needs_result": step.needs_result,
        "requested_at": step.requested_at,
        "done_at": step.done_at,
        "undone_at": step.undone_at,
        "item": item,
    }


def waits_for(run: Run) -> str:
    """In a sentence, what has to happen next, and by whom."""
    steps = list(run.steps.pending().as_planned())
    on_hold = [step for step in steps if step.state == StepState.ON_HOLD]
    gates = [step for step in steps if step.is_gate and step.state == StepState.QUEUED]
    running = [step for step in steps if step.state in (StepState.REQUESTED, StepState.RUNNING, StepState.UNKNOWN)]
    if run.state == "open":
        if on_hold:
            return f"a person, to let step {on_hold[0].number} through"
        if gates:
            return f"a reviewer, to decide on step {gates[0].number}"
        if running:
            return f"step {running[0].number} to end"
        return "the agent's next call"
    if run.state == "checking":
        pending = [check.name for check in run.checks.all() if check.state != "success"]
        return f"the check {pending[0]}" if pending else "a person, since the run has no check"
    return {
        "releasing": "reviewers and the outbox",
        "failed": "a person, to undo it" if run.steps.in_effect().exists() else "nobody",
        "compensating": "the undo to end",
        "stuck": "a person",
    }.get(run.state, "nobody")
