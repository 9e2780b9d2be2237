"""Beat's own Celery app. It only calls tasks by their names: Django's apps and ours, which it never loads, are half of its memory."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from sagaboard.queues import configuration

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sagaboard.settings")


def _without_modules() -> dict[str, Any]:
    return {**configuration(), "include": ()}


app = Celery("sagaboard", fixups=[])
app.add_defaults(_without_modules)
