"""Named points at which a test can make this process die, stop, stall or lose its database, to see what recovery does.

Off unless the environment names a folder in SAGABOARD_FAILPOINTS. A file in it, `POINT` or `POINT@CAPABILITY`, arms
that point; its text is the action: `kill`, `kill-worker` (the parent of this pool process), `stop`, `raise`, `sleep 2`
or `cut`. An armed point goes off once.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from django.db import connection

FOLDER = os.environ.get("SAGABOARD_FAILPOINTS", "")
# Every point there is, for `manage.py failpoints` and for tests that go through all of them.
POINTS = (
    "claim.committed",
    "prepare.called",
    "prepare.committed",
    "do.before",
    "do.after",
    "done.committed",
    "look.claimed",
    "look.after",
    "walk.claimed",
    "undo.checked",
    "undo.before",
    "undo.after",
    "undo.verified",
    "undo.committed",
    "walk.finished",
    "publish.before",
    "publish.after",
    "correct.claimed",
    "correct.before",
    "correct.after",
    "correct.committed",
)


class Raised(Exception):
    """What the action `raise` raises."""


def reach(point: str, capability: str = "") -> None:
    """Says that this process is at `point`; does what a test armed, else nothing."""
    if FOLDER:
        _go_off(point, capability)


def _go_off(point: str, capability: str) -> None:
    for name in (f"{point}@{capability}", point):
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
        connection.close()
    elif word == "raise":
        raise Raised(detail)
