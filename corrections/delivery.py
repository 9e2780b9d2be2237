"""Sends a correction: claim, look whether it is there already, post, write down where it is. Killed anywhere, it posts once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from typing import Any

from corrections import drafting, places, reports
from corrections.models import Correction
from corrections.states import CorrectionState, Kind
from runs.capability import Message
from runs.engine.attempt import bounded, lease_for, patience_of, reason_of, timeout_of, worker_name
from runs.exceptions import NoEffect, TryLater, Unreadable
from runs.failpoints import reach
from runs.freezing import is_frozen
from runs.locking import locked_run
from runs.models import Run
from runs.paging import page
from runs.storable import storable, text

# Stands for a person's name on what a policy sent.
BY_ITSELF = "sagaboard, by itself"
FIRST_LOOK = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True)
class Delivery:
    """A claim on one correction; only writes that name this `number` count."""

    run_id: int
    correction_id: int
    number: int
    door: places.Door
    message: Message
    ends: float
    # An earlier attempt may have posted it.
    looks_first: bool

    def begin(self, method: Any) -> Any:
        if time.monotonic() + self.door.call.timeout > self.ends:
            raise TryLater("too late to begin: the lease is nearly over", 1.0)
        return bounded(lambda call: method(call, self.message), self.door.call)


def deliver(run_id: int, correction_id: int) -> None:
    """One attempt to post it, unless it is posted or another worker holds it."""
    held = _claim(run_id, correction_id)
    if held is None:
        return
    reach("correct.claimed", run=held.run_id)
    if held.looks_first and not _is_missing(held):
        return
    reach("correct.before", run=held.run_id)
    try:
        where = held.begin(held.door.post)
        reach("correct.after", run=held.run_id)
    except NoEffect as exc:
        _failed(held, exc, again=isinstance(exc, TryLater), in_doubt=False)
    except Exception as exc:  # it may be there: the next attempt looks first
        _failed(held, exc, again=True, in_doubt=True)
    else:
        _delivered(held, where)
        reach("correct.committed", run=held.run_id)


def _is_missing(held: Delivery) -> bool:
    """Whether what an earlier attempt may have posted is certainly not there; writes down everything else."""
    if held.door.look is None:
        _failed(held, Unreadable("an earlier attempt may have posted it, and nothing can look"), again=False, in_doubt=True)
        return False
    try:
        found = held.begin(held.door.look)
        reach("correct.looked", run=held.run_id)
    except Exception as exc:  # no answer: nothing is posted on a guess
        _failed(held, exc, again=True, in_doubt=True)
        return False
    if found is None:
        return _is_certain(held)
    _delivered(held, found, earlier=True)
    return False


def _is_certain(held: Delivery) -> bool:
    """From here it is this text whose attempt is in doubt; False where the lease was lost meanwhile."""
    with locked_run(held.run_id):
        return bool(Correction.objects.filter(pk=held.correction_id, attempt=held.number).update(doubted=held.message.text))


def _claim(run_id: int, correction_id: int) -> Delivery | None:
    with locked_run(run_id) as run:
        correction = Correction.objects.filter(pk=correction_id, state=CorrectionState.SENDING).first()
        if correction is None or is_frozen() or (correction.lease_until and correction.lease_until > run.now):
            return None
        if correction.due_at is not None and correction.due_at > run.now:
            return None
        door = places.door_of(correction)
        if door is None:
            _not_delivered(run, correction, "nothing knows how to post here; copy the text and post it by hand")
            return None
        return _start(run, correction, door)


def _start(run: Run, correction: Correction, door: places.Door) -> Delivery:
    seconds = lease_for(timeout_of(door.capability), timeout_of(door.capability))
    looks_first, correction.in_doubt = correction.in_doubt, True
    if not looks_first:
        correction.doubted = correction.text
    correction.save(update_fields=["in_doubt", "doubted", *correction.take_lease(seconds, worker_name())])
    message = door.message(correction)
    return Delivery(run.pk, correction.pk, correction.attempt, door, message, time.monotonic() + seconds, looks_first)


def _delivered(held: Delivery, where: dict[str, Any], *, earlier: bool = False) -> None:
    """It is there. What an `earlier` attempt had posted has that attempt's words, whatever they are now."""
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        meant, correction.text = correction.text, correction.doubted if earlier else correction.text
        correction.delivered, correction.sent_at = storable(where), run.now
        correction.error, correction.due_at, correction.in_doubt = "", None, False
        correction.replies_due_at = run.now + FIRST_LOOK if held.door.count is not None else None
        fields = ["text", "delivered", "sent_at", "error", "due_at", "in_doubt", "replies_due_at"]
        correction.move(CorrectionState.SENT, *fields, *correction.drop_lease())
        run.append(
            "correction.sent",
            actor=actor_of(correction),
            correction=correction.pk,
            where=correction.delivered,
            text=correction.text,
        )
        if meant != correction.text:
            _keep_new_words(run, correction, meant)
        if correction.kind == Kind.CORRECTION:
            reports.told(run)


def _keep_new_words(run: Run, correction: Correction, meant: str) -> None:
    """The words that were meant to replace the lost ones stand in a second draft, for the owner to send or dismiss."""
    drafts = Correction.objects.unsent().filter(run=run, place_key=correction.place_key)
    why = "An earlier attempt had posted its words; these were not sent."
    run.append("correction.failed", correction=correction.pk, why=why, text=meant)
    if correction.kind == Kind.CORRECTION and not drafts.exists():
        second = drafting.another(correction, run)
        second.save()
        second.steps.set(correction.steps.all())


def actor_of(correction: Correction) -> str:
    return "engine" if correction.sent_by == BY_ITSELF else f"person:{correction.sent_by}"


def _failed(held: Delivery, exc: Exception, *, again: bool, in_doubt: bool) -> None:
    with locked_run(held.run_id) as run:
        correction = _ours(held)
        if correction is None:
            return
        why, correction.in_doubt = text(reason_of(exc)), in_doubt
        if again and correction.attempt < held.door.capability.retry.attempts + 2:
            wait = exc.after if isinstance(exc, TryLater) else patience_of(held.door.capability.retry.backoff * 2**correction.attempt)
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
