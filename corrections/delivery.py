"""Sends a correction: claim, look whether it is there already, post, write down where it is. Killed anywhere, it posts once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from typing import Any

from corrections.models import Correction
from corrections.states import CorrectionState
from runs import registry
from runs.capability import Call, Capability, Message
from runs.engine.attempt import bounded, call_for, lease_for, patience_of, reason_of, timeout_of, worker_name
from runs.engine.claim import is_frozen
from runs.exceptions import NoEffect, TryLater
from runs.locking import locked_run
from runs.models import Run
from runs.paging import page
from runs.storable import storable, text


@dataclasses.dataclass(frozen=True)
class Delivery:
    """A claim on one correction; only writes that name this `number` count."""

    run_id: int
    correction_id: int
    number: int
    capability: Capability[Any]
    call: Call[Any]
    message: Message
    ends: float
    # An earlier attempt may have posted it.
    looks_first: bool

    def begin(self, method: Any) -> Any:
        if time.monotonic() + self.call.timeout > self.ends:
            raise NoEffect("too late to begin: the lease is nearly over")
        return bounded(lambda call: method(call, self.message), self.call)


def deliver(run_id: int, correction_id: int) -> None:
    """One attempt to post it, unless it is posted or another worker holds it."""
    held = _claim(run_id, correction_id)
    if held is None:
        return
    if held.looks_first:
        try:
            found = held.begin(held.capability.probe_correction) if held.capability.has("probe_correction") else None
        except Exception as exc:  # no answer: nothing is posted on a guess
            _failed(held, exc, again=True)
            return
        if found is not None:
            _delivered(held, found)
            return
        if not held.capability.has("probe_correction"):
            _failed(held, NoEffect("an earlier attempt may have posted it, and nothing can look"), again=False)
            return
    try:
        where = held.begin(held.capability.correct)
    except NoEffect as exc:
        _failed(held, exc, again=isinstance(exc, TryLater))
    except Exception as exc:  # it may be there: the next attempt looks first
        _failed(held, exc, again=True)
    else:
        _delivered(held, where)


def _claim(run_id: int, correction_id: int) -> Delivery | None:
    with locked_run(run_id) as run:
        correction = Correction.objects.filter(pk=correction_id, state=CorrectionState.SENDING).first()
        if correction is None or is_frozen() or (correction.lease_until and correction.lease_until > run.now):
            return None
        if correction.due_at is not None and correction.due_at > run.now:
            return None
        step = correction.steps.order_by("number").first()
        capability = registry.find(step.capability) if step is not None else None
        if step is None or capability is None or not capability.has("correct"):
            _not_delivered(run, correction, "nothing knows how to post here; copy the text and post it by hand")
            return None
        call = call_for(capability, step)
        seconds = lease_for(timeout_of(capability), timeout_of(capability))
        looks_first = correction.attempt > 0
        correction.save(update_fields=correction.take_lease(seconds, worker_name()))
        message = Message(correction.text, correction.key, f"Correction, run {run.number}", correction.address)
        return Delivery(run.pk, correction.pk, correction.attempt, capability, call, message, time.monotonic() + seconds, looks_first)


def _delivered(held: Delivery, where: dict[str, Any]) -> None:
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        correction.delivered, correction.sent_at, correction.error, correction.due_at = storable(where), run.now, "", None
        correction.move(CorrectionState.SENT, "delivered", "sent_at", "error", "due_at", *correction.drop_lease())
        run.append("correction.sent", actor=f"person:{correction.sent_by}", correction=correction.pk, where=correction.delivered, text=correction.text)


def _failed(held: Delivery, exc: Exception, *, again: bool) -> None:
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        why = text(reason_of(exc))
        if again and correction.attempt < held.capability.retry.attempts + 2:
            wait = exc.after if isinstance(exc, TryLater) else patience_of(held.capability.retry.backoff * 2**correction.attempt)
            correction.error, correction.due_at = why, run.now + dt.timedelta(seconds=wait)
            correction.save(update_fields=["error", "due_at", *correction.drop_lease()])
            run.append("correction.failed", correction=correction.pk, why=why, again_in=wait)
        else:
            _not_delivered(run, correction, why)


def _not_delivered(run: Run, correction: Correction, why: str) -> None:
    correction.error, correction.due_at = why, None
    correction.move(CorrectionState.NOT_DELIVERED, "error", "due_at", *correction.drop_lease())
    run.append("correction.failed", correction=correction.pk, why=why)
    page(run, "a correction was not delivered", why, people=[run.owner])


def _ours(held: Delivery) -> Correction | None:
    return Correction.objects.filter(pk=held.correction_id, attempt=held.number, state=CorrectionState.SENDING).first()


