"""Celery's door to the delivery."""

from celery import shared_task

from corrections import delivery


@shared_task
def deliver_correction(run_id: int, correction_id: int) -> None:
    delivery.deliver(run_id, correction_id)
