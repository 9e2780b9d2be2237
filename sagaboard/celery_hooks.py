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
from django.db import connection, connections

log = logging.getLogger(__name__)
_last_taken = time.monotonic()


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
    """Of another version than ours, in a rolling deploy: what it was to ring for is due in the database, and is found there."""
    from runs.alerts import alert

    try:
        alert(
            f"unknown task {name}",
            f"A worker threw away a message for “{name}”, which it does not know: web and workers differ in version.",
        )
    finally:
        connection.close()


@task_prerun.connect
def _forget_a_broken_connection(**_: Any) -> None:
    # Connections are kept over tasks. Nobody else would replace one that a restart of PostgreSQL broke: each of this
    # process's tasks would fail from then on. Without an error meanwhile this asks nothing of the database.
    for known in connections.all(initialized_only=True):
        if known.errors_occurred:
            known.close_if_unusable_or_obsolete()


@task_received.connect
def _note_taken(**_: Any) -> None:
    global _last_taken
    _last_taken = time.monotonic()


def watch(queues: list[str]) -> None:
    """Ends this worker once it takes nothing for long although messages wait and it has nothing to do; for ever."""
    broker = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)
    idle_since: float | None = None
    while True:
        time.sleep(min(1.0, settings.STALLED_AFTER / 4))
        stands_still = not state.reserved_requests and _waiting(broker, queues)
        idle_since = max(idle_since or time.monotonic(), _last_taken) if stands_still else None
        if idle_since is not None and time.monotonic() - idle_since > settings.STALLED_AFTER:
            log.error("This worker takes nothing although messages wait in %s: it ends, to be started anew.", ", ".join(queues))
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _waiting(broker: Any, queues: list[str]) -> bool:
    try:
        return any(broker.llen(queue) for queue in queues)
    except redis.RedisError:
        return False  # where the broker is away, nobody can take anything
