"""Named points at which a test can make this process die, stop, stall or lose its database, to see what recovery does.

Off unless the environment names a folder in SAGABOARD_FAILPOINTS. A file in it, `POINT`, `POINT@CAPABILITY`, `POINT#RUN`
or `POINT@CAPABILITY#RUN`, arms that point; before and after a commit the last entry's event stands for the capability, and
for a message its task. The file's text is the action: `kill`, `kill-worker` (the parent of this pool process), `stop`,
`raise`, `sleep 2`, `cut` (the database connection) or `empty-broker`. An armed point goes off once.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import redis
from django.conf import settings
from django.db import connection

FOLDER = os.environ.get("SAGABOARD_FAILPOINTS", "")
# Every point there is, for `manage.py failpoints` and for tests that go through all of them.
POINTS = (
    # Of every transaction that changes a run. The messages of a transaction leave between its commit and `commit.after`.
    "commit.before",
    "commit.after",
    "claim.committed",
    "prepare.before",
    "prepare.called",
    "prepare.committed",
    "do.before",
    "do.after",
    "done.committed",
    "look.claimed",
    "look.before",
    "look.after",
    "walk.claimed",
    "undo.looking",
    "undo.looked",
    "undo.checked",
    "undo.before",
    "undo.after",
    "undo.verified",
    "undo.committed",
    "walk.finished",
    "publish.before",
    "publish.after",
    "correct.claimed",
    "correct.looked",
    "correct.before",
    "correct.after",
    "correct.committed",
)


class Raised(Exception):
    """What the action `raise` raises."""


def reach(point: str, about: str = "", run: int = 0) -> None:
    """Says that this process is at `point`, with a capability, an event or a task of that run; does what a test armed, else nothing."""
    if FOLDER:
        _go_off(point, about, run)


def _go_off(point: str, about: str, run: int) -> None:
    for name in (f"{point}@{about}#{run}", f"{point}#{run}", f"{point}@{about}", point):
        armed = Path(FOLDER) / name
        fired = armed.with_name(f"{name}.fired.{os.getpid()}")
        try:
            armed.rename(fired)  # of several processes one gets it
        except FileNotFoundError:
            continue
        _act(fired.read_text().strip())


def _act(action: str) -> None:
    word, _, detail = action.partition(" ")
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "kill-worker":
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif word == "sleep":
        time.sleep(float(detail))
    elif word == "cut":
        _cut()
    elif word == "empty-broker":
        redis.Redis.from_url(settings.REDIS_URL).flushdb()
    elif word == "raise":
        raise Raised(detail)


def _cut() -> None:
    """Breaks the connection under its client, as a network or a restarted database does: it learns of it at its next query."""
    if connection.connection is not None and not connection.connection.closed:
        with socket.socket(fileno=os.dup(connection.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
