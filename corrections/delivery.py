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
from runs.exceptions import NoEffect, TryLater, Unreadable
from runs.failpoints import reach
from runs.freezing import is_frozen
from runs.locking import locked_run
from runs.models import Run, Step
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
            raise TryLater("too late to begin: the lease is nearly over", 1.0)
        return bounded(lambda call: method(call, self.message), self.call)


def deliver(run_id: int, correction_id: int) -> None:
    """One attempt to post it, unless it is posted or another worker holds it."""
    held = _claim(run_id, correction_id)
    if held is None:
        return
    reach("correct.claimed")
    if held.looks_first and not _is_missing(held):
        return
    reach("correct.before")
    try:
        where = held.begin(held.capability.correct)
        reach("correct.after")
    except NoEffect as exc:
        _failed(held, exc, again=isinstance(exc, TryLater), in_doubt=False)
    except Exception as exc:  # it may be there: the next attempt looks first
        _failed(held, exc, again=True, in_doubt=True)
    else:
        _delivered(held, where)
        reach("correct.committed")


def _is_missing(held: Delivery) -> bool:
    """Whether what an earlier attempt may have posted is certainly not there; writes down everything else."""
    if not held.capability.has("probe_correction"):
        _failed(held, Unreadable("an earlier attempt may have posted it, and nothing can look"), again=False, in_doubt=True)
        return False
    try:
        found = held.begin(held.capability.probe_correction)
    except Exception as exc:  # no answer: nothing is posted on a guess
        _failed(held, exc, again=True, in_doubt=True)
        return False
    if found is not None:
        _delivered(held, found)
    return found is None


def can_look(correction: Correction) -> bool:
    """Whether a posted correction can be found again."""
    capability = _capability(correction)[1]
    return capability is not None and capability.has("probe_correction")


def _capability(correction: Correction) -> tuple[Step | None, Capability[Any] | None]:
    """The first signal's step, whose capability posts it."""
    step = correction.steps.order_by("number").first()
    return step, registry.find(step.capability) if step is not None else None


def _claim(run_id: int, correction_id: int) -> Delivery | None:
    with locked_run(run_id) as run:
        correction = Correction.objects.filter(pk=correction_id, state=CorrectionState.SENDING).first()
        if correction is None or is_frozen() or (correction.lease_until and correction.lease_until > run.now):
            return None
        if correction.due_at is not None and correction.due_at > run.now:
            return None
        step, capability = _capability(correction)
        if step is None or capability is None or not capability.has("correct"):
            _not_delivered(run, correction, "nothing knows how to post here; copy the text and post it by hand")
            return None
        return _start(run, correction, call_for(capability, step), capability)


def _start(run: Run, correction: Correction, call: Call[Any], capability: Capability[Any]) -> Delivery:
    seconds = lease_for(timeout_of(capability), timeout_of(capability))
    looks_first, correction.in_doubt = correction.in_doubt, True
    correction.save(update_fields=["in_doubt", *correction.take_lease(seconds, worker_name())])
    message = Message(correction.text, correction.key, f"Correction, run {run.number}", correction.address)
    return Delivery(run.pk, correction.pk, correction.attempt, capability, call, message, time.monotonic() + seconds, looks_first)


def _delivered(held: Delivery, where: dict[str, Any]) -> None:
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        correction.delivered, correction.sent_at = storable(where), run.now
        correction.error, correction.due_at, correction.in_doubt = "", None, False
        correction.move(CorrectionState.SENT, "delivered", "sent_at", "error", "due_at", "in_doubt", *correction.drop_lease())
        run.append(
            "correction.sent",
            actor=f"person:{correction.sent_by}",
            correction=correction.pk,
            where=correction.delivered,
            text=correction.text,
        )


def _failed(held: Delivery, exc: Exception, *, again: bool, in_doubt: bool) -> None:
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        why, correction.in_doubt = text(reason_of(exc)), in_doubt
        if again and correction.attempt < held.capability.retry.attempts + 2:
            wait = exc.after if isinstance(exc, TryLater) else patience_of(held.capability.retry.backoff * 2**correction.attempt)
            correction.error, correction.due_at = why, run.now + dt.timedelta(seconds=wait)
            correction.save(update_fields=["error", "due_at", "in_doubt", *correction.drop_lease()])
            run.append("correction.failed", correction=correction.pk, why=why, again_in=wait)
        else:
            _not_delivered(run, correction, why)


def _not_delivered(run: Run, correction: Correction, why: str) -> None:
    correction.error, correction.due_at = why, None
    correction.move(CorrectionState.NOT_DELIVERED, "error", "due_at", "in_doubt", *correction.drop_lease())
    run.append("correction.failed", correction=correction.pk, why=why)
    page(run, "a correction was not delivered", why, people=[run.owner])


def _ours(held: Delivery) -> Correction | None:
    return Correction.objects.filter(pk=held.correction_id, attempt=held.number, state=CorrectionState.SENDING).first()
