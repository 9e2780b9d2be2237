"""Answers to what was sent: counted now and then, where the place can tell."""

from __future__ import annotations

import datetime as dt
import logging

from corrections import places
from corrections.models import Correction
from corrections.states import CorrectionState
from runs.clock import Clock
from runs.engine.attempt import bounded

log = logging.getLogger(__name__)
# Whoever has not answered by then won't.
LOOKED_FOR = dt.timedelta(days=14)
SHORTEST, LONGEST = dt.timedelta(minutes=1), dt.timedelta(days=1)


def count(correction_id: int) -> None:
    """One look, and the time of the next: often at first, then ever less."""
    due = Correction.objects.filter(pk=correction_id, state=CorrectionState.SENT, replies_due_at__lte=Clock())
    found, now = due.first(), due.values_list(Clock(), flat=True).first()
    if found is None or now is None or found.sent_at is None:
        return
    age = now - found.sent_at
    following = None if age > LOOKED_FOR else now + min(max(age / 2, SHORTEST), LONGEST)
    # Put off before it looks, so that a look which hangs is not repeated by the next sweep.
    Correction.objects.filter(pk=found.pk).update(replies_due_at=following)
    if (number := _counted(found)) is not None:
        Correction.objects.filter(pk=found.pk).update(replies=number)


def _counted(correction: Correction) -> int | None:
    door = places.door_of(correction)
    if door is None or door.count is None:
        return None
    message, posted, look = door.message(correction), correction.delivered or {}, door.count
    try:
        return bounded(lambda call: look(call, message, posted), door.call)
    except Exception as exc:  # the number of before stands
        log.info("The answers to correction %s can't be counted now: %s", correction.pk, exc)
        return None
