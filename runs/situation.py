"""The first sentence of a run's page, why, and its four facts. All from facts; nothing here changes anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from runs import key_facts, naming
from runs.facts import Facts
from runs.key_facts import Fact
from runs.models import Step
from runs.sections import Told
from runs.states import RunState, StepState
from runs.wording import calls, capital, counted, is_are, listed, word
from sagaboard.templatetags.words import about, duration, name_of, sentence, short, shown

S, R = StepState, RunState


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of the sentence; `tone` is "" or one of em (eyes on it, a person is waited for), ok, bad."""

    text: str
    tone: str = ""


@dataclasses.dataclass(frozen=True)
class Situation:
    say: list[Part]
    # The reason as somebody gave it, and what is ours of it: two directions of writing may meet there.
    said: str
    ours: str
    facts: list[Fact]
    # 0 to 100 while it is being undone.
    meter: int | None = None
    meter_says: str = ""

    @property
    def sentence(self) -> str:
        return " ".join(part.text for part in self.say)

    @property
    def why(self) -> str:
        return f"{self.said} {self.ours}".strip()


def of(facts: Facts) -> Situation:
    say, numbers = CASES[RunState(facts.run.state)]
    meter = _meter(facts) if facts.run.state == R.COMPENSATING else None
    parts = [part for part in say(facts) if part.text]
    return Situation(parts, *_why(facts), numbers(facts), meter, _progress(facts) if meter is not None else "")


# ---- the sentence


def _open(facts: Facts) -> list[Part]:
    if unknown := facts.maybe:
        return [*_may_have(facts, unknown), _effects(facts), _nothing_sent(facts)]
    if on_hold := facts.among(S.ON_HOLD):
        return [Part(f"{calls(on_hold)} on hold for a person.", "em"), _effects(facts), _nothing_sent(facts)]
    if waiting := facts.awaiting:
        return [
            Part("Everything before the gate is done."),
            Part(f"{calls(waiting, 'waits', 'wait')} for a person.", "em"),
            _effects(facts),
        ]
    running = facts.among(S.RUNNING, S.REQUESTED)
    if running:
        first = (
            f"Step {running[0].number} of {len(facts.steps)} is running."
            if len(running) == 1
            else f"{counted(running, 'step')} are running."
        )
        return [Part(first), _effects(facts), _nothing_sent(facts)]
    begun = any(step.intent_seq for step in facts.steps)
    waits = "Waiting for the agent’s next call." if begun else "Waiting for the agent. Nothing was done yet."
    return [Part(waits), _effects(facts) if begun else Part(""), _nothing_sent(facts) if begun else Part("")]


def _checking(facts: Facts) -> list[Part]:
    pending = [check.name for check in facts.checks if check.state == "pending"]
    red = [check.name for check in facts.checks if check.state == "failure"]
    if not facts.checks:
        wait = Part("No check decides this run: a person has to say that it is good.", "em")
    elif red:
        wait = Part(f"{listed(red)} is red and may still turn green.", "bad")
    else:
        wait = Part(f"Waiting for {listed(pending)}.")
    return [Part("The agent is done."), wait, _effects(facts), _nothing_sent(facts)]


def _releasing(facts: Facts) -> list[Part]:
    if waiting := facts.awaiting:
        return [
            Part("Everything before the pivot is done."),
            Part(f"{calls(waiting, 'waits', 'wait')} for a person.", "em"),
            _sent_so_far(facts),
        ]
    left = facts.held + [step for step in facts.among(S.RUNNING, S.UNKNOWN) if step.is_irreversible]
    return [Part(f"Going out: {counted(left, 'call')} to go."), _sent_so_far(facts)]


def _succeeded(facts: Facts) -> list[Part]:
    out = f"{counted(facts.sent, 'call')} went out." if facts.sent else "Nothing had to go out."
    end = "." if facts.not_made else ", as planned."
    stay = f"{counted(facts.in_effect, 'effect')} {is_are(facts.in_effect, 'stays', 'stay')}{end}" if facts.in_effect else ""
    return [_as_planned(facts), Part(stay), Part(out)]


def _as_planned(facts: Facts) -> Part:
    """Only what no person and no deadline took out of the plan is done as planned."""
    if not facts.not_made:
        return Part("Done as planned.", "ok")
    reasons = dict.fromkeys(step.closed_why for step in facts.not_made)
    return Part(
        f"Done, but not all of the plan: {counted(facts.not_made, 'call').lower()} {was_were(facts.not_made)} {listed(reasons)}.", "em"
    )


def _failed(facts: Facts) -> list[Part]:
    effects, maybe, out = facts.in_effect, facts.maybe, facts.sent
    if out:
        could = f"{counted(effects, 'effect')} could be." if effects else "Nothing else is in effect."
        return [Part(f"{counted(out, 'call')} went out and can’t be taken back.", "em"), Part(could)]
    if maybe:
        return [*_may_have(facts, maybe), _effects(facts), _nothing_sent(facts)]
    if not effects:
        if facts.back:
            return [Part("Failed. Nothing is in effect any more.", "ok")]
        if facts.among(S.RUNNING, S.REQUESTED):
            return [Part("Failed while a step was running. Whether it left anything is known when it ends.")]
        return [Part("Failed before it did anything. There is nothing to undo.")]
    are = "is" if len(effects) == 1 else "are"
    return [
        Part(f"{counted(effects, 'effect')} {are} still out there."),
        _who_sees(facts),
        Part("Nothing that can’t be taken back was sent."),
    ]


def _compensating(facts: Facts) -> list[Part]:
    undoing, back = facts.among(S.UNDOING), facts.back
    if undoing:
        now = Part(f"Undoing step {undoing[0].number}, {naming.title_of(undoing[0])}.")
    elif facts.maybe:
        now = Part(f"Looking whether step {facts.maybe[0].number} happened.")
    else:
        now = Part("Getting ready to undo." if not back else "Going on to the next undo.")
    if facts.lost and not facts.frozen:
        now = Part("A worker was lost; what it did is looked at again.", "em")
    done = Part(_back(facts, "already back"), "ok") if back else Part("")
    return [now, done, _who_sees(facts, ended=True)]


def _compensated(facts: Facts) -> list[Part]:
    stay, settled = facts.standing, facts.settled
    back = "" if facts.untold else "ok"
    if stay:
        first = Part(f"{counted(stay, 'effect')} could not be taken back and {is_are(stay, 'stays', 'stay')}.", "em")
    elif all(naming.was_gone(step) for step in settled):
        first = Part("Everything is back where it was.", back)
    else:
        first = Part("Not everything is known to be back.", "em")
    return [first, Part(_undone(facts)), _who_was_told(facts)]


def _undone(facts: Facts) -> str:
    """How many are verified, and by whose word the others are gone."""
    total, undone, settled = len(facts.back) + len(facts.standing), facts.undone, facts.settled
    if not total:
        return "There was nothing to undo."
    of_all = f"{capital(word(len(undone)))} of {word(total)} {'effect' if total == 1 else 'effects'}"
    if not settled:
        return f"{of_all} undone and verified{_took(facts)}."
    who = listed(dict.fromkeys(name_of(step.settled_by) for step in settled))
    there = [step for step in settled if not naming.was_gone(step)]
    still = all(naming.seen_of(step) == "still there" for step in there)
    saw = "sagaboard saw it gone" if not there else "sagaboard still saw it there" if still else "sagaboard could not see it gone"
    return (
        f"{of_all} {is_are(undone)} undone and verified{_took(facts)}; "
        f"{word(len(settled))} {was_were(settled)} settled by {who}, and {saw}."
    )


def _stuck(facts: Facts) -> list[Part]:
    run, back, left = facts.run, facts.back, [*facts.in_effect, *facts.maybe]
    at = facts.among(S.UNDO_FAILED, S.DRIFTED)
    none_back = f"Nothing is back yet, {word(len(left))} effect{'' if len(left) == 1 else 's'} {is_are(left)} out there."
    some_back = f"{_back(facts, 'back').rstrip('.')}, {word(len(left))} {is_are(left)} not."
    rest = Part(some_back if back else none_back)
    if at and at[0].state == S.DRIFTED:
        return [Part(f"Stopped at step {at[0].number}: somebody changed it since.", "bad"), rest]
    if at:
        return [Part(f"Stopped at step {at[0].number}: the undo can’t be verified.", "bad"), rest]
    if run.compensating_since is None:
        where = "Stopped while calls were going out."
        if facts.unsent:
            first = facts.unsent[0]
            why = "it could not be sent" if first.state == S.FAILED else "nobody knows whether it was sent"
            where = f"Stopped at step {first.number}: {why}."
        return [Part(where, "bad"), _sent_so_far(facts)]
    if run.pause_asked or run.stopped_why.startswith("Paused"):
        return [Part("Paused by a person.", "bad"), rest]
    if facts.maybe:
        return [*_may_have(facts, facts.maybe), rest]
    return [Part("Stopped at the pivot: before this a call went out and can’t be taken back.", "bad"), rest]


def _left(facts: Facts) -> list[Part]:
    stay = facts.standing
    return [Part(f"{counted(stay, 'effect')} {is_are(stay, 'stays', 'stay')} on purpose.", "em"), _who_was_told(facts)]


# ---- its pieces


def _may_have(facts: Facts, steps: list[Step]) -> list[Part]:
    first = steps[0]
    since = f" since {short(first.started_at, facts.now)}" if first.started_at else ""
    looking = "A person has to say."
    if first.due_at is not None:
        # Times, not durations: the sentence stands on the page until the log grows.
        looking = f"Looking{since}; the next look is at {short(first.due_at, facts.now)}."
    return [Part(f"Step {first.number} may or may not have happened.", "em"), Part(looking)]


def _effects(facts: Facts) -> Part:
    effects = facts.in_effect
    if not effects:
        return Part("No effect exists.")
    exist = is_are(effects, "exists", "exist")
    if facts.visible:
        return Part(f"{counted(effects, 'effect')} {exist}, people can see {word(len(facts.visible))}.")
    return Part(f"{counted(effects, 'effect')} {exist}, machines only.")


def _back(facts: Facts, how: str) -> str:
    """`Two effects are back`: those that are verified; what a person settled is said apart."""
    undone, settled = facts.undone, facts.settled
    first = f"{counted(undone, 'effect')} {is_are(undone)} {how}" if undone else ""
    by_hand = f"{word(len(settled))} {was_were(settled)} settled by hand" if settled else ""
    return capital(", ".join(text for text in (first, by_hand) if text)) + "."


def was_were(things: list[Step]) -> str:
    return is_are(things, "was", "were")


def _who_sees(facts: Facts, *, ended: bool = False) -> Part:
    seen = facts.visible
    if seen:
        of_all = len([*facts.in_effect, *facts.maybe])
        whom = "it" if of_all == 1 else f"{word(len(seen))} of them" if len(seen) < of_all else "all of them"
        return Part(f"People can {'still ' if ended else ''}see {whom}.", "em")
    if ended and any(step.seen_by_people and not naming.was_gone(step) for step in facts.settled):
        return Part("People may still see what was settled by hand.", "em")
    if ended:
        return Part(
            "No person can see anything of this run any more."
            if any(step.seen_by_people for step in facts.back)
            else "No person saw anything of it."
        )
    return Part("Machines only; no person can see anything.")


def _nothing_sent(facts: Facts) -> Part:
    return Part("Nothing was sent.") if not facts.sent else _sent_so_far(facts)


def _sent_so_far(facts: Facts) -> Part:
    return Part(f"{counted(facts.sent, 'call')} went out." if facts.sent else "Nothing was sent yet.")


def _who_was_told(facts: Facts) -> Part:
    told, due = [one for one in facts.told if one.state == "sent"], facts.untold
    if due:
        return Part(f"{_people_or_places(due)} {is_are(due)} to be told.", "em")
    if not told:
        return Part("Nobody was told." if facts.told else "Nobody had to be told.")
    return Part(f"{_people_or_places(told)} {is_are(told, 'was', 'were')} told.")


def _people_or_places(told: list[Told]) -> str:
    """A note has one reader; who reads a ticket or a channel isn't known by number."""
    return counted(told, "person", "people") if all(one.who != one.how for one in told) else counted(told, "place")


def _took(facts: Facts) -> str:
    pressed, ended = facts.first_press, facts.run.ended_at
    return f", in {duration(ended - pressed)}" if pressed and ended else ""


def _why(facts: Facts) -> tuple[str, str]:
    """The reason, from the log, and what is ours of it: its time and what follows."""
    run = facts.run
    if run.state == R.OPEN:
        bound = f"{run.patience // 60} min" if run.patience % 60 == 0 else duration(run.patience)
        return "", f"Last heard {short(run.last_heard_at, facts.now)}; after {bound} of silence the run is failed."
    if run.state == R.COMPENSATED:
        pressed = facts.mark("run.compensating")
        sent = "" if facts.sent or facts.standing else " Nothing that can’t be taken back was ever sent."
        return "", f"Compensated by {name_of(pressed.actor)} at {short(pressed.at, facts.now)}.{sent}" if pressed else ""
    if run.state in (R.STUCK, R.LEFT_STANDING):
        return sentence(shown(run.stopped_why)), "Nothing more happens until someone decides." if run.state == R.STUCK else ""
    if run.state == R.FAILED and run.failed_at:
        return sentence(shown(facts.cause)), f"Failed {short(run.failed_at, facts.now)}."
    return "", ""


def _meter(facts: Facts) -> int:
    total = len(facts.back) + len(facts.in_effect) + len(facts.maybe)
    return round(100 * len(facts.back) / total) if total else 100


def _progress(facts: Facts) -> str:
    total = len(facts.back) + len(facts.in_effect) + len(facts.maybe)
    by_hand = f", {len(facts.settled)} settled by hand" if facts.settled else ""
    after = "nothing is undone until the freeze is lifted" if facts.frozen else "you can close this page, the server goes on"
    return f"{len(facts.undone)} of {total} undone and verified{by_hand}{_left_to_do(facts)} · {after}"


def _left_to_do(facts: Facts) -> str:
    """How long it still takes; nothing while that can't be known, or is over already."""
    left = [*facts.in_effect, *facts.maybe]
    known = [facts.usual[step.capability] for step in left if step.capability in facts.usual]
    overdue = any(
        step.undo_started_at and (facts.now - step.undo_started_at).total_seconds() > facts.usual.get(step.capability, 0)
        for step in facts.among(S.UNDOING)
    )
    if not left or len(known) != len(left) or overdue or facts.lost or facts.frozen:
        return ""
    return f" · {about(sum(known))} left"


Say = Callable[[Facts], list[Part]]
Numbers = Callable[[Facts], list[Fact]]
CASES: dict[RunState, tuple[Say, Numbers]] = {
    R.OPEN: (_open, key_facts.for_forward),
    R.CHECKING: (_checking, key_facts.for_forward),
    R.RELEASING: (_releasing, key_facts.for_forward),
    R.SUCCEEDED: (_succeeded, key_facts.for_forward),
    R.FAILED: (_failed, key_facts.for_forward),
    R.COMPENSATING: (_compensating, key_facts.for_undoing),
    R.COMPENSATED: (_compensated, key_facts.for_undone),
    R.STUCK: (_stuck, key_facts.for_stuck),
    R.LEFT_STANDING: (_left, key_facts.for_left),
}
