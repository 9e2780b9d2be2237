"""The Celery app of web and workers."""

from __future__ import annotations

import os

from celery import Celery

from sagaboard.queues import configuration

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sagaboard.settings")

app = Celery("sagaboard")
app.add_defaults(configuration)
app.autodiscover_tasks(["runs", "outbox", "corrections"])
