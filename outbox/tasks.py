"""Celery's door to what reviewers are told."""

from celery import shared_task

from outbox import telling


@shared_task
def tell_reviewers() -> None:
    telling.tell()
