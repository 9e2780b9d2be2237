"""The list of runs: which of them need someone, and what one line says of each. A constant number of queries."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict

from django.db.models import F

from runs import exposure, strip
from runs.facts import Facts
from runs.models import Run, Step
from runs.models.run import RunQuerySet
from runs.sections import sections
from runs.states import RunState, StepState
from sagaboard.accounts.models import User
from sagaboard.web import count_together

PAGE = 30
# More unfinished runs than this in a group are not read line by line.
AT_MOST = 40
FILTERS = {"needs": "Needs someone", "visible": "Visible to people", "running": "Running", "compensated": "Compensated"}


@dataclasses.dataclass(frozen=True)
class Line:
    """One run in the list."""

    run: Run
    facts: Facts
    strip: strip.Strip
    look: str
    label: str
    visible: list[Step]
    visible_since: dt.datetime | None
    awaiting: int
    # How many still believe what they saw of a run that ended.
    untold: int
    last_at: dt.datetime

    @property
    def readers(self) -> str:
        return ", ".join(dict.fromkeys(step.read_by for step in self.visible))

    @property
    def rank(self) -> tuple[int, float]:
        """Longest seen by people first, then stuck, failed, not known, waiting for a yes."""
        order = [
            bool(self.visible_since),
            self.run.state == RunState.STUCK,
            self.run.state == RunState.FAILED,
            self.look == "unknown",
            True,
        ]
        moment = self.visible_since or self.run.last_heard_at
        return order.index(True), moment.timestamp()

    @property
    def was_seen(self) -> list[Step]:
        return [step for step in [*self.facts.back, *self.facts.standing] if step.seen_by_people]


@dataclasses.dataclass(frozen=True)
class Board:
    """The three groups, and how many there are of each kind."""

    needs: list[Line]
    running: list[Line]
    finished: list[Line]
    # Whether there are others in these groups, behind those listed.
    more_need: bool
    more_run: bool
    older: int | None
    counts: dict[str, int]

    @property
    def is_empty(self) -> bool:
        return not (self.needs or self.running or self.finished)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the address asks for."""

    state: str = ""
    q: str = ""
    owner: str = ""
    agent: str = ""
    seen: str = ""
    before: int | None = None

    @property
    def is_all(self) -> bool:
        return not (self.state or self.q or self.owner or self.agent or self.seen or self.before)


def board(user: User, wanted: Wanted, now: dt.datetime) -> Board:
    awaiting, untold = sections.awaiting(), sections.untold()
    visible = Run.objects.visible_to(user)
    # Numbers first: there may be very many, of which few are listed.
    pressing = list(visible.needing_someone({*awaiting, *untold}).most_pressing_first().values_list("pk", flat=True))
    moving = list(visible.moving().values_list("pk", flat=True))
    asked = _narrowed(visible, wanted)
    needs, running = _unfinished(asked, wanted, pressing, moving)
    finished = [] if wanted.state == "needs" else _finished(asked, wanted, set(pressing) - set(moving))
    shown = _listed(visible).in_bulk([*needs[:AT_MOST], *running[:AT_MOST]])
    lines = _lines([*shown.values(), *finished[:PAGE]], awaiting, untold, now)
    return Board(
        needs=sorted((lines[pk] for pk in needs[:AT_MOST]), key=lambda line: line.rank),
        running=sorted((lines[pk] for pk in running[:AT_MOST]), key=lambda line: -line.last_at.timestamp()),
        finished=[lines[run.pk] for run in finished[:PAGE]],
        more_need=len(needs) > AT_MOST,
        more_run=len(running) > AT_MOST,
        older=finished[PAGE - 1].pk if len(finished) > PAGE else None,
        counts={**_counts(visible), "needs": len(pressing), "running": len(moving)},
    )


def _unfinished(asked: RunQuerySet, wanted: Wanted, pressing: list[int], moving: list[int]) -> tuple[list[int], list[int]]:
    """The numbers of those that need someone, and of the others that are on their way, as far as they are asked for."""
    if wanted.before:
        return [], []
    needing = set(pressing)
    others = [] if wanted.state == "needs" else [pk for pk in moving if pk not in needing]
    if wanted.is_all:
        return pressing, others
    found = set(asked.filter(pk__in=[*pressing, *others]).values_list("pk", flat=True))
    return [pk for pk in pressing if pk in found], [pk for pk in others if pk in found]


def _finished(asked: RunQuerySet, wanted: Wanted, needing: set[int]) -> list[Run]:
    """A page of them, and one more if there are others."""
    rest = _listed(asked).standing_still().exclude(pk__in=needing)
    return list((rest.filter(pk__lt=wanted.before) if wanted.before else rest)[: PAGE + 1])


def _listed(runs: RunQuerySet) -> RunQuerySet:
    return runs.select_related("owner", "taken_by").with_last_entry()


def _narrowed(runs: RunQuerySet, wanted: Wanted) -> RunQuerySet:
    if wanted.q:
        runs = runs.matching(wanted.q)
    if wanted.owner:
        runs = runs.filter(owner__username=wanted.owner)
    if wanted.agent:
        runs = runs.filter(agent=wanted.agent)
    if wanted.seen == "people" or wanted.state == "visible":
        runs = runs.seen_by_people_now()
    if wanted.state == "compensated":
        runs = runs.filter(state=RunState.COMPENSATED)
    return runs.moving() if wanted.state == "running" else runs


def _lines(runs: list[Run], awaiting: dict[int, int], untold: dict[int, int], now: dt.datetime) -> dict[int, Line]:
    steps: dict[int, list[Step]] = defaultdict(list)
    # Nothing of these stands in a line, and there are a thousand steps.
    wide = (
        "args", "prepared", "effect", "why", "touches", "error", "undo_error", "settled_by", "settled_why", "settled_as",
        "seen_at_settling", "key", "call_key", "args_digest", "identity_digest", "version", "planned_kind", "lease_until", "worker",
        "due_at", "requested_at", "undo_started_at", "tidied_at", "window_paged_at",
    )  # fmt: skip
    for step in Step.objects.filter(run__in=[run.pk for run in runs]).as_planned().defer(*wide):
        steps[step.run_id].append(step)
    return {run.pk: _line(run, steps[run.pk], awaiting.get(run.pk, 0), untold.get(run.pk, 0), now) for run in runs}


def _line(run: Run, steps: list[Step], awaiting: int, untold: int, now: dt.datetime) -> Line:
    facts = Facts(run, steps, now)
    seen = [] if run.state == RunState.SUCCEEDED else facts.visible
    starts = [exposure.of(step).started for step in seen]
    look, label = look_of(facts, awaiting, untold)
    since = min((start for start in starts if start), default=None)
    last_at = run.last_at or run.opened_at  # type: ignore[attr-defined]  # annotated
    return Line(run, facts, strip.of(steps), look, label, seen, since, awaiting, untold, last_at)


def look_of(facts: Facts, awaiting: int, untold: int) -> tuple[str, str]:
    """The pill of a run: its state, or what it waits for. It is not over while somebody believes what they saw of it."""
    run = facts.run
    if run.has_ended and untold:
        return "draft", f"{run.get_state_display()}, {untold} to tell"
    if run.state == RunState.FAILED and not facts.in_effect and not facts.maybe and not facts.sent:
        return "failed", "Failed, nothing to undo"
    if run.is_going_forward and facts.maybe:
        return "unknown", ""
    if run.is_going_forward and facts.among(StepState.ON_HOLD):
        return "on_hold", ""
    if run.is_going_forward and awaiting:
        return "awaiting", ""
    return run.state, ""


def _counts(runs: RunQuerySet) -> dict[str, int]:
    found = count_together([(F("state"), runs), ("visible", runs.seen_by_people_now())])
    visible = found.pop("visible", 0)
    return {"all": found.total(), "visible": visible, "compensated": found[RunState.COMPENSATED]}
