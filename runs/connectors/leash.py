"""Runs a command that must not outlive who started it: `python -I leash.py COMMAND…`, with a pipe as standard input.

When that pipe closes, which the kernel does for a starter killed by any signal, the command is killed with all that it
started. A file of its own, run apart from the project, so that it starts fast and needs nothing.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=kill_when_let_go, args=(command.pid,), daemon=True).start()
    code = command.wait()
    kill(command.pid)  # What it left running in the background.
    return code if code >= 0 else 128 - code


def kill_when_let_go(group: int) -> None:
    os.read(0, 1)
    kill(group)
    os._exit(137)


def kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
