"""Celery's doors to the delivery and to what is due by itself."""

from celery import shared_task

from corrections import by_itself, delivery, replies, reports


@shared_task
def deliver_correction(run_id: int, correction_id: int) -> None:
    delivery.deliver(run_id, correction_id)


@shared_task
def send_by_itself(run_id: int, correction_id: int) -> None:
    by_itself.send_by_itself(run_id, correction_id)


@shared_task
def count_replies(run_id: int, correction_id: int) -> None:
    replies.count(correction_id)


@shared_task
def mail_report(run_id: int, report_id: int) -> None:
    reports.mail(run_id, report_id)
