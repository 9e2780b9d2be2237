"""A Celery worker says to its supervisor that it takes work. Needs nothing of Django, as small stacks have none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import worker_ready


@worker_ready.connect
def _say_ready(**_: Any) -> None:
    if path := os.environ.get("SAGABOARD_READY_FILE"):
        Path(path).touch()
