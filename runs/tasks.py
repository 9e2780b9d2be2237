"""Celery's doors to the engine: ids in, one call, nothing decided."""

from celery import shared_task

from runs import freezing
from runs.capability import Capability
from runs.engine import compensate, deliver, invoke, tidy
from runs.engine import sweep as sweeping


@shared_task
def invoke_step(run_id: int, step_id: int) -> None:
    invoke.invoke(run_id, step_id)


@shared_task
def look_for_step(run_id: int, step_id: int) -> None:
    invoke.look(run_id, step_id)


@shared_task
def compensate_run(run_id: int, queue: str = Capability.queue) -> None:
    compensate.compensate(run_id, queue)


@shared_task
def tidy_up() -> None:
    tidy.tidy_up()


@shared_task
def sweep() -> None:
    sweeping.sweep()
    deliver.pages_due()
    freezing.write_anchor()
