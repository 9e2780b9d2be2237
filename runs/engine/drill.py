"""Goes through a drill: do, undo, verify_undone, one after the other. Killed anywhere, it is resumed where it was."""

from __future__ import annotations

import logging
import time

from django.db.models import Exists, OuterRef, QuerySet

from runs import lifecycle, registry
from runs.capability import Capability
from runs.engine.compensate import compensate
from runs.engine.invoke import invoke, look
from runs.locking import locked_run
from runs.models import CapabilityRecord, LogEntry, Run, Step
from runs.states import RunState, StepState

log = logging.getLogger(__name__)
# The command waits for another worker's walk so long; a worker leaves it to the next sweep.
WALKS_WITHIN = 300.0


def unfinished() -> QuerySet[Run]:
    """Drills whose end is not written down."""
    told = LogEntry.objects.filter(run=OuterRef("pk"), event="capability.drilled")
    return Run.objects.filter(is_drill=True).exclude(Exists(told))


def queue_of(run_id: int) -> str:
    """Whose workers have the credentials for this drill."""
    capability = registry.find(Step.objects.get(run=run_id).capability)
    return capability.queue if capability else Capability.queue


def go_on(run_id: int, *, waits: float = 0.0) -> tuple[bool, str] | None:
    """Whether the undo is proven, and in words how it went; None while it is not over."""
    step = Step.objects.get(run=run_id)
    invoke(run_id, step.pk)
    look(run_id, step.pk)
    step.refresh_from_db()
    if step.state in (StepState.REQUESTED, StepState.RUNNING, StepState.UNKNOWN) and not waits:
        return None
    _turn_back(run_id)
    return _end(run_id) if _walk(run_id, waits) else None


def _turn_back(run_id: int) -> None:
    with locked_run(run_id) as run:
        actor = f"person:{run.owner}"
        if run.state == RunState.OPEN:
            lifecycle.fail(run, "the drill's end", actor=actor)
        if run.state == RunState.FAILED and run.steps.filter(state=StepState.DONE).exists():
            lifecycle.begin_compensation(run, actor=actor, why="drill")


def _walk(run_id: int, waits: float) -> bool:
    """Walks back here, or waits for the worker that was quicker to take the walk."""
    until = time.monotonic() + waits
    while True:
        compensate(run_id, queue_of(run_id))
        if Run.objects.get(pk=run_id).state != RunState.COMPENSATING:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)


def _end(run_id: int) -> tuple[bool, str]:
    with locked_run(run_id) as run:
        step = run.steps.get()
        proven = step.state == StepState.UNDONE
        says = "do, undo and verify_undone worked" if proven else f"{step.get_state_display().lower()}: {step.undo_error or step.error}"
        if not run.entries.filter(event="capability.drilled").exists():
            run.append("capability.drilled", step=step, actor=f"person:{run.owner}", proven=proven, says=says)
            if proven:
                CapabilityRecord.objects.filter(name=step.capability, version=step.version).update(
                    proven_version=step.version, proven_at=run.now, proven_how=f"drill, run {run.number}"
                )
    return proven, says
