"""Calls the workers that can do it: those of the queue that a step's capability names, which hold its credentials."""

from __future__ import annotations

from runs import bell, registry
from runs.capability import Capability
from runs.models import Step

WALK = "runs.tasks.compensate_run"


def queue_of(step: Step) -> str:
    """Where the workers listen that may call for this step; what no code defines any more can be looked at by any."""
    capability = registry.find(step.capability)
    return capability.queue if capability is not None else Capability.queue


def invoke(step: Step) -> None:
    _ring("runs.tasks.invoke_step", step)


def look(step: Step) -> None:
    _ring("runs.tasks.look_for_step", step)


def walk(run_id: int, queue: str) -> None:
    """Hands the way back of a run to the workers of `queue`."""
    if queue == Capability.queue:
        bell.ring(WALK, run_id)
    else:
        bell.ring_at(queue, WALK, run_id, queue)


def _ring(task: str, step: Step) -> None:
    queue = queue_of(step)
    if queue == Capability.queue:
        bell.ring(task, step.run_id, step.pk)
    else:
        bell.ring_at(queue, task, step.run_id, step.pk)
