"""Takes off the lists of a worker's queues what was rung for, and does it: one after the other, in a process of the worker.

A process takes its steps itself, as those of DBOS and Procrastinate do. A Celery message for each costs more than the two
commits of the step: to publish it, to note in Redis that it was taken and done, and a way through the worker's main process.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from django.conf import settings
from django.db import connections

from runs import alerts, bell
from runs.engine import compensate, drill, invoke

log = logging.getLogger(__name__)
# What can be rung for at a queue of steps: the names of runs.tasks, and what those do.
CALLS: dict[str, Callable[..., Any]] = {
    "runs.tasks.invoke_step": invoke.invoke,
    "runs.tasks.look_for_step": invoke.look,
    "runs.tasks.compensate_run": compensate.compensate,
    "runs.tasks.drill_run": drill.go_on,
}
# An idle one looks up this often, to see what is wanted of it.
LOOK_UP_EVERY = 0.2
# After so many seconds, or settings.STEPS_PER_PROCESS, its process is replaced, with whatever memory was lost in it.
RENEWED_AFTER = 3600.0


class Hand(Protocol):
    """What is being dealt with, where the worker's main process sees it, and what that one wants."""

    def hold(self, queue: str, rung: bytes) -> None: ...

    def let_go(self) -> None: ...

    def is_to_stop(self) -> bool:
        """The worker ends: nothing more is begun."""

    def makes_way(self) -> bool:
        """Something else waits for this process. Asked once, it is this one that goes."""


def drain(queues: Sequence[str], hand: Hand, *, life: float = 1.0) -> bool:
    """Until something else is wanted of this process; True once it is to be replaced, after its share of a usual `life`."""
    left, until = settings.STEPS_PER_PROCESS * life, time.monotonic() + RENEWED_AFTER * life
    while not (hand.is_to_stop() or hand.makes_way()):
        if left <= 0 or time.monotonic() > until:
            return True
        if (found := bell.take(queues, LOOK_UP_EVERY)) is None:
            continue
        if hand.is_to_stop():
            bell.put_back(*found)
            break
        hand.hold(*found)
        do(found[1])
        # Not where the process ends on the way: what it held is put back then.
        hand.let_go()
        left -= 1
    return False


def do(rung: bytes) -> None:
    """Whatever goes wrong, the next is taken: what this was for is due in the database, and is found there."""
    try:
        forget_broken_connections()
        name, *ids = _read(rung)
        if name in CALLS:
            CALLS[name](*ids)
        else:
            alerts.unknown_message(name)
    except Exception:
        log.exception("%s failed.", rung)


def forget_broken_connections() -> None:
    """Connections are kept. Nobody else would replace one that a restart of PostgreSQL broke: all that this process does would fail.

    Without an error meanwhile it asks nothing of the database.
    """
    for known in connections.all(initialized_only=True):
        if known.errors_occurred:
            known.close_if_unusable_or_obsolete()


def _read(rung: bytes) -> list[Any]:
    """The task's name and its ids; of what nobody here has written, its text for a name."""
    try:
        found = json.loads(rung)
    except ValueError:
        found = None
    return found if isinstance(found, list) and found and isinstance(found[0], str) else [repr(rung)]
