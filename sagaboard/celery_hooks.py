"""What a Celery worker does for the supervisor: it says when it is ready.

That its pool ends with it, Celery sees to by itself (PDEATHSIG, in its prefork).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import worker_ready


@worker_ready.connect
def _say_ready(**_: Any) -> None:
    if path := os.environ.get("SAGABOARD_READY_FILE"):
        Path(path).touch()
