"""Rings for workers and for waiting callers. Only hints go this way: lost ones are found again by the sweep."""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from typing import Any

import redis
from celery import current_app
from django.conf import settings
from django.db import connection, transaction

from runs.failpoints import reach

log = logging.getLogger(__name__)
# A waiting caller looks at the database itself this often, so that a lost ring costs a second and not the whole wait.
LOOK_EVERY = 1.0
KEEP_ANSWER = 60


def ring(task: str, *ids: int) -> None:
    """Calls a worker after the commit. A broker that is down fails nothing: the sweep finds the row."""
    transaction.on_commit(lambda: _send(task, ids), robust=True)


def ring_at(queue: str, task: str, *ids: int | str) -> None:
    """The same, for the workers of one queue: those that hold the credentials."""
    transaction.on_commit(lambda: _send(task, ids, queue), robust=True)


def _run_of(ids: tuple[int | str, ...]) -> int:
    return ids[0] if ids and isinstance(ids[0], int) else 0


def _send(task: str, ids: tuple[int | str, ...], queue: str | None = None) -> None:
    reach("publish.before", task, _run_of(ids))
    try:
        current_app.send_task(task, args=ids, retry=False, queue=queue)
        reach("publish.after", task, _run_of(ids))
    except Exception as exc:  # whatever the broker's client raises, the row is committed and will be found
        log.warning("No broker for %s%s, the sweep will find it: %s", task, ids, exc)


def answer(step_id: int) -> None:
    """Tells a caller who waits for this step to look, after the commit."""
    transaction.on_commit(lambda: _answer(step_id), robust=True)


def _answer(step_id: int) -> None:
    try:
        with client().pipeline(transaction=False) as pipe:
            pipe.rpush(_name(step_id), 1).expire(_name(step_id), KEEP_ANSWER).execute()
    except redis.RedisError as exc:
        log.warning("Nobody could be told that step %s ended: %s", step_id, exc)


def await_answer(step_id: int, until: float) -> None:
    """Returns when the step was reported on, or after a moment in which the caller should look for itself.

    `until` is a time of `time.monotonic`.
    """
    seconds = min(LOOK_EVERY, until - time.monotonic())
    if seconds <= 0:
        return
    # A connection idle in no transaction may be kept; a waiting caller must hold none open.
    assert not connection.in_atomic_block, "waiting inside a transaction"
    try:
        client().blpop([_name(step_id)], timeout=max(seconds, 0.01))
    except redis.RedisError:
        time.sleep(min(seconds, 0.25))


@lru_cache(maxsize=1)
def client() -> Any:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=LOOK_EVERY + 5, health_check_interval=30)


def _name(step_id: int) -> str:
    return f"sagaboard:answer:{step_id}"
