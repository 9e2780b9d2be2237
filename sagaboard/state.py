"""The state folder: made so that its servers can get in, held by one supervisor at a time."""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from sagaboard.processes import CannotStart


def make(state: Path) -> None:
    """The folder exists. As root others may pass through, since PostgreSQL runs as one of them; nobody may list it.

    An existing folder keeps its mode: it may be more than ours.
    """
    if state.exists():
        return
    if not state.parent.exists():
        make(state.parent)
    try:
        state.mkdir(exist_ok=True)
    except OSError as exc:
        raise CannotStart(f"The state folder {state} can't be made ({exc.strerror}): name another in SAGABOARD_STATE.") from exc
    state.chmod(0o711 if os.geteuid() == 0 else 0o700)


def belongs_to_another(state: Path) -> CannotStart:
    return CannotStart(f"{state} belongs to another user: become that one, or name another folder in SAGABOARD_STATE.")


def hold(state: Path) -> IO[str]:
    """The lock on the folder, ours until it is closed or we die; CannotStart says who has it."""
    make(state)
    try:
        lock = (state / "lock").open("a+")
    except PermissionError:
        raise belongs_to_another(state) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with lock:
            lock.seek(0)
            raise CannotStart(
                f"{state} is in use by {lock.read().strip() or 'another process'}. Stop that one first, "
                "or name another folder in SAGABOARD_STATE."
            ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()}, started {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n")
    lock.flush()
    return lock
