"""What a correction says, worked out from the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs import keys, registry
from runs.capability import Call, Capability, Place
from runs.engine.attempt import call_for
from runs.models import Run, Step
from sagaboard.accounts.models import User

HEADLINE = "[Automated correction - run {run}]"
# A message people can do nothing with makes them ask.
NOT_ACTIONABLE = ("please ignore", "ignore this", "disregard")


def draft(run: Run, step: Step, how: str) -> Correction | None:
    """The draft for an effect that people could see and that is gone, or stays; merged with others for the same place."""
    capability = registry.find(step.capability)
    call = call_for(capability, step) if capability is not None else None
    place = _place(capability, call, step)
    already = Correction.objects.filter(run=run, steps=step).exclude(state=CorrectionState.DISMISSED)
    if already.exists():
        return None
    signal = _signal(capability, call, step, how)
    found = Correction.objects.filter(run=run, place_key=place.key, state__in=[CorrectionState.DRAFT, CorrectionState.HELD_BACK]).first()
    if found is not None:
        _merge(found, signal, _what_to_do(capability, call))
    else:
        found = _new(run, step, place, capability, call, signal)
    found.steps.add(step)
    run.append("correction.drafted", step=step, place=place.label, recipient=found.recipient or None, signal=signal)
    return found


def _new(run: Run, step: Step, place: Place, capability: Capability[Any] | None, call: Call[Any] | None, signal: dict[str, Any]) -> Correction:
    name = capability.audience_name(call.args) if capability is not None and call is not None else ""
    audience = Audience.objects.select_related("owner").filter(name=name).first()
    return Correction.objects.create(
        run=run,
        place_key=place.key,
        place_kind=place.kind,
        place_label=place.label,
        audience=name or step.read_by,
        recipient=str(audience.owner) if audience else "",
        address=audience.address if audience else {},
        signals=[signal],
        seen=signal["signal"],
        reverted_to=signal["reverted_to"],
        what_to_do=_what_to_do(capability, call),
        back_when="after CI passes on the retry" if run.retries.exists() else "unknown, the owner will update",
        questions_to=run.owner,
        key=keys.digest(["correction", run.pk, place.key, step.key, Correction.objects.filter(run=run).count()]),
        drafted_at=run.now,
    )


def _merge(correction: Correction, signal: dict[str, Any], what_to_do: str) -> None:
    correction.signals = [*correction.signals, signal]
    correction.seen = "; ".join([correction.seen, signal["signal"]])
    correction.reverted_to = "; ".join(part for part in [correction.reverted_to, signal["reverted_to"]] if part)
    if what_to_do not in correction.what_to_do:
        correction.what_to_do = " ".join([correction.what_to_do, what_to_do]).strip()
    correction.revision += 1
    correction.save()


def _place(capability: Capability[Any] | None, call: Call[Any] | None, step: Step) -> Place:
    if capability is not None and call is not None and capability.has("place"):
        return capability.place(call)
    return Place(key=f"step:{step.pk}", label=f"whoever read {step.capability}", kind="by hand")


def _signal(capability: Capability[Any] | None, call: Call[Any] | None, step: Step, how: str) -> dict[str, Any]:
    values = _values(call)
    told = capability.fill(capability.human_signal, values) if capability and capability.human_signal else f"what {step.capability} did"
    return {
        "step": step.number,
        "signal": told,
        "from": step.done_at.isoformat() if step.done_at else None,
        "to": step.undone_at.isoformat() if step.undone_at else None,
        "reverted_to": _reverted_to(capability, values, step, how),
        "how": how,
    }


def _reverted_to(capability: Capability[Any] | None, values: dict[str, Any], step: Step, how: str) -> str:
    """Only a verified undo is said to be one."""
    before = step.done_at and f", as before {step.done_at:%H:%M} UTC"
    if how in ("undone", "gone"):
        said = capability.fill(capability.reverted_to, values) if capability and capability.reverted_to else "how it was"
        return f"{said}{before or ''}"
    if how == "settled":
        return f"how it was, says {step.settled_by.partition(':')[2]}"
    return ""


def _what_to_do(capability: Capability[Any] | None, call: Call[Any] | None) -> str:
    return capability.fill(capability.what_to_do, _values(call)) if capability and capability.what_to_do else ""


def _values(call: Call[Any] | None) -> dict[str, Any]:
    return {} if call is None else {**call.prepared, **call.effect, **call.args.model_dump()}


def render_text(correction: Correction) -> str:
    """The message as it will be posted; the preview shows this very text."""
    status = f"this was premature. It has been reverted to {correction.reverted_to}."
    if not correction.reverted_to:
        status = "this was premature, and it is still as you saw it."
    lines = [
        HEADLINE.format(run=correction.run_id),
        f"What you may have seen: {correction.seen}, at {seen_when(correction)}.",
        f"Status: {status}",
        f"What you need to do: {_sentence(correction.what_to_do)}",
        f"When it will come back: {_sentence(correction.back_when)}",
        f"Questions: {correction.questions_to}, not this bot.",
    ]
    return "\n".join(lines)


def seen_when(correction: Correction) -> str:
    """From when to when it could be seen, in UTC and, where they differ, in the reader's own zone."""
    starts = [dt.datetime.fromisoformat(signal["from"]) for signal in correction.signals if signal["from"]]
    ends = [dt.datetime.fromisoformat(signal["to"]) for signal in correction.signals if signal["to"]]
    if not starts:
        return "an unknown time"
    span = (min(starts), max(ends) if len(ends) == len(correction.signals) else None)
    said = f"{_span(span, ZoneInfo('UTC'))} UTC"
    reader = User.objects.filter(audiences__name=correction.audience).first()
    if reader is not None and reader.time_zone != "UTC":
        zone = ZoneInfo(reader.time_zone)
        said += f" ({_span(span, zone)} in {reader.time_zone.rpartition('/')[2].replace('_', ' ')})"
    return said


def _span(span: tuple[dt.datetime, dt.datetime | None], zone: ZoneInfo) -> str:
    start, end = span
    first = f"{start.astimezone(zone):%H:%M}"
    if end is None:
        return f"{first} and still"
    last = f"{end.astimezone(zone):%H:%M}"
    # Short exposures read "02:53:41 to 02:53:59" rather than "02:53 to 02:53".
    return f"{start.astimezone(zone):%H:%M:%S} to {end.astimezone(zone):%H:%M:%S}" if first == last else f"{first} to {last}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def problems(correction: Correction) -> Sequence[str]:
    """What stands against sending it, a sentence each; none means that it can go."""
    found = []
    todo = correction.what_to_do.strip().lower()
    if not todo:
        found.append("Say what they need to do, even if that is nothing.")
    if any(phrase in todo for phrase in NOT_ACTIONABLE):
        found.append("“Please ignore” can't be acted on: people don't know what to leave undone. Say what to do, or “Nothing”.")
    if not correction.seen.strip():
        found.append("Say what they may have seen.")
    if any("{" in text and "}" in text for text in (correction.seen, correction.reverted_to, correction.what_to_do)):
        found.append("A slot in braces is not filled; the log did not know it. Write it out.")
    if not correction.questions_to.is_active:
        found.append("Questions must go to a person who can sign in.")
    return found
