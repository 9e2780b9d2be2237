"""Child processes: how one is described, started so that it never outlives us, and ended. Imports nothing of ours."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

PR_SET_PDEATHSIG = 1
# Looked up here, since between fork and exec as little as possible may happen.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


class CannotStart(Exception):
    """Why something does not start, in a sentence for the person who tried."""


class Account(NamedTuple):
    """Another user of this machine, as whom a child runs."""

    name: str
    uid: int
    gid: int


def _always() -> bool:
    return True


def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Process:
    """What to run, how to know that it is ready, and how to end it."""

    name: str
    argv: Sequence[str | Path]
    role: str = ""  # processes of one role, neighbours in a stage, are stopped together
    env: Mapping[str, str] | None = field(default=None, repr=False)  # the whole environment; None is ours
    cwd: Path = Path("/")
    account: Account | None = None
    prepare: Callable[[], None] = _nothing  # before each start
    ready: Callable[[], bool] = _always
    once: bool = False  # a command that has to end with 0 before the next stage begins
    start_timeout: float = 60
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout: float = 10
    # What the kernel sends it when we are gone, killed with -9 for instance.
    orphan_signal: signal.Signals = signal.SIGKILL


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """From now on the kernel sends us `sig` when the *thread* that forked us ends. Linux; elsewhere this does nothing."""
    if _prctl is None:
        return
    _prctl(PR_SET_PDEATHSIG, int(sig))
    if os.getppid() != parent:  # It was gone before we asked.
        os.kill(os.getpid(), sig)


def identity(account: Account | None) -> dict[str, Any]:
    """The arguments by which `subprocess` changes to `account`."""
    return {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}


def launch(process: Process, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Start it in a session of its own: Ctrl-C reaches only us, and what it leaves behind can be found by its group."""
    process.prepare()
    try:
        return subprocess.Popen(
            process.argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=process.env,
            cwd=process.cwd,
            start_new_session=True,
            # It runs after the change of user, which would have cleared the setting.
            preexec_fn=partial(die_with_parent, os.getpid(), process.orphan_signal),
            **identity(process.account),
        )
    except OSError as exc:
        raise CannotStart(f"{process.name}: {process.argv[0]} can't be run ({exc.strerror}).") from exc


def is_ready(process: Process, popen: subprocess.Popen[bytes], since: float) -> bool:
    """Whether it answers, or has ended well where it runs once; CannotStart when it never will."""
    status = popen.poll()
    if status is not None and not (process.once and status == 0):
        raise CannotStart(f"{process.name} {ending(status)} before it was ready.")
    if status == 0 or (not process.once and process.ready()):
        return True
    if time.monotonic() - since > process.start_timeout:
        raise CannotStart(f"{process.name} was not ready after {process.start_timeout:g} s.")
    return False


def ending(status: int) -> str:
    """How it ended, in words."""
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def end_together(running: Iterable[tuple[Process, subprocess.Popen[bytes]]], *, hurry: Callable[[], bool] = lambda: False) -> None:
    """Ask each to stop, wait as long as each may take (a second if `hurry`), then kill what is left with its group."""
    waiting = list(running)
    begun = time.monotonic()
    for process, popen in waiting:
        popen.send_signal(process.stop_signal)
    while waiting := [(process, popen) for process, popen in waiting if popen.poll() is None]:
        spent = time.monotonic() - begun
        for process, popen in waiting:
            if spent > (min(1, process.stop_timeout) if hurry() else process.stop_timeout):
                kill_group(popen)
        time.sleep(0.02)


def kill_group(popen: subprocess.Popen[bytes]) -> None:
    """End at once what the child is or has left behind in its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
