"""What a Celery worker does besides its tasks: it says what it can't do, and ends when it takes nothing.

That its pool ends with it, Celery sees to by itself (PDEATHSIG, in its prefork).
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from typing import Any

import redis
from celery.signals import task_prerun, task_received, task_unknown, worker_before_create_process, worker_ready
from celery.worker import state
from django.conf import settings
from django.db import connection

from runs import alerts, bell, drain
from sagaboard import drainers
from sagaboard.celery import app

log = logging.getLogger(__name__)
_last_taken = time.monotonic()
# A worker that ended itself and is still there after so long can't: one of its processes stands still.
ENDS_WITHIN = 10
app.steps["worker"].add(drainers.Drainers)


@worker_before_create_process.connect
def _share_memory(**_: Any) -> None:
    """What is loaded before the fork stays shared: the collector, which would write to each of its pages, passes it by."""
    from runs import registry

    registry.classes()
    gc.collect()
    gc.freeze()


@worker_ready.connect
def _begin(sender: Any = None, **_: Any) -> None:
    from runs import needed

    needed.say()
    connection.close()
    if sender is not None:
        queues = [queue.name for queue in sender.app.amqp.queues.consume_from.values()]
        threading.Thread(target=watch, args=(queues,), name="watchdog", daemon=True).start()


@task_unknown.connect
def _say_unknown(name: str = "", **_: Any) -> None:
    try:
        alerts.unknown_message(name)
    finally:
        connection.close()


@task_prerun.connect
def _forget_a_broken_connection(**_: Any) -> None:
    drain.forget_broken_connections()


@task_received.connect
def _note_taken(**_: Any) -> None:
    global _last_taken
    _last_taken = time.monotonic()


def watch(queues: list[str]) -> None:
    """Ends this worker once it takes nothing for long although work waits and it has nothing to do; for ever."""
    broker = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)
    idle_since: float | None = None
    while True:
        time.sleep(min(1.0, settings.STALLED_AFTER / 4))
        stands_still = not _has_work() and _waiting(broker, queues)
        idle_since = max(idle_since or time.monotonic(), _taken_at()) if stands_still else None
        if idle_since is not None and time.monotonic() - idle_since > settings.STALLED_AFTER:
            log.error("This worker takes nothing although work waits in %s: it ends, to be started anew.", ", ".join(queues))
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(ENDS_WITHIN)
            os.kill(os.getpid(), signal.SIGKILL)


def _has_work() -> bool:
    hands = drainers.hands
    return bool(state.reserved_requests) or (hands is not None and any(map(hands.is_full, range(hands.number))))


def _taken_at() -> float:
    return max(_last_taken, drainers.hands.last_filled() if drainers.hands is not None else 0.0)


def _waiting(broker: Any, queues: list[str]) -> bool:
    try:
        return any(broker.llen(name) for queue in queues for name in (queue, bell.list_of(queue)))
    except redis.RedisError:
        return False  # where the broker is away, nobody can take anything
