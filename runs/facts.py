"""All that the pages say about a run, read once: a constant number of queries, however many steps it has."""

from __future__ import annotations

import dataclasses
import datetime as dt
from functools import cached_property
from typing import Any

from django.db.models import Avg, DurationField, ExpressionWrapper, F
from django.utils import timezone

from runs.models import CapabilityRecord, Check, LogEntry, Run, Step, System
from runs.naming import title_of
from runs.sections import Told, sections
from runs.states import Kind, RunState, StepState

S = StepState
# So many runs tell how long an undo takes.
LATELY = 50
# Something of ours is in the world, and we know it. A call that went out past the pivot is counted apart.
STANDS = frozenset({S.DONE, S.UNDOING, S.UNDO_FAILED, S.DRIFTED})
MAYBE = frozenset({S.RUNNING, S.UNKNOWN})
BACK = frozenset({S.UNDONE, S.SETTLED})
MARKS = ("run.failed", "run.compensating", "correction.sent")


@dataclasses.dataclass
class Facts:
    """One run as the database has it now."""

    run: Run
    steps: list[Step]
    now: dt.datetime
    items: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    told: list[Told] = dataclasses.field(default_factory=list)
    # Who will be told of what is not undone yet, while a walk is under way.
    to_tell: list[Told] = dataclasses.field(default_factory=list)
    checks: list[Check] = dataclasses.field(default_factory=list)
    records: dict[str, CapabilityRecord] = dataclasses.field(default_factory=dict)
    marks: list[LogEntry] = dataclasses.field(default_factory=list)
    # Nothing is undone until somebody lifts it.
    frozen: bool = False

    def among(self, *states: str) -> list[Step]:
        return [step for step in self.steps if step.state in states]

    @cached_property
    def in_effect(self) -> list[Step]:
        return [step for step in self.among(*STANDS) if step.leaves_effect and not (step.is_irreversible and step.state == S.DONE)]

    @cached_property
    def next_back(self) -> Step | None:
        """The one that a walk over all of them undoes next: the last that was meant."""
        standing = [step for step in self.in_effect if step.state == S.DONE]
        return max(standing, key=lambda step: (step.intent_seq or 0, step.number), default=None)

    @cached_property
    def maybe(self) -> list[Step]:
        """Calls that may have happened: looked for, or still running."""
        return [step for step in self.among(S.UNKNOWN) if step.leaves_effect]

    @cached_property
    def visible(self) -> list[Step]:
        """What people can see of what could be taken back."""
        return [step for step in [*self.in_effect, *self.maybe] if step.seen_by_people and step.kind != Kind.IRREVERSIBLE]

    @cached_property
    def back(self) -> list[Step]:
        """Verified gone, or stated so by a person."""
        return [step for step in self.among(*BACK) if step.leaves_effect]

    @cached_property
    def undone(self) -> list[Step]:
        """Verified gone."""
        return [step for step in self.back if step.state == S.UNDONE]

    @cached_property
    def settled(self) -> list[Step]:
        """Gone by a person's word."""
        return [step for step in self.back if step.state == S.SETTLED]

    @cached_property
    def sent(self) -> list[Step]:
        """What went out past the pivot, also where it was left standing since."""
        ended = self.among(S.LEFT_STANDING, S.UNDONE, S.SETTLED, S.UNDO_FAILED, S.DRIFTED)
        went = {step.pk for step in ended if step.is_irreversible and step.done_at}
        return [step for step in self.steps if step.state == S.SENT or step.pk in went]

    @cached_property
    def not_made(self) -> list[Step]:
        """Calls of the plan that a person or the time refused."""
        return [step for step in self.among(S.CLOSED) if step.closed_why in ("rejected", "dropped", "expired")]

    @cached_property
    def standing(self) -> list[Step]:
        return self.among(S.LEFT_STANDING)

    @cached_property
    def held(self) -> list[Step]:
        return self.among(S.QUEUED)

    @cached_property
    def withdrawn(self) -> list[Step]:
        return [step for step in self.among(S.CLOSED) if step.closed_why == "withdrawn"]

    @cached_property
    def awaiting(self) -> list[Step]:
        """Held calls that a person may decide now."""
        return [step for step in self.held if self.item_state(step) == "awaiting"]

    @cached_property
    def untold(self) -> list[Told]:
        """Who saw something premature and doesn't know yet: the run is over when this is empty."""
        return [one for one in self.told if one.is_open]

    @cached_property
    def stopped_at(self) -> Step | None:
        """The step at which a walk back stopped, and where its ways on are."""
        return next(iter(self.among(S.UNDO_FAILED, S.DRIFTED, S.UNKNOWN)), None)

    @cached_property
    def unsent(self) -> list[Step]:
        """Calls that were to go out, and did not or perhaps not."""
        return [step for step in self.among(S.FAILED, S.UNKNOWN) if step.is_irreversible]

    @property
    def awaiting_url(self) -> str:
        """Where the first call that waits for a person is decided."""
        return str(self.items[self.awaiting[0].pk].get("url") or "/outbox/") if self.awaiting else ""

    def item_state(self, step: Step) -> str:
        return str(self.items.get(step.pk, {}).get("state", ""))

    def look_of(self, step: Step) -> str:
        """The name of the state people see: the item's while it waits, why it was closed, else the step's own."""
        if step.state == S.QUEUED:
            found = self.item_state(step)
            return found if found in ("awaiting", "approved", "expired") else "held"
        return step.closed_why if step.state == S.CLOSED else step.state

    @cached_property
    def usual(self) -> dict[str, float]:
        """Seconds that an undo of each capability took so far, on average; nothing where there is no history."""
        return usual_undo({step.capability for step in self.steps})

    @property
    def first_press(self) -> dt.datetime | None:
        """When the undo was first asked for; what is tried again later belongs to it."""
        pressed = next((entry.at for entry in self.marks if entry.event == "run.compensating"), None)
        return pressed or self.run.compensating_since

    @property
    def cause(self) -> str:
        """Why the run failed, with the step that failed before the agent fell silent."""
        why = self.run.failed_why
        failed = [step for step in self.among(S.FAILED) if step.ended_at and self.run.failed_at and step.ended_at <= self.run.failed_at]
        if "silent" not in why or not failed:
            return why
        last = max(failed, key=lambda step: step.ended_at or self.now)
        said = f" ({last.error.rstrip('.')})" if last.error else ""
        return f"Step {last.number}, {title_of(last)}, failed{said}; then {why[:1].lower()}{why[1:]}"

    @property
    def lost(self) -> bool:
        """The worker that was undoing let its lease run out."""
        held = [self.run.lease_until, *(step.lease_until for step in self.among(S.UNDOING))]
        return self.run.state == RunState.COMPENSATING and any(until is not None and until < self.now for until in held)

    def mark(self, event: str) -> LogEntry | None:
        """The last entry of this kind."""
        return next((entry for entry in reversed(self.marks) if entry.event == event), None)


def read(run: Run, now: dt.datetime | None = None, *, marks: list[LogEntry] | None = None) -> Facts:
    """All of it; `marks` where the caller has read them already."""
    steps = list(run.steps.as_planned())
    found = Facts(
        run=run,
        steps=steps,
        now=now or timezone.now(),
        items=sections.items_of(run),
        told=sections.told(run),
        checks=list(run.checks.all()),
        records={record.name: record for record in CapabilityRecord.objects.filter(name__in={step.capability for step in steps})},
        marks=list(run.entries.filter(event__in=MARKS).order_by("seq")) if marks is None else marks,
    )
    if run.state == RunState.COMPENSATING:
        found.to_tell = sections.would_tell(run, found.visible)
        frozen = run.__dict__.get("is_frozen")  # where the run was read as somebody sees it
        found.frozen = System.objects.exclude(frozen_at=None).exists() if frozen is None else frozen
    return found


def usual_undo(capabilities: set[str]) -> dict[str, float]:
    """Seconds that an undo took, on average over the last runs that were undone, by capability."""
    lately = Run.objects.filter(state=RunState.COMPENSATED).order_by("-pk").values("pk")[:LATELY]
    took = ExpressionWrapper(F("undone_at") - F("undo_started_at"), output_field=DurationField())
    undone = Step.objects.filter(run__in=lately, capability__in=capabilities, state=S.UNDONE, undo_started_at__isnull=False)
    averages = undone.order_by().values("capability").annotate(took=Avg(took))
    return {row["capability"]: row["took"].total_seconds() for row in averages}
