"""What a correction says, worked out from the log."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from typing import Any
from zoneinfo import ZoneInfo

from corrections.models import Audience, Correction
from corrections.states import EDITABLE, CorrectionState
from runs import keys, registry
from runs.capability import Call, Capability, Place
from runs.engine.attempt import call_for
from runs.models import Run, Step

log = logging.getLogger(__name__)

BACK_UNKNOWN = "unknown, the owner will update"
BACK_AFTER_CI = "after CI passes on the retry"


# An effect that is not there any more, as far as the log or a named person says; any other ending leaves people seeing it.
REVERTED = frozenset({"undone", "gone", "settled"})


def draft(run: Run, step: Step, how: str) -> Correction | None:
    """The draft for an effect that people could see and that is gone, or stays; merged with others for the same place.

    A draft there is already takes up the new fact. What went out is never reworded: if it says what is no longer so, a
    second one is drafted.
    """
    source = Source(step)
    signal = source.signal(how)
    before = Correction.objects.filter(run=run, steps=step).exclude(state=CorrectionState.DISMISSED)
    found = before.filter(state__in=EDITABLE).first()
    if found is not None:
        return _take_up(run, found, step, signal)
    if any(says_the_same(one, step.number, how) for one in before):
        return None
    found = Correction.objects.filter(
        run=run, place_key=source.place.key, state__in=[CorrectionState.DRAFT, CorrectionState.HELD_BACK]
    ).first()
    if found is None:
        found = _new(run, step, source, signal)
    else:
        _merge(found, signal, source.what_to_do)
    found.steps.add(step)
    run.append("correction.drafted", step=step, place=found.place_label, recipient=found.recipient or None, signal=signal)
    return found


def says_the_same(correction: Correction, step: int, how: str) -> bool:
    """Whether it tells of this step's signal, and that it is gone or still there just as `how` says."""
    return any(one["step"] == step and (one["how"] in REVERTED) == (how in REVERTED) for one in correction.signals)


def _take_up(run: Run, correction: Correction, step: Step, signal: dict[str, Any]) -> Correction | None:
    """A changed fact. Words that a person put into the draft stay; what the log had filled in follows the log."""
    if signal in correction.signals:
        return None
    as_drafted = _reverted_to(correction.signals)
    correction.signals = [signal if one["step"] == step.number else one for one in correction.signals]
    if correction.reverted_to == as_drafted:
        correction.reverted_to = _reverted_to(correction.signals)
    correction.revision += 1
    correction.save()
    run.append("correction.drafted", step=step, place=correction.place_label, signal=signal, again=True)
    return correction


def _reverted_to(signals: list[dict[str, Any]]) -> str:
    return "; ".join(dict.fromkeys(one["reverted_to"] for one in signals if one["reverted_to"]))


def _bounded(place: Place) -> Place:
    """As long as its row may be; a key that is longer is told apart by its digest."""
    key = place.key if len(place.key) <= 300 else f"{place.key[:200]}…{keys.digest(place.key)}"
    return dataclasses.replace(place, key=key, label=place.label[:200], kind=place.kind[:40])


class Source:
    """What a step's capability knows about its signal. One whose code is gone, or breaks, is told of in plain words.

    Drafting happens inside the record of an undo: nothing a capability gets wrong about its words may undo that record.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.capability: Capability[Any] | None = registry.find(step.capability)
        self.call: Call[Any] | None = None
        self.place = Place(key=f"step:{step.pk}", label=f"whoever read {step.capability}", kind="by hand")
        self.audience = ""
        if self.capability is not None:
            self._ask(self.capability)

    def _ask(self, capability: Capability[Any]) -> None:
        try:
            self.call = call_for(capability, self.step)
            self.audience = capability.audience_name(self.call.args)[:120]
            if capability.has("place"):
                self.place = _bounded(capability.place(self.call))
        except Exception:
            log.exception("%s can't say where its signal landed; its correction is delivered by hand.", self.step)

    def signal(self, how: str) -> dict[str, Any]:
        """The facts, as a correction keeps them."""
        step = self.step
        return {
            "step": step.number,
            "signal": self.filled("human_signal") or f"what {step.capability} did",
            "from": step.done_at.isoformat() if step.done_at else None,
            "to": step.undone_at.isoformat() if step.undone_at else None,
            "reverted_to": self._reverted_to(how),
            "how": how,
        }

    @property
    def what_to_do(self) -> str:
        return self.filled("what_to_do")

    def filled(self, name: str) -> str:
        """One of the capability's templates, over arguments, `prepared` and effect."""
        template = getattr(self.capability, name, "")
        if self.capability is None or not template:
            return ""
        values = {} if self.call is None else {**self.call.prepared, **self.call.effect, **self.call.args.model_dump()}
        try:
            return self.capability.fill(template, values)
        except (ValueError, LookupError, AttributeError):
            return str(template)

    def _reverted_to(self, how: str) -> str:
        """Only a verified undo is said to be one."""
        if how in ("undone", "gone"):
            before = f", as before {self.step.done_at:%H:%M} UTC" if self.step.done_at else ""
            return f"{self.filled('reverted_to') or 'how it was'}{before}"
        return f"how it was, says {self.step.settled_by.partition(':')[2]}" if how == "settled" else ""


def _new(run: Run, step: Step, source: Source, signal: dict[str, Any]) -> Correction:
    owned = owner_of(source.audience)
    return Correction.objects.create(
        run=run,
        place_key=source.place.key,
        place_kind=source.place.kind,
        place_label=source.place.label,
        audience=source.audience or step.read_by,
        recipient=str(owned.owner) if owned else "",
        address=owned.address if owned else {},
        signals=[signal],
        seen=signal["signal"],
        reverted_to=signal["reverted_to"],
        what_to_do=source.what_to_do,
        back_when=BACK_AFTER_CI if run.retries.exists() else BACK_UNKNOWN,
        questions_to=run.owner,
        key=keys.digest(["correction", run.pk, source.place.key, step.call_key, Correction.objects.filter(run=run).count()]),
        drafted_at=run.now,
    )


def _merge(correction: Correction, signal: dict[str, Any], what_to_do: str) -> None:
    correction.signals = [*correction.signals, signal]
    correction.seen = "; ".join([correction.seen, signal["signal"]])
    parts = [*correction.reverted_to.split("; "), signal["reverted_to"]]
    correction.reverted_to = "; ".join(dict.fromkeys(part for part in parts if part))
    if what_to_do not in correction.what_to_do:
        correction.what_to_do = " ".join([correction.what_to_do, what_to_do]).strip()
    correction.revision += 1
    correction.save()


def owner_of(audience: str) -> Audience | None:
    """Who owns a cohort, channel or client now."""
    return Audience.objects.select_related("owner").filter(name=audience).first() if audience else None


def seen_when(correction: Correction) -> str:
    """From when to when it could be seen, in UTC and, where they differ, in the reader's own zone."""
    since, said = correction.shown_since, seen_when_utc(correction)
    owned = owner_of(correction.audience)
    if since is None or owned is None or owned.owner.time_zone == "UTC":
        return said
    zone = owned.owner.time_zone
    theirs = _span(since, correction.shown_until, ZoneInfo(zone), f"in {zone.rpartition('/')[2].replace('_', ' ')}")
    return f"{said} ({theirs})"


def seen_when_utc(correction: Correction) -> str:
    since = correction.shown_since
    return _span(since, correction.shown_until, ZoneInfo("UTC"), "UTC") if since else "an unknown time"


def _span(start: dt.datetime, end: dt.datetime | None, zone: ZoneInfo, where: str) -> str:
    first = f"{start.astimezone(zone):%H:%M}"
    if end is None:
        return f"{first} {where}, and it still is"
    last = f"{end.astimezone(zone):%H:%M}"
    # Short exposures read "02:53:41 to 02:53:59" rather than "02:53 to 02:53".
    if first == last:
        first, last = f"{start.astimezone(zone):%H:%M:%S}", f"{end.astimezone(zone):%H:%M:%S}"
    return f"{first} to {last} {where}"
