"""Where a correction goes: the signal's own place, or the next one that a person chose because that is gone."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import pydantic

from corrections.models import Correction
from runs import registry
from runs.capability import JSON, Call, Capability, Message, Place
from runs.connectors import notes
from runs.engine.attempt import call_for
from runs.models import Step

log = logging.getLogger(__name__)
TO_OWNER = {"to": "owner"}


@dataclasses.dataclass(frozen=True)
class Door:
    """How a correction is posted, looked for and counted; None where nothing can."""

    call: Call[Any]
    capability: Capability[Any]
    post: Callable[[Call[Any], Message], JSON]
    look: Callable[[Call[Any], Message], JSON | None] | None
    count: Callable[[Call[Any], Message, JSON], int | None] | None

    def message(self, correction: Correction) -> Message:
        at = {} if is_to_owner(correction) else correction.place_address
        return Message(correction.text, correction.key, f"Correction, run {correction.run_id}", correction.address, at)


def door_of(correction: Correction) -> Door | None:
    """The way to where this correction goes; None where no code knows it."""
    step, capability = _first(correction)
    if step is None or capability is None:
        return None
    if not is_to_owner(correction) and not capability.has("correct"):
        return None
    try:
        call = call_for(capability, step)
    except pydantic.ValidationError:  # the code that knew the way was changed since
        return None
    looks = correction.place_kind != "note" or notes.can_look(correction.address)
    if is_to_owner(correction):
        return Door(call, capability, _note, _find_note if looks else None, _count_notes)
    look = capability.probe_correction if looks and capability.has("probe_correction") else None
    return Door(call, capability, capability.correct, look, capability.replies if capability.has("replies") else None)


def is_to_owner(correction: Correction) -> bool:
    return bool(correction.place_address == TO_OWNER)


def _note(call: Call[Any], message: Message) -> JSON:
    return notes.note(message, call.timeout)


def _find_note(call: Call[Any], message: Message) -> JSON | None:
    return notes.find_note(message, call.timeout)


def _count_notes(call: Call[Any], message: Message, posted: JSON) -> int | None:
    return notes.replies(message, posted, call.timeout)


def above(correction: Correction) -> str:
    """The words of the signal that it stands below, as far as its capability knows them."""
    step, capability = _first(correction)
    if step is None or capability is None or not capability.has("place"):
        return ""
    try:
        place = capability.place(call_for(capability, step))
    except Exception:
        log.exception("%s can't say where its signal landed.", step)
        return ""
    # Somewhere else it stands alone.
    return place.above if place.key == correction.place_key else ""


def can_look(correction: Correction) -> bool:
    """Whether a posted correction can be found again."""
    door = door_of(correction)
    return door is not None and door.look is not None


def left(correction: Correction) -> list[Place]:
    """Where else it may go, the next best first: what its capability names, then a note to whoever owns the audience."""
    return [place for place in _all_others(correction) if place.key != correction.place_key]


def _all_others(correction: Correction) -> list[Place]:
    step, capability = _first(correction)
    found: list[Place] = []
    if step is not None and capability is not None:
        try:
            found += capability.elsewhere(call_for(capability, step))
        except Exception:
            log.exception("%s can't say where else its signal could be corrected.", step)
    owned = correction.owned
    if owned is not None and owned.address and correction.place_kind != "note":
        quote = f"You get this because you own “{owned}”: {correction.place_label} was not possible."
        label = f"a note to {owned.owner}, who owns {owned}"
        found.append(Place(f"owner:{owned.pk}", label, "note", TO_OWNER, quote=quote))
    return found


def _first(correction: Correction) -> tuple[Step | None, Capability[Any] | None]:
    """The first signal's step, whose capability posts it."""
    step = correction.steps.order_by("number").first()
    return step, registry.find(step.capability) if step is not None else None
