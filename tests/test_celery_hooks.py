"""What a worker does besides its tasks."""

from __future__ import annotations

import pytest
from celery.signals import task_prerun
from django.db import OperationalError, connection

import sagaboard.celery_hooks  # noqa: F401  # as a worker imports it
from runs import failpoints
from runs.models import Run


@pytest.mark.django_db(transaction=True)
def test_after_its_connection_broke_a_worker_does_its_next_task():
    Run.objects.count()
    failpoints._cut()
    with pytest.raises(OperationalError):
        Run.objects.count()
    with pytest.raises(OperationalError):
        Run.objects.count()  # so it goes on, without the hook
    task_prerun.send(sender=None)
    assert Run.objects.count() == 0
    known = connection.connection
    task_prerun.send(sender=None)
    assert connection.connection is known
