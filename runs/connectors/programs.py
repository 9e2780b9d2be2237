"""Runs a program on the worker within a time, with what it said, and leaves nothing of it running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")


def run_bounded(argv: list[str], *, cwd: Path, env: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs `argv` for `seconds` at most; then it and all that it started are killed, and TimeoutExpired is raised."""
    process = _started(argv, cwd, env, subprocess.DEVNULL)
    try:
        return _ended(process, seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # git's helpers too; they hold the connection
        process.communicate()
        raise


def run_leashed(argv: list[str], *, cwd: Path, env: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    """As `run_bounded`, and also when this process is killed or frozen meanwhile.

    A push that outlives its worker could land after a probe has found, conclusively, that nothing happened.
    """
    read, write = os.pipe()
    timeout = ["timeout", "-s", "KILL", f"{seconds + 1:.1f}"] if shutil.which("timeout") else []
    process = _started([sys.executable, "-I", str(LEASH), *timeout, *argv], cwd, env, read)
    os.close(read)
    try:
        return _ended(process, seconds)
    finally:
        os.close(write)  # The leash kills what still runs.
        process.communicate()


def _started(argv: list[str], cwd: Path, env: Mapping[str, str], stdin: int) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)


def _ended(process: subprocess.Popen[bytes], seconds: float) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=seconds)
    return subprocess.CompletedProcess(process.args, process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
