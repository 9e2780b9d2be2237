"""From a run to the rows of its table: what undo can reach, the pivot, and what it can't. Reads only."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

from runs import exposure, naming, registry
from runs.facts import Facts
from runs.models import CapabilityRecord, Step
from runs.sections import Told
from runs.states import Audience, StepState
from sagaboard.templatetags.words import LOOKS, shown

S = StepState
READERS = {Audience.MACHINES: "machine", Audience.PEOPLE: "eye", Audience.CLIENTS: "out"}
# What the circle on the rail looks like; whatever is not named here looks like its own state.
NODES = {
    "requested": "planned",
    "on_hold": "wait",
    "awaiting": "wait",
    "approved": "held",
    "expired": "withdrawn",
    "rejected": "withdrawn",
    "dropped": "withdrawn",
    "skipped": "withdrawn",
    "nothing_to_undo": "withdrawn",
    "undo_failed": "stuck",
    "drifted": "unknown",
    "settled": "undone",
    "left_standing": "left",
}
GONE = "NO UNDO: the capability is gone"
# So many neighbours fold into one line, in these states.
FOLDED_FROM = 10
FOLDABLE = frozenset({"planned", "requested", "done", "undone", "skipped", "nothing_to_undo"})


@dataclasses.dataclass(frozen=True)
class Row:
    """One step of the table."""

    step: Step
    title: str
    identifier: str
    lives_in: str
    lives_detail: str
    read_by: str
    reader: str
    undo: str
    undo_note: str
    # Nothing is written that would undo it, and nobody said that this is so by nature.
    blank: bool
    look: str
    node: str
    fact: str
    fact_at: dt.datetime | None
    fact_since: dt.datetime | None
    exposure: exposure.Exposure
    item: dict[str, object]
    # The messages that corrected what people saw of it.
    told: list[Told]

    @property
    def told_after(self) -> dt.timedelta | None:
        """From when people could see it until they were told."""
        started = self.exposure.started
        sent = [one.told_at for one in self.told if one.told_at]
        return min(sent) - started if started and sent else None

    @property
    def said(self) -> str:
        """The state's label, where there is no pill."""
        return LOOKS[self.look][2]

    @property
    def settled_why(self) -> str:
        return shown(self.step.settled_why) if self.look in ("settled", "left_standing") else ""

    @property
    def seen(self) -> str:
        """What sagaboard saw itself when a person settled it."""
        return naming.seen_of(self.step) if self.settled_why else ""

    @property
    def is_visible(self) -> bool:
        return self.exposure.is_visible

    @property
    def is_open(self) -> bool:
        """Whether a person has to say how it ended, in place under its row."""
        return self.step.state in (S.UNDO_FAILED, S.DRIFTED, S.UNKNOWN) or self.step.is_unsent


@dataclasses.dataclass(frozen=True)
class Fold:
    """Neighbours that say the same: one capability, one state, machines only. They stand in one line, which leads to them."""

    rows: list[Row]

    @property
    def first(self) -> Row:
        return self.rows[0]

    @property
    def last(self) -> Row:
        return self.rows[-1]


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows above and below the pivot, as planned."""

    above: list[Row]
    below: list[Row]
    crossed_at: dt.datetime | None

    @property
    def rows(self) -> list[Row]:
        return [*self.above, *self.below]

    @property
    def lines(self) -> list[Row | Fold]:
        """What stands above the pivot, folded. What people can see, and whatever is not as it should be, never is."""
        found: list[Row | Fold] = []
        for kind, neighbours in itertools.groupby(self.above, key=_folds_as):
            rows = list(neighbours)
            found += [Fold(rows)] if kind is not None and len(rows) >= FOLDED_FROM else rows
        return found


def _folds_as(row: Row) -> tuple[str, str] | None:
    plain = row.look in FOLDABLE and row.exposure.is_machines and not row.blank and not row.step.is_gate
    return (row.step.capability, row.look) if plain else None


def table(facts: Facts) -> Table:
    """Grouped by the pivot. A gate stands among the steps that undo can reach, with a line of its own."""
    rows = [row(facts, step) for step in facts.steps]
    past = [r for r in rows if r.step.is_irreversible and not r.step.is_gate]
    return Table(above=[r for r in rows if r not in past], below=past, crossed_at=facts.run.pivot_at)


def row(facts: Facts, step: Step) -> Row:
    capability, look = registry.find(step.capability), facts.look_of(step)
    record = facts.records.get(step.capability)
    undo, note, blank = _undo(step, record)
    fact, at, since = _fact(facts, step)
    place, lives_in = naming.place_of(step), (capability.lives_in if capability else record.lives_in if record else "")
    return Row(
        step=step,
        title=naming.title_of(step),
        identifier=naming.identifier_of(step),
        lives_in=lives_in or "not said",
        lives_detail="" if place.casefold() in lives_in.casefold() else place,
        read_by=shown(step.read_by) or (record.read_by if record else "") or step.get_audience_display(),
        reader=READERS[Audience(step.audience)],
        undo=undo,
        undo_note=note,
        blank=blank,
        look=look,
        node=NODES.get(look, look),
        fact=fact,
        fact_at=at,
        fact_since=since,
        exposure=exposure.of(step),
        item=facts.items.get(step.pk, {}),
        told=[one for one in facts.told if step.number in one.steps],
    )


def _undo(step: Step, record: CapabilityRecord | None) -> tuple[str, str, bool]:
    """What taking it back costs, what is peculiar about that, and whether nothing is written that could."""
    capability = registry.find(step.capability)
    if capability is None:
        return GONE, "preview counts it as what can’t be undone", True
    if not capability.leaves_effect:
        return "none needed", "", False
    if not capability.has("undo") and not capability.undo_cost:
        return "NO UNDO WRITTEN", "only a correction can follow", True
    note = naming.filled(capability.undo_note, step) or _proof(record)
    return naming.filled(capability.undo_cost, step) or "not said", note, False


def _proof(record: CapabilityRecord | None) -> str:
    if record is None or not record.has_undo:
        return ""
    if record.is_proven and record.proven_at:
        return f"proven {record.proven_at.day} {record.proven_at:%b}"
    return "" if record.is_proven else "never proven"


def _fact(facts: Facts, step: Step) -> tuple[str, dt.datetime | None, dt.datetime | None]:
    """One fact below the pill: words, the time that completes them, or the time since which it goes on."""
    match facts.look_of(step):
        case "done":
            return _standing(facts, step), None, None
        case "sent":
            return "sent", step.done_at, None
        case "undone" | "nothing_to_undo" if not step.leaves_effect or step.undone_at is None:
            return "leaves no effect", None, None
        case "undone":
            return "verified", step.undone_at, None
        case "undoing":
            about = facts.usual.get(step.capability)
            return (f"of about {about:.0f} s" if about and about >= 1 else ""), None, step.undo_started_at
        case "running":
            return "", None, step.started_at
        case "held" | "awaiting":
            return "queued", step.requested_at, None
        case "withdrawn" | "expired" | "dropped":
            return ("never sent" if step.is_irreversible else shown(step.error) or "never called"), None, None
        case "settled" | "left_standing":
            return f"by {shown(_name(step.settled_by))}", step.ended_at, None
        case "undo_failed":
            return f"tried {'once' if step.undo_tries == 1 else f'{step.undo_tries} times'}" if step.undo_tries else "not tried", None, None
        case "failed" | "unknown" | "on_hold" | "rejected" | "skipped":
            return shown(step.error), None, None
        case "drifted":
            return "somebody changed it", None, None
        case "requested" | "approved" if step.error and step.due_at:
            return f"{shown(step.error)}; tried again", step.due_at, None
        case "requested":
            return "waits for a worker", None, None
    return "", None, None


def _standing(facts: Facts, step: Step) -> str:
    """Of what is in effect: where its undo stands, while the run is on its way back."""
    if facts.run.state == "stuck" and facts.run.compensating_since is not None:
        return "in effect, waits"
    # Back to a savepoint only, or past what went out, is another order than this.
    whole = facts.run.state == "compensating" and not facts.run.undo_to and not facts.sent
    return "in effect, next" if whole and step == facts.next_back else "in effect"


def _name(actor: str) -> str:
    kind, _, name = actor.partition(":")
    return name or {"engine": "sagaboard"}.get(kind, kind)
