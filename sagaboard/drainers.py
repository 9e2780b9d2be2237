"""A worker's drainers: one long task in each process of its pool, that does what is rung for at its queues of steps (runs/drain.py).

Celery's pool runs them and replaces a process that died; here they are begun, and begun again when they end. They are
tasks of the pool and never messages, so that none lies in the broker: it may be emptied, and no restart leaves some behind.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from celery import bootsteps
from celery.concurrency.prefork import TaskPool
from celery.signals import task_received, worker_shutting_down
from django.core.exceptions import ImproperlyConfigured

from runs import bell
from runs.drain import drain
from sagaboard.queues import BY_MESSAGE

# Whatever ends a drainer at once, it does not do so without a pause.
BEGUN_AGAIN_AFTER = 0.5


class Hands:
    """What each drainer holds, and what the worker's main process wants of them all, in memory shared over the fork."""

    SIZE = 1024
    # Whether it is full, when it was filled last, and the length of what it holds.
    HEAD = struct.Struct("=?dH")
    ROOM = SIZE - HEAD.size

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, self.SIZE * (number + 1))

    def stop(self) -> None:
        self._memory[0] = 1

    def ask_for_way(self) -> None:
        self._memory[1] = 1

    def is_to_stop(self) -> bool:
        return bool(self._memory[0])

    def makes_way(self) -> bool:
        asked, self._memory[1] = self._memory[1], 0
        return bool(asked)

    def is_full(self, place: int) -> bool:
        return bool(self._head(place)[0])

    def last_filled(self) -> float:
        """A time of `time.monotonic`, which is the same for all processes."""
        return max(float(self._head(place)[1]) for place in range(self.number))

    def fill(self, place: int, text: bytes) -> None:
        text = text if len(text) <= self.ROOM else b""  # found by the sweep, should it be lost
        start = self._start(place) + self.HEAD.size
        self._memory[start : start + len(text)] = text
        self.HEAD.pack_into(self._memory, self._start(place), True, time.monotonic(), len(text))

    def empty(self, place: int) -> bytes:
        """What it held."""
        full, at, length = self._head(place)
        self.HEAD.pack_into(self._memory, self._start(place), False, at, 0)
        start = self._start(place) + self.HEAD.size
        return self._memory[start : start + length] if full else b""

    def _start(self, place: int) -> int:
        return self.SIZE * (place + 1)

    def _head(self, place: int) -> tuple[Any, ...]:
        return self.HEAD.unpack_from(self._memory, self._start(place))


class Hand:
    """One drainer's."""

    def __init__(self, hands: Hands, place: int) -> None:
        self._hands, self._place = hands, place
        self.is_to_stop, self.makes_way = hands.is_to_stop, hands.makes_way

    def hold(self, queue: str, rung: bytes) -> None:
        self._hands.fill(self._place, queue.encode() + b"\n" + rung)

    def let_go(self) -> None:
        self._hands.empty(self._place)


# Of this worker, if it has queues of steps. Its processes have it by the fork.
hands: Hands | None = None


def work(place: int, queues: Sequence[str]) -> None:
    """A drainer, in a process of the pool; ends that process when it is to be replaced."""
    assert hands is not None
    # Not all as long, or all were to be replaced at the same moment.
    if drain(queues, Hand(hands, place), life=1 + place / 10):
        sys.exit()


class Drainers(bootsteps.StartStopStep):
    """Begins them when the worker can take work, and has them stop when it ends."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.queues = [name for name in worker.app.amqp.queues.consume_from if name not in BY_MESSAGE]
        self.enabled = bool(self.queues)
        if self.enabled:
            self._prepare(worker)

    def _prepare(self, worker: Any) -> None:
        """Before the pool forks, which comes later."""
        global hands
        if not issubclass(worker.pool_cls, TaskPool):
            # Only the main thread of a process can be cut off at the hard timeout of a call.
            raise ImproperlyConfigured(f"A worker for {', '.join(self.queues)} needs processes: start it with --pool prefork.")
        hands = self.hands = Hands(worker.concurrency)
        self._tasks: list[Any] = [None] * self.hands.number

    def register_with_event_loop(self, worker: Any, hub: Any) -> None:
        """At the start, and when the broker came back: the pool has thrown away then what none of its processes had begun."""
        self._pool, self._hub = worker.pool, hub
        hub.call_soon(self._begin_all)

    def close(self, worker: Any) -> None:
        self.hands.stop()

    def _begin_all(self) -> None:
        for place, task in enumerate(self._tasks):
            if task is not None and not task.accepted():
                self._tasks[place] = None
            self._begin(place)

    def _begin(self, place: int) -> None:
        if self._tasks[place] is None:
            ends, fails = partial(self._ended, place), partial(self._failed, place)
            self._tasks[place] = self._pool.apply_async(work, (place, self.queues), callback=ends, error_callback=fails)

    def _ended(self, place: int, _: Any) -> None:
        """It made way: what waits for its process is in front of it now."""
        self._tasks[place] = None
        self._begin(place)

    def _failed(self, place: int, _: Any) -> None:
        """Its process was killed, or replaced. What it held is rung for again; where it was claimed already, that comes to nothing."""
        self._tasks[place] = None
        if held := self.hands.empty(place):
            queue, _, rung = held.partition(b"\n")
            bell.put_back(queue.decode(), rung)
        self._hub.call_later(BEGUN_AGAIN_AFTER, self._begin, place)


@task_received.connect
def _make_way(**_: Any) -> None:
    """A message needs a process of the pool, and each has a drainer: the first that is free makes way."""
    if hands is not None:
        hands.ask_for_way()


@worker_shutting_down.connect
def _stop(**_: Any) -> None:
    """At the signal itself: the main process looks only once a second whether there was one."""
    if hands is not None:
        hands.stop()
