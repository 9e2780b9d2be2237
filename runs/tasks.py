"""Celery's doors to the engine: ids in, one call, nothing decided."""

from celery import shared_task

from runs import freezing
from runs.capability import Capability
from runs.engine import compensate, deliver, drill, invoke, tidy
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
    deliver.ring_due()
    freezing.write_anchor()


@shared_task
def deliver_pages() -> None:
    deliver.pages_due()


@shared_task
def drill_run(run_id: int) -> None:
    drill.go_on(run_id)
