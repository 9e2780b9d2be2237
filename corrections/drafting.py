"""What a correction says, worked out from the log."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from corrections.models import Audience, Correction, Template
from corrections.states import EDITABLE, CorrectionState, Kind
from runs import keys, registry
from runs.capability import Call, Capability, Place
from runs.engine.attempt import call_for
from runs.models import Run, Step
from runs.states import HAS_ENDED_WELL
from runs.states import Audience as Reach

log = logging.getLogger(__name__)

BACK_UNKNOWN = "unknown, the owner will update"
BACK_AFTER_CI = "after CI passes on the retry"
WORDS = ("seen", "reverted_to", "what_to_do", "back_when")
NOTHING_TO_DO = "Nothing. What you were asked to leave or to undo because of it may be taken up again."

# An effect that is not there any more, as far as the log or a named person says; any other ending leaves people seeing it.
REVERTED = frozenset({"undone", "gone", "settled"})


def draft(run: Run, step: Step, how: str) -> Correction | None:
    """The draft for an effect that people could see and that is gone, or stays; merged with others for the same place.

    A draft there is already takes up the new fact. What went out is never reworded: if it says what is no longer so, a
    second one is drafted.
    """
    source = Source(step)
    signal = source.signal(how)
    before = Correction.objects.filter(run=run, steps=step, kind=Kind.CORRECTION).exclude(state=CorrectionState.DISMISSED)
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
        _merge(found, source, signal)
    found.steps.add(step)
    run.append("correction.drafted", step=step, place=found.place_label, recipient=found.recipient or None, signal=signal)
    return found


def says_the_same(correction: Correction, step: int, how: str) -> bool:
    """Whether it tells of this step's signal, and that it is gone or still there just as `how` says."""
    return any(one["step"] == step and (one["how"] in REVERTED) == (how in REVERTED) for one in correction.signals)


def _take_up(run: Run, correction: Correction, step: Step, signal: dict[str, Any]) -> Correction | None:
    """A changed fact. Words that a person put into the draft stay; what the log had filled in follows the log.

    A draft whose facts changed waits for its owner.
    """
    if signal in correction.signals:
        return None
    as_drafted = _reverted_to(correction.signals)
    correction.signals = [signal if one["step"] == step.number else one for one in correction.signals]
    correction.drafted = {**correction.drafted, "reverted_to": _reverted_to(correction.signals)}
    if correction.reverted_to == as_drafted:
        correction.reverted_to = correction.drafted["reverted_to"]
    correction.revision += 1
    correction.goes_at = None
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
    owned, place = owner_of(source.audience), source.place
    for_clients = step.audience == Reach.CLIENTS
    words = {
        "seen": signal["signal"],
        "reverted_to": signal["reverted_to"],
        "what_to_do": source.what_to_do,
        "back_when": BACK_AFTER_CI if run.retries.exists() else BACK_UNKNOWN,
    }
    return Correction.objects.create(
        run=run,
        **standing_at(place),
        audience=source.audience or step.read_by,
        recipient=str(owned.owner) if owned else "",
        address=owned.address if owned else {},
        signals=[signal],
        **words,
        drafted=words,
        template=Template.objects.newest(Kind.CORRECTION, place.kind),
        questions_to=run.owner,
        key=keys.digest(["correction", run.pk, place.key, step.call_key, Correction.objects.filter(run=run).count()]),
        drafted_at=run.now,
        for_clients=for_clients,
        goes_at=None if for_clients else goes_at(owned, run),
    )


def standing_at(place: Place) -> dict[str, Any]:
    """The fields that say where a correction goes."""
    return {
        "place_key": place.key,
        "place_kind": place.kind,
        "place_label": place.label,
        "limit": place.limit,
        "readers": place.readers[:300],
        "quote": place.quote,
    }


def goes_at(owned: Audience | None, run: Run) -> dt.datetime | None:
    """When a draft for this audience goes by itself, as its owner set it."""
    if owned is None or owned.send_after is None:
        return None
    now: dt.datetime = run.now
    return now + dt.timedelta(minutes=owned.send_after)


def _merge(correction: Correction, source: Source, signal: dict[str, Any]) -> None:
    """A second signal in the same place: one message tells of both."""
    correction.signals = [*correction.signals, signal]
    now = {name: getattr(correction, name) for name in WORDS}
    for name, text in _joined(now, signal, source.what_to_do).items():
        setattr(correction, name, text)
    correction.drafted = _joined(correction.drafted or now, signal, source.what_to_do)
    if source.step.audience == Reach.CLIENTS:
        correction.for_clients, correction.goes_at = True, None
    correction.revision += 1
    correction.save()


def _joined(words: dict[str, str], signal: dict[str, Any], what_to_do: str) -> dict[str, str]:
    parts = [*words["reverted_to"].split("; "), signal["reverted_to"]]
    todo = words["what_to_do"]
    return {
        **words,
        "seen": "; ".join([words["seen"], signal["signal"]]),
        "reverted_to": "; ".join(dict.fromkeys(part for part in parts if part)),
        "what_to_do": todo if what_to_do in todo else " ".join([todo, what_to_do]).strip(),
    }


def another(correction: Correction, run: Run, **words: str) -> Correction:
    """A second message after one that went out, to the same place: what was sent is never reworded."""
    told = {name: words.get(name, getattr(correction, name)) for name in WORDS}
    return _following(correction, run, Kind.CORRECTION, state=CorrectionState.HELD_BACK, **told)


def back_of(correction: Correction, run: Run) -> Correction:
    """The message that what was premature holds now, in the same place; not saved."""
    words = {"seen": correction.seen, "what_to_do": NOTHING_TO_DO, "back_when": "it is back"}
    return _following(correction, run, Kind.BACK, state=CorrectionState.SENDING, back_run=correction.back_run, **words)


SAME = [
    "place_key", "place_kind", "place_label", "place_address", "limit", "readers", "audience", "recipient", "address", "signals", "run",
    "questions_to", "for_clients",
]  # fmt: skip


def _following(correction: Correction, run: Run, kind: Kind, **fields: Any) -> Correction:
    told_before = correction.followed_by.count()
    return Correction(
        **{name: getattr(correction, name) for name in SAME},
        **fields,
        kind=kind,
        follows=correction,
        template=Template.objects.newest(kind, correction.place_kind),
        key=keys.digest([kind, correction.key, told_before]),
        drafted_at=run.__dict__.get("clock") or timezone.now(),
    )


def retried(run: Run) -> None:
    """A retry was opened: what nobody has worded otherwise says that it comes back with that."""
    for draft in Correction.objects.editable().filter(run=run, back_when=BACK_UNKNOWN, kind=Kind.CORRECTION):
        drafted = {**draft.drafted, "back_when": BACK_AFTER_CI}
        # As it was read, or not at all: an owner's save that came between is the newer.
        same = Correction.objects.filter(pk=draft.pk, revision=draft.revision)
        same.update(back_when=BACK_AFTER_CI, drafted=drafted, revision=draft.revision + 1)


def holds_again(retry: Run) -> list[Correction]:
    """What was premature in the runs that `retry` tries again, and holds now that it succeeded."""
    done = set(retry.steps.filter(state__in=HAS_ENDED_WELL).values_list("capability", flat=True))
    found: list[Correction] = []
    run = retry.retry_of
    while run is not None:
        told = Correction.objects.filter(run=run, kind=Kind.CORRECTION, back_run=None).exclude(state=CorrectionState.DISMISSED)
        again = told.filter(steps__capability__in=done).distinct()
        found += again
        Correction.objects.filter(pk__in=[one.pk for one in again]).update(back_run=retry)
        run = run.retry_of
    return found


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
