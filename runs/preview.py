"""What a press of Compensate would do: the walk's own order, with read-only looks at the systems. Changes nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import itertools
import json
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from typing import Any

import pydantic
from django.core import signing
from django.db import connections
from django.db.models import QuerySet
from django.utils import timezone

from runs import naming, registry
from runs.blast_radius import FOLDED_FROM
from runs.capability import Capability
from runs.engine.attempt import bounded, call_for, reason_of, timeout_of
from runs.engine.compensate import drift_in_words
from runs.exceptions import Invalid, StalePreview, Unreadable
from runs.facts import usual_undo
from runs.models import CapabilityRecord, LogEntry, Run, Step, System
from runs.sections import Told, sections
from runs.states import RunState, StepState
from sagaboard.templatetags.words import plural
from sagaboard.templatetags.words import shown as shown_text

S = StepState
SALT = "runs.preview"
# Seconds. A look that takes longer is reported as no answer; a preview that is older looks again by itself.
PATIENCE = 10.0
FRESH_FOR = 3600
TOGETHER = 6

AS_LEFT, GONE, DRIFTED, NO_ANSWER, MAY_HAVE, CANT, LOOKING = "as_left", "gone", "drifted", "no_answer", "may_have", "cant", "looking"


@dataclasses.dataclass(frozen=True)
class Line:
    """One step that the walk would come to, and what the look at its system found."""

    step: Step
    title: str
    identifier: str
    undo: str
    note: str
    undone_when: str
    proof: str
    proven: bool
    takes: float | None
    finding: str
    says: str
    # A call that went out stands after it: only an override undoes it.
    behind_pivot: bool

    @property
    def will_be_undone(self) -> bool:
        return self.finding not in (GONE, CANT)


@dataclasses.dataclass(frozen=True)
class Preview:
    run: Run
    head: str
    lines: list[Line]
    rest: list[Step]
    sent: list[Step]
    told: list[Told]
    to: str
    looked_at: dt.datetime
    frozen: bool = False
    # What an earlier preview had said, by step number; empty for a first one.
    before: dict[int, str] = dataclasses.field(default_factory=dict)

    @property
    def to_undo(self) -> list[Line]:
        return [line for line in self.lines if line.will_be_undone]

    @property
    def groups(self) -> list[list[Line]]:
        """What will be undone, in its order; many neighbours of one kind, about which nothing is to be said, stand together."""
        found: list[list[Line]] = []
        for kind, neighbours in itertools.groupby(self.to_undo, key=self._folds_as):
            lines = list(neighbours)
            found += [lines] if kind and len(lines) >= FOLDED_FROM else [[line] for line in lines]
        return found

    def _folds_as(self, line: Line) -> str:
        plain = line.finding in (AS_LEFT, LOOKING) and line.proven and not line.behind_pivot and not line.step.seen_by_people
        return line.step.capability if plain and line.step.number not in self.new else ""

    @property
    def wont(self) -> list[Line]:
        return [line for line in self.lines if not line.will_be_undone]

    @property
    def drifted(self) -> list[Line]:
        return [line for line in self.lines if line.finding == DRIFTED]

    @property
    def unproven(self) -> list[Line]:
        return [line for line in self.to_undo if not line.proven]

    @property
    def silent(self) -> list[Line]:
        return [line for line in self.lines if line.finding == NO_ANSWER]

    @property
    def stops_at(self) -> Line | None:
        """The first step, in the walk's order, at which it will stop and ask unless its change is undone over."""
        return next((line for line in self.lines if line.finding in (DRIFTED, CANT)), None)

    @property
    def tells(self) -> str:
        """Whom the press tells, in words for its button; what has nowhere to go tells nobody."""
        reached = [one for one in self.told if one.reaches]
        noun = "person,people" if all(one.who != one.how for one in reached) else "place"
        return plural(len(reached), noun) if reached else "nobody"

    @property
    def can_be_whole(self) -> bool:
        """Whether ticks alone keep the walk from stopping."""
        return bool(self.drifted) and not any(line.finding == CANT for line in self.lines)

    @property
    def before_stop(self) -> list[Line]:
        """What is undone before that."""
        end = self.lines.index(self.stops_at) if self.stops_at else len(self.lines)
        return [line for line in self.lines[:end] if line.will_be_undone]

    @property
    def withdrawn(self) -> list[Step]:
        return [step for step in self.rest if step.state == S.QUEUED or step.closed_why == "withdrawn"]

    @property
    def not_made(self) -> list[tuple[Step, str]]:
        """What a person or the time refused: by that word, not as withdrawn."""
        return [(step, naming.title_of(step)) for step in self.rest if step.state == S.CLOSED and step.closed_why != "withdrawn"]

    @property
    def withdrawn_numbers(self) -> str:
        *first, last = [str(step.number) for step in self.withdrawn]
        return f"{', '.join(first)} and {last}" if first else last

    @property
    def nothing_to_undo(self) -> list[tuple[Step, str]]:
        return [(step, naming.title_of(step)) for step in self.rest if step.state in (S.NOTHING_TO_UNDO, S.FAILED)]

    @property
    def taken(self) -> list[tuple[Step, str]]:
        """What went out and can't be taken back, by its title."""
        return [(step, naming.title_of(step)) for step in self.sent]

    @property
    def as_left(self) -> bool:
        """Every effect is still exactly as the run left it."""
        return bool(self.lines) and all(line.finding == AS_LEFT for line in self.lines)

    @property
    def looking(self) -> bool:
        return any(line.finding == LOOKING for line in self.lines)

    @property
    def systems(self) -> int:
        """How many systems are being asked."""
        asked = (registry.find(line.step.capability) for line in self.lines if line.finding == LOOKING)
        return len({capability.lives_in for capability in asked if capability is not None})

    @property
    def total(self) -> float | None:
        took = [line.takes for line in self.to_undo]
        return sum(t for t in took if t is not None) if took and None not in took else None

    @property
    def wants_override(self) -> bool:
        """Whether nothing at all can be undone without crossing a call that went out."""
        return bool(self.sent) and (self.run.state == RunState.SUCCEEDED or all(line.behind_pivot for line in self.lines))

    @property
    def new(self) -> set[int]:
        """The numbers of steps whose line differs from the earlier preview's."""
        return {line.step.number for line in self.lines if self.before and self.before.get(line.step.number) != line.finding}

    @property
    def digest(self) -> str:
        """Names the plan: which steps, in which order, and what was found."""
        source = [self.run.pk, self.head, self.to, [[line.step.pk, line.finding] for line in self.lines]]
        return hashlib.sha256(json.dumps(source).encode()).hexdigest()

    @property
    def token(self) -> str:
        """What the press posts back: bound to the log's last entry and to what was shown."""
        shown = {
            "run": self.run.pk,
            "head": self.head,
            "plan": self.digest,
            "to": self.to,
            "lines": [[line.step.number, line.finding] for line in self.lines],
            "unproven": [line.step.number for line in self.unproven],
            "wants_override": self.wants_override,
        }
        return signing.dumps(shown, salt=SALT)


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a posted token says that the person had before their eyes."""

    head: str
    plan: str
    to: str
    lines: list[tuple[int, str]]
    unproven: list[int]
    wants_override: bool

    @property
    def drifted(self) -> list[int]:
        return [number for number, finding in self.lines if finding == DRIFTED]


def shown(run: Run, token: str) -> Shown:
    """Opens a token; StalePreview when it is too old, forged, or of another run."""
    try:
        found = signing.loads(token, salt=SALT, max_age=FRESH_FOR)
    except signing.BadSignature:
        raise StalePreview("This preview is too old. Nothing was undone; look again.") from None
    if found.pop("run") != run.pk:
        raise StalePreview("This preview was of another run. Nothing was undone; look again.")
    try:
        return Shown(**found)
    except TypeError:  # signed by another release of this code
        raise StalePreview("This preview is too old. Nothing was undone; look again.") from None


def check_to(run: Run, to: str) -> None:
    """Invalid, unless `to` is empty or the ref of a step that ran."""
    if to and not run.steps.filter(ref=to, intent_seq__isnull=False).exists():
        raise Invalid(f"No step “{to}” ran in this run.")


def of(run: Run, *, to: str = "", look: bool = True, before: Shown | None = None) -> Preview:
    """The preview of undoing `run`, back to the savepoint `to` if one is named. Without `look` it is the plan alone."""
    steps = list(_in_walk(run, to).in_undo_order())  # type: ignore[attr-defined]
    everything = list(run.steps.as_planned())
    sent = [step for step in everything if step.state == S.SENT or (step.state == S.LEFT_STANDING and step.is_irreversible)]
    head = LogEntry.objects.filter(run=run).moving_head()
    lines = _lines(steps, sent, look=look)
    walked = {step.pk for step in steps}
    rest = [step for step in everything if step.pk not in walked]
    # What went out and stays is corrected too. What was left standing before has its correction already.
    told = sections.would_tell(run, [*steps, *(step for step in sent if step.state == S.SENT)])
    frozen = System.objects.exclude(frozen_at=None).exists()
    return Preview(run, head, lines, rest, sent, told, to, timezone.now(), frozen, dict(before.lines) if before else {})


def _in_walk(run: Run, to: str) -> QuerySet[Step]:
    """The steps that the walk comes to: its own queryset, and what was left standing, which a press takes up again."""
    steps = run.steps.to_undo()
    if run.state == RunState.LEFT_STANDING:
        steps = steps | run.steps.filter(state=S.LEFT_STANDING, effect__isnull=False, kind__in=["reversible", "compensatable"])
    if to:
        savepoint = run.steps.filter(ref=to).values_list("intent_seq", flat=True).first()
        steps = steps.filter(intent_seq__gt=savepoint or 0)
    return steps


def _lines(steps: list[Step], sent: list[Step], *, look: bool) -> list[Line]:
    names = {step.capability for step in steps}
    records = {record.name: record for record in CapabilityRecord.objects.filter(name__in=names)}
    usual = usual_undo(names)
    pivot = max((step.intent_seq or 0 for step in sent), default=0)
    findings = _findings(steps, look=look)
    return [_line(step, records.get(step.capability), usual, pivot, findings[step.pk]) for step in steps]


def _line(step: Step, record: CapabilityRecord | None, usual: dict[str, float], pivot: int, finding: tuple[str, str]) -> Line:
    capability = registry.find(step.capability)
    proven = record is not None and (record.is_proven or step.kind == "reversible")
    proof = "never proven"
    if record is not None and record.proven_at:
        proof = f"last proven {record.proven_at.day} {record.proven_at:%b}" + ("" if record.is_proven else ", for older code")
    elif record is not None and record.is_proven:
        proof = "proven"
    return Line(
        step=step,
        title=naming.title_of(step),
        identifier=naming.identifier_of(step),
        undo=naming.filled(capability.undo_cost, step) if capability else "no undo: the capability is gone",
        note=naming.filled(capability.undo_note, step) if capability else "",
        undone_when=naming.filled(capability.undone_when, step) if capability else "",
        proof=proof,
        proven=proven,
        takes=usual.get(step.capability),
        finding=finding[0],
        says=shown_text(finding[1]),
        behind_pivot=(step.intent_seq or 0) < pivot,
    )


def _findings(steps: list[Step], *, look: bool) -> dict[int, tuple[str, str]]:
    """What each system says, asked at once and each bounded. No transaction is open meanwhile."""
    asked: dict[int, tuple[str, str] | Future[tuple[str, str]]] = {}
    pool = ThreadPoolExecutor(max_workers=TOGETHER, thread_name_prefix="preview")
    ends: dict[int, float] = {}
    for step in steps:
        capability = registry.find(step.capability)
        known = _without_looking(step, capability)
        if known or capability is None:
            asked[step.pk] = known or (CANT, "")
        elif not look:
            asked[step.pk] = (LOOKING, "looking…")
        else:
            ends[step.pk] = min(timeout_of(capability), PATIENCE)
            asked[step.pk] = pool.submit(_look, capability, step)
    found = {pk: _answer(answer, ends.get(pk, 0.0)) for pk, answer in asked.items()}
    # A system that hangs must not hold up the page; its thread ends with its client's own deadline.
    pool.shutdown(wait=False, cancel_futures=True)
    return found


def _without_looking(step: Step, capability: Capability[Any] | None) -> tuple[str, str] | None:
    if capability is None:
        return CANT, "no code defines this capability any more"
    if not capability.has("undo") or not capability.has("verify_undone"):
        return CANT, "no undo is written for it"
    if step.state in (S.RUNNING, S.UNKNOWN):
        return MAY_HAVE, "it may or may not have happened; sagaboard looks for it first, and stops if it can’t tell"
    return None


def _look(capability: Capability[Any], step: Step) -> tuple[str, str]:
    try:
        call = call_for(capability, step)
    except pydantic.ValidationError:
        return CANT, f"its arguments no longer fit {step.capability}, which was changed since"
    try:
        if bounded(capability.verify_undone, call):
            return GONE, "already gone"
        if capability.has("verify_done") and not bounded(capability.verify_done, call):
            return DRIFTED, drift_in_words(capability, call)
        return AS_LEFT, "still as the run left it"
    except Exception as exc:  # whatever the client raises, what counts is that nothing is known
        return NO_ANSWER, f"no answer: {str(exc) if isinstance(exc, Unreadable) else reason_of(exc)}".rstrip(".")
    finally:
        connections.close_all()


def _answer(answer: tuple[str, str] | Future[tuple[str, str]], seconds: float) -> tuple[str, str]:
    if isinstance(answer, tuple):
        return answer
    try:
        return answer.result(timeout=seconds)
    except TimeoutError:
        return NO_ANSWER, f"no answer within {seconds:g} s"
