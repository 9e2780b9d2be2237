"""One attempt at a step: who makes it, until when it may begin a call, and how a call is bounded."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection

from runs import keys, secret_args
from runs.capability import Call, Capability, Payload
from runs.exceptions import NoEffect
from runs.models import Step

T = TypeVar("T")


class TookTooLong(Exception):
    """The call was cut off at its hard timeout. Whether it happened is not known."""


class LeaseTooShort(Exception):
    """So much time went by since the claim that the call could outlast the lease: it is not begun."""


@dataclasses.dataclass
class Attempt:
    """A claim on a step: only writes that name this `number` count. `ends` is a time of the local monotonic clock."""

    run_id: int
    step_id: int
    number: int
    capability: Capability[Any]
    call: Call[Any]
    ends: float
    has_prepared: bool = True

    def begin(self, method: Callable[[Call[Any]], T]) -> T:
        """Calls out, bounded by the hard timeout, unless the lease might end first."""
        if time.monotonic() + self.call.timeout > self.ends:
            raise LeaseTooShort
        return bounded(method, self.call)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def timeout_of(capability: Capability[Any]) -> float:
    """The hard bound of one call, in seconds; an installation may cap what capabilities ask for."""
    return min(capability.timeout, float(settings.CALL_TIMEOUT_AT_MOST))


def patience_of(seconds: float) -> float:
    """How long to wait for a slow system, in seconds, capped by the installation."""
    return min(seconds, float(settings.PATIENCE_AT_MOST))


def lease_for(*timeouts: float) -> float:
    return sum(timeouts) + float(settings.LEASE_MARGIN)


def call_for(capability: Capability[Any], step: Step, *, payload: Payload | None = None) -> Call[Any]:
    """What the capability is told about this step."""
    prepared, effect = step.what_undo_needs()
    return Call(
        args=capability.Args.model_validate_json(keys.canonical(step.args)),
        key=step.call_key,
        run=step.run_id,
        step=step.number,
        attempt=step.attempt,
        prepared=prepared,
        effect=effect,
        started_at=step.started_at,
        timeout=timeout_of(capability),
        secret=capability.secret,
        payload=payload,
    )


def bounded(method: Callable[[Call[Any]], T], call: Call[Any]) -> T:
    """`method(call)`, outside any transaction, cut off after the call's timeout where signals reach."""
    # A call may take minutes and can't be rolled back: a lock held meanwhile would stop everybody else.
    assert not connection.in_atomic_block or getattr(connection.atomic_blocks[-1], "_from_testcase", False), "a call inside a transaction"
    if not call.secret:
        with _alarm(call.timeout):
            return method(call)
    return _with_secrets(method, call)


def _with_secrets(method: Callable[[Call[Any]], T], call: Call[Any]) -> T:
    """The same with the secrets looked up; they are in neither what it returns nor what it raises."""
    call, texts = secret_args.revealed(call)
    try:
        with _alarm(call.timeout):
            return secret_args.scrubbed(method(call), texts)
    except Exception as exc:
        raise secret_args.scrubbed_error(exc, texts) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    # Only the main thread of a process gets signals: worker processes are cut off hard, pages that merely look rely on
    # the clients' own deadlines.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def cut(signum: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"cut off after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reason_of(exc: BaseException) -> str:
    """An exception as one line for the log and the page."""
    if isinstance(exc, NoEffect):
        return exc.reason
    return str(exc) if isinstance(exc, secret_args.CallFailed) else f"{type(exc).__name__}: {exc}"
