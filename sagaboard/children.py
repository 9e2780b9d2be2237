"""Keeps processes running: starts them stage by stage, restarts what dies, prefixes what they say, stops them in order."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import IO, TextIO

from sagaboard.processes import CannotStart, Process, end_together, ending, is_ready, kill_group, launch

TICK = 0.05
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


@dataclass(frozen=True)
class Backoff:
    """How long to wait before the next try, in seconds: doubling, and from the start again once it has been well."""

    first: float = 0.2
    most: float = 30
    well_after: float = 30

    def delay(self, failures: int) -> float:
        return min(self.most, self.first * 2.0 ** min(failures, 20))


class Output:
    """The one stream that every child's lines go to, each behind the child's name."""

    def __init__(self, stream: TextIO, names: Sequence[str]) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._width = max(map(len, names), default=0)
        colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        self._colours = colours if stream.isatty() else {}

    def line(self, name: str, text: str) -> None:
        head = f"{name:<{self._width}} |"
        if name in self._colours:
            head = f"\033[{self._colours[name]}m{head}\033[0m"
        # Where nobody reads any more, the children's lines are taken all the same, or they would block.
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(f"{head} {text}\n")
            self._stream.flush()

    def follow(self, name: str, source: IO[bytes]) -> threading.Thread:
        """Pass on what comes from `source`, in a thread, until it ends."""
        pump = threading.Thread(target=self._pump, args=(name, source), name=f"output of {name}", daemon=True)
        pump.start()
        return pump

    def _pump(self, name: str, source: IO[bytes]) -> None:
        with source:
            for line in source:
                self.line(name, line.decode(errors="replace").rstrip())


class Child:
    """One process of the list: starting, well, or waiting for its next try."""

    def __init__(self, process: Process, output: Output, backoff: Backoff) -> None:
        self.process, self._output, self._backoff = process, output, backoff
        self.popen: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None
        self.is_well = False
        self._failures = 0
        self._since = self._next_try = time.monotonic()

    def begin(self) -> None:
        self._since = time.monotonic()
        self.popen = launch(self.process, subprocess.PIPE)
        if self.popen.stdout:
            self._pump = self._output.follow(self.process.name, self.popen.stdout)

    def look(self) -> bool:
        """Whether it has become ready by now; CannotStart when it won't."""
        self.is_well = self.is_well or (self.popen is not None and is_ready(self.process, self.popen, self._since))
        return self.is_well

    def tend(self) -> None:
        """Bring it back if it died."""
        try:
            self._go_on()
        except CannotStart as exc:
            self._fail(str(exc))

    def _go_on(self) -> None:
        if self.popen is None:
            if time.monotonic() >= self._next_try:
                self.begin()
        elif not self.is_well:
            self.look()
        elif (status := self.popen.poll()) is not None:
            self._fail(f"{self.process.name} {ending(status)}.")

    def _fail(self, reason: str) -> None:
        if self.is_well and time.monotonic() - self._since > self._backoff.well_after:
            self._failures = 0
        delay = self._backoff.delay(self._failures)
        self._failures += 1
        self.clear()
        self._next_try = time.monotonic() + delay
        self._output.line("up", f"{reason} Next try in {delay:g} s.")

    def clear(self) -> None:
        """Nothing is left of it, nor of what it started in its session."""
        if self.popen:
            kill_group(self.popen)
            self.popen.wait()
        if self._pump:
            self._pump.join(0.5)  # Its last words, unless somebody else holds the pipe open.
        self.popen, self._pump, self.is_well = None, None, False


class Children:
    """All of them. `start`, `watch` and `stop` belong to one thread: the kernel ends the children with it."""

    def __init__(
        self,
        stages: Sequence[Sequence[Process]],
        stream: TextIO,
        *,
        stopping: Callable[[float], bool],
        backoff: Backoff,
    ) -> None:
        """`stopping(seconds)` waits so long at most and tells whether it is time to stop."""
        self._stages, self._stopping, self._backoff = stages, stopping, backoff
        self._output = Output(stream, [process.name for stage in stages for process in stage] + ["up"])
        self._running: list[Child] = []
        self.hurry = False

    @property
    def pids(self) -> dict[str, int]:
        """By name, of those that run."""
        return {child.process.name: child.popen.pid for child in self._running if child.popen}

    def start(self) -> None:
        """All stages are ready, unless it is time to stop; CannotStart when one won't be."""
        for stage in self._stages:
            earlier, now = self._running, [Child(process, self._output, self._backoff) for process in stage]
            self._running = earlier + now
            for child in now:
                child.begin()
            while not _all_ready(now):
                self._tend(earlier)
                if self._stopping(TICK):
                    return
            self._running = [child for child in self._running if not child.process.once]

    def watch(self) -> None:
        """Until it is time to stop, what dies is started again."""
        while not self._stopping(2 * TICK):
            self._tend(self._running)

    def stop(self) -> None:
        """The last started first, those of one role together."""
        for _, together in groupby(reversed(self._running), key=lambda child: child.process.role or child.process.name):
            group = list(together)
            end_together([(c.process, c.popen) for c in group if c.popen], hurry=lambda: self.hurry)
            for child in group:
                child.clear()
        self._running = []

    @staticmethod
    def _tend(children: Sequence[Child]) -> None:
        for child in children:
            child.tend()


def _all_ready(children: Sequence[Child]) -> bool:
    """Each is looked at, also behind one that isn't: it may have failed."""
    answers = [child.look() for child in children]
    return all(answers)
