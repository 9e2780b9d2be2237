"""What a correction says, worked out from the log."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone

from corrections.models import Audience, Correction, CorrectionQuerySet, Template, owners_of, shown
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
BEFORE = ", as before"
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
    as_drafted = reverted_to(correction.signals)
    correction.signals = [signal if one["step"] == step.number else one for one in correction.signals]
    correction.drafted = {**correction.drafted, "reverted_to": reverted_to(correction.signals)}
    if correction.reverted_to == as_drafted:
        correction.reverted_to = correction.drafted["reverted_to"]
    correction.revision += 1
    correction.goes_at = None
    correction.save()
    run.append("correction.drafted", step=step, place=correction.place_label, signal=signal, again=True)
    return correction


def reverted_to(signals: list[dict[str, Any]]) -> str:
    """How it is again, in one phrase. Of several, the times stand beside the signals."""
    found = list(dict.fromkeys(one["reverted_to"] for one in signals if one["reverted_to"]))
    if len(found) < 2:
        return "".join(found)
    bare = list(dict.fromkeys(text.partition(BEFORE)[0] for text in found))
    return f"{' and '.join(bare)}{BEFORE if any(BEFORE in text for text in found) else ''}"


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
            # A line for each signal, whatever the words of an agent in it; the sentence goes on after them.
            "signal": " ".join(self.filled("human_signal").split()).removesuffix(".") or f"what {step.capability} did",
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
            before = f"{BEFORE} {self.step.done_at:%H:%M} UTC" if self.step.done_at else ""
            return f"{self.filled('reverted_to') or 'how it was'}{before}"
        return f"how it was, says {self.step.settled_by.partition(':')[2]}" if how == "settled" else ""


def _new(run: Run, step: Step, source: Source, signal: dict[str, Any]) -> Correction:
    owned, place = owner_of(source.audience), source.place
    for_clients = step.audience == Reach.CLIENTS
    words = {
        "seen": signal["signal"],
        "reverted_to": signal["reverted_to"],
        "what_to_do": source.what_to_do,
        "back_when": BACK_AFTER_CI if is_retried(run) else BACK_UNKNOWN,
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
    before = correction.signals
    # In the order in which people saw them, which an undo turns round.
    place = sum(one["step"] < signal["step"] for one in before)
    correction.signals = [*before[:place], signal, *before[place:]]
    now = {name: getattr(correction, name) for name in WORDS}
    drafted = correction.drafted or now
    for name, text in _joined(now, before, signal, place, source.what_to_do).items():
        setattr(correction, name, text)
    correction.drafted = _joined(drafted, before, signal, place, source.what_to_do)
    if source.step.audience == Reach.CLIENTS:
        correction.for_clients, correction.goes_at = True, None
    correction.revision += 1
    correction.save()


def _joined(words: dict[str, str], before: list[dict[str, Any]], signal: dict[str, Any], place: int, what_to_do: str) -> dict[str, str]:
    """The words with one more signal among them: a line for each that was seen. What a person wrote stays."""
    seen, back, todo = words["seen"].splitlines(), words["reverted_to"], words["what_to_do"]
    seen.insert(place if len(seen) == len(before) else len(seen), signal["signal"])
    as_drafted = back == reverted_to(before)
    return {
        **words,
        "seen": "\n".join(seen),
        "reverted_to": reverted_to([*before, signal]) if as_drafted else "; ".join(filter(None, [back, signal["reverted_to"]])),
        "what_to_do": todo if what_to_do in todo else " ".join([todo, what_to_do] if place else [what_to_do, todo]).strip(),
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


def is_retried(run: Run) -> bool:
    """Whether a retry, or a retry of that, is under way and may still bring it back."""
    return any((retry.failed_at is None and retry.ended_at is None) or is_retried(retry) for retry in run.retries.all())


def retried(retry: Run) -> None:
    """It was opened, or failed: drafts of what it tries again say when that comes back, as it is known now."""
    for run in _tried_before(retry):
        was, now = (BACK_UNKNOWN, BACK_AFTER_CI) if is_retried(run) else (BACK_AFTER_CI, BACK_UNKNOWN)
        _say_when(Correction.objects.filter(run=run, back_when=was), now)


def holds_again(retry: Run) -> list[Correction]:
    """What was premature in the runs that `retry` tries again, and holds now that it succeeded."""
    done = set(retry.steps.filter(state__in=HAS_ENDED_WELL).values_list("capability", flat=True))
    found: list[Correction] = []
    for run in _tried_before(retry):
        told = Correction.objects.filter(run=run, kind=Kind.CORRECTION, back_run=None).exclude(state=CorrectionState.DISMISSED)
        again = told.filter(steps__capability__in=done).distinct()
        found += again
        same = Correction.objects.filter(pk__in=[one.pk for one in again])
        same.update(back_run=retry)
        _say_when(same.filter(back_when__in=[BACK_UNKNOWN, BACK_AFTER_CI]), f"it is back, by run {retry.number}")
    return found


def _tried_before(retry: Run) -> Iterator[Run]:
    run = retry.retry_of
    while run is not None:
        yield run
        run = run.retry_of


def _say_when(corrections: CorrectionQuerySet, back_when: str) -> None:
    """In what can still be reworded."""
    for draft in corrections.editable().filter(kind=Kind.CORRECTION):
        drafted = {**draft.drafted, "back_when": back_when}
        # As it was read, or not at all: an owner's save that came between is the newer.
        same = Correction.objects.filter(pk=draft.pk, revision=draft.revision)
        same.update(back_when=back_when, drafted=drafted, revision=draft.revision + 1)


def owner_of(audience: str) -> Audience | None:
    """Who owns a cohort, channel or client now."""
    return owners_of([audience]).get(audience)


def seen_when(correction: Correction) -> str:
    """From when to when it could be seen, in UTC and, where they differ, in the reader's own zone."""
    return _when(correction.signals, _zone_of(correction))


def each_seen_when(correction: Correction) -> list[str]:
    """The same for each of its signals."""
    zone = _zone_of(correction)
    return [_when([signal], zone) for signal in correction.signals]


def each_seen_when_utc(correction: Correction) -> list[str]:
    return [_when([signal], "UTC") for signal in correction.signals]


def _zone_of(correction: Correction) -> str:
    return correction.owned.owner.time_zone if correction.owned else "UTC"


def _when(signals: list[dict[str, Any]], zone: str) -> str:
    since, until = shown(signals)
    if since is None:
        return "an unknown time"
    said = _span(since, until, ZoneInfo("UTC"), "UTC")
    if zone == "UTC":
        return said
    town = zone.rpartition("/")[2].replace("_", " ")
    return f"{said} ({_span(since, until, ZoneInfo(zone), f'in {town}')})"


def _span(start: dt.datetime, end: dt.datetime | None, zone: ZoneInfo, where: str) -> str:
    first = f"{start.astimezone(zone):%H:%M}"
    if end is None:
        return f"{first} {where}, and it still is"
    last = f"{end.astimezone(zone):%H:%M}"
    # Short exposures read "02:53:41 to 02:53:59" rather than "02:53 to 02:53".
    if first == last:
        first, last = f"{start.astimezone(zone):%H:%M:%S}", f"{end.astimezone(zone):%H:%M:%S}"
    return f"{first} to {last} {where}"
