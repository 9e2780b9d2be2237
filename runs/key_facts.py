"""The four facts below a run's first sentence: what is in effect, who can see it, what is held, what went out."""

from __future__ import annotations

import dataclasses
import datetime as dt

from runs import naming
from runs.facts import Facts
from runs.states import StepState
from runs.wording import listed, names
from sagaboard.templatetags.words import duration

S = StepState


@dataclasses.dataclass(frozen=True)
class Fact:
    """One of the four; `since` is a time that runs on."""

    label: str
    value: str
    small: str = ""
    tone: str = ""
    since: dt.datetime | None = None


def for_forward(facts: Facts) -> list[Fact]:
    return [_fact_effects(facts), _fact_visible(facts), _fact_held(facts), _fact_sent(facts)]


def for_undoing(facts: Facts) -> list[Fact]:
    undoing = facts.among(S.UNDOING)
    now = (
        Fact("Undoing", f"step {undoing[0].number}", naming.short_name(undoing[0]), since=undoing[0].undo_started_at)
        if undoing
        else Fact("Undoing", "–", "between steps")
    )
    return [
        _fact_undone(facts),
        now,
        _fact_withdrawn(facts),
        _fact_to_be_told(facts),
    ]


def _fact_to_be_told(facts: Facts) -> Fact:
    due = [one for one in [*facts.told, *facts.to_tell] if one.state != "dismissed"]
    reached = [one.who for one in due if one.reaches]
    nobodys = [f"nobody owns “{one.audience}”" for one in due if not one.reaches]
    return Fact(
        "To be told", str(len(reached)), " · ".join(filter(None, [listed(reached), *nobodys])) or "nobody", "hot" if nobodys else ""
    )


def for_stuck(facts: Facts) -> list[Fact]:
    if facts.run.compensating_since is None:
        return for_forward(facts)
    return [_fact_undone(facts), _fact_effects(facts), _fact_visible(facts), _fact_sent(facts)]


def for_undone(facts: Facts) -> list[Fact]:
    told = [one for one in facts.told if one.state == "sent"]
    due = facts.untold
    small = listed([one.who for one in told]) or (f"{len(due)} not yet" if due else "nobody" if facts.told else "nobody had to be")
    return [
        _fact_undone(facts),
        _fact_was_visible(facts),
        _fact_withdrawn(facts),
        Fact("Told", str(len(told)), small, "hot" if due else "good"),
    ]


def for_left(facts: Facts) -> list[Fact]:
    return [
        Fact("Left standing", str(len(facts.standing)), names(facts.standing), "hot"),
        _fact_was_visible(facts),
        _fact_withdrawn(facts),
        _fact_sent(facts),
    ]


def _fact_effects(facts: Facts) -> Fact:
    maybe = f", {len(facts.maybe)} perhaps" if facts.maybe else ""
    return Fact("In effect", str(len(facts.in_effect)), (names(facts.in_effect) or "nothing") + maybe)


def _fact_visible(facts: Facts) -> Fact:
    seen = facts.visible
    if not seen:
        return Fact("Visible to people", "0", "machines only" if facts.in_effect else "nothing", "good")
    first = min(seen, key=lambda step: step.done_at or step.started_at or facts.now)
    return Fact(
        "Visible to people",
        str(len(seen)),
        listed(dict.fromkeys(step.read_by for step in seen)),
        "hot",
        since=first.done_at or first.started_at,
    )


def _fact_was_visible(facts: Facts) -> Fact:
    seen = [step for step in [*facts.back, *facts.standing] if step.seen_by_people and step.done_at]
    if not seen:
        return Fact("Was visible to people", "no time", "nothing", "good")
    longest = max(((step.undone_at or facts.now) - step.done_at for step in seen if step.done_at), default=dt.timedelta())
    return Fact("Was visible to people", duration(longest), listed(dict.fromkeys(step.read_by for step in seen)))


def _fact_held(facts: Facts) -> Fact:
    if facts.withdrawn:
        return _fact_withdrawn(facts)
    small = f"{len(facts.awaiting)} to approve" if facts.awaiting else names(facts.held) or "empty"
    return Fact("Held in outbox", str(len(facts.held)), small, "hot" if facts.awaiting else "")


def _fact_withdrawn(facts: Facts) -> Fact:
    return Fact("Withdrawn, never sent", str(len(facts.withdrawn)), names(facts.withdrawn) or "the outbox was empty")


def _fact_sent(facts: Facts) -> Fact:
    return Fact("Sent past the pivot", str(len(facts.sent)), names(facts.sent) or "nothing went out", "" if facts.sent else "good")


def _fact_undone(facts: Facts) -> Fact:
    total = len(facts.back) + len(facts.in_effect) + len(facts.maybe) + len(facts.standing)
    by_hand = f"{len(facts.settled)} settled by hand" if facts.settled else ""
    small = " · ".join(text for text in (names(facts.undone), by_hand) if text) or "none yet"
    return Fact("Undone and verified", f"{len(facts.undone)} of {total}", small, "good" if facts.undone else "")
