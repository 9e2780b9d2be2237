"""Runs all of sagaboard on one machine, or another list of processes, until it is told to stop.

with Supervisor(state_folder(), port=8000) as supervisor:
    ...  # everything answers; what dies is started again meanwhile
    supervisor.wait()  # until Ctrl-C or SIGTERM
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self, TextIO

from sagaboard import state as state_folder
from sagaboard.children import Backoff, Children
from sagaboard.stack import Stack, Stages


class Supervisor:
    """Holds the state folder, starts everything and keeps it running."""

    def __init__(
        self,
        state: Path,
        *,
        stages: Callable[[], Stages] | None = None,
        stream: TextIO | None = None,
        backoff: Backoff | None = None,
        **parts: Any,
    ) -> None:
        """`parts` are Stack's: port, workers, web, work, beat. `stages` makes another list of processes, servers included.

        `stream`, by default our standard output, gets what the children say.
        """
        self.state, self._stream, self._backoff = state, stream or sys.stdout, backoff or Backoff()
        self._stack = Stack(state, **parts)
        self._make_stages = stages or self._stack.stages
        self._children: Children | None = None
        self._thread: threading.Thread | None = None
        # Set by a signal's handler too, so no Event: what that interrupts may hold the Event's lock.
        self._to_stop = False
        self._reported, self._ended = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._lock: IO[str] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    @property
    def url(self) -> str:
        """Where the pages are."""
        return self._stack.url

    @property
    def urls(self) -> dict[str, str]:
        """DATABASE_URL and REDIS_URL, as every child has them in its environment."""
        return self._stack.urls

    @property
    def pids(self) -> dict[str, int]:
        """Of each child that runs, by name: postgres, valkey, worker-steps, worker-walks, beat, web."""
        return self._children.pids if self._children else {}

    def start(self) -> None:
        """Returns when all of it is ready; CannotStart says why it isn't, and then nothing is left running."""
        begun = time.monotonic()
        self._take_signals()
        try:
            self._begin()
            where = f": {self.url}" if self._stack.web else ""
            self._stream.write(f"sagaboard is up{where} ({time.monotonic() - begun:.1f} s)\n")
            self._stream.flush()
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Returns at Ctrl-C, SIGTERM or a hang-up; `stop` comes next."""
        with suppress(KeyboardInterrupt):
            self._ended.wait()
        if self._failure:
            raise self._failure

    def stop(self) -> None:
        """Everything ends in order, and the folder is free. A signal meanwhile makes it short."""
        self._to_stop = True
        if self._thread and self._thread.is_alive():
            self._ended.wait()  # Not join: interrupted by a signal, Python 3.11's takes the thread for ended.
        self._release()
        self._give_signals_back()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _begin(self) -> None:
        self._lock = state_folder.hold(self.state)
        self._children = Children(self._make_stages(), self._stream, stopping=self._is_to_stop, backoff=self._backoff)
        self._thread = threading.Thread(target=self._supervise, args=(self._children,), name="supervisor")
        self._thread.start()
        self._reported.wait()
        if self._failure:
            raise self._failure

    def _supervise(self, children: Children) -> None:
        """The one thread that starts, restarts and stops: the kernel ends the children when it ends."""
        try:
            children.start()
            self._reported.set()
            children.watch()
        except BaseException as exc:
            self._failure = exc
        finally:
            children.stop()
            self._release()
            self._reported.set()
            self._ended.set()

    def _release(self) -> None:
        if self._lock and not self._lock.closed:
            (self.state / "urls.json").unlink(missing_ok=True)
            self._lock.close()

    def _is_to_stop(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._to_stop

    def _take_signals(self) -> None:
        """What asks us to end interrupts the main thread, unless it is ignored (nohup). Asked again, we hurry."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN:
                self._handlers[number] = handler
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """The supervising thread ends everything, wherever in the main thread the exception comes up."""
        if not self._to_stop:
            self._to_stop = True
            raise KeyboardInterrupt
        if self._children:
            self._children.hurry = True

    def _give_signals_back(self) -> None:
        while self._handlers:
            signal.signal(*self._handlers.popitem())
