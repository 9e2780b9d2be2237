"""Gunicorn's settings. Pages poll and agents wait in threads; the address comes from the supervisor."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

from sagaboard.processes import die_with_parent

MEMORY = Path("/dev/shm")  # noqa: S108 - gunicorn opens its file there safely

worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
threads = int(os.environ.get("SAGABOARD_WEB_THREADS", "32"))
# A page polls every second or two on one connection; between polls the connection holds no thread.
keepalive = 15
graceful_timeout = 15
accesslog = None
loglevel = "warning"
# The heartbeat is a file that is touched every second: not on a disk that may be slow.
worker_tmp_dir = str(MEMORY) if MEMORY.is_dir() else None
# Its default place is the home folder, one for all checkouts.
control_socket_disable = True


def post_fork(server: Any, worker: Any) -> None:
    die_with_parent(worker.ppid)


def post_worker_init(worker: Any) -> None:
    # What is loaded by now stays: a collection that walked through it, in the middle of a page, would take longer than the page.
    gc.collect()
    gc.freeze()
