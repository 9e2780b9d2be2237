"""What a Celery worker does besides its tasks: it says when it is ready, and it forgets a database connection that broke.

That its pool ends with it, Celery sees to by itself (PDEATHSIG, in its prefork).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import task_prerun, worker_ready
from django.db import connections


@worker_ready.connect
def _say_ready(**_: Any) -> None:
    if path := os.environ.get("SAGABOARD_READY_FILE"):
        Path(path).touch()


@task_prerun.connect
def _forget_a_broken_connection(**_: Any) -> None:
    # Connections are kept over tasks. Nobody else would replace one that a restart of PostgreSQL broke: each of this
    # process's tasks would fail from then on. Without an error meanwhile this asks nothing of the database.
    for known in connections.all(initialized_only=True):
        if known.errors_occurred:
            known.close_if_unusable_or_obsolete()
