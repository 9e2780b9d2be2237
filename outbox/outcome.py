"""What became of an item, in a sentence: decided by whom, sent or not, and what happens next."""

from __future__ import annotations

import dataclasses
import datetime as dt

from outbox.models import Decision, Item
from outbox.states import UNDECIDED, Fate, ItemState, Verdict
from runs import registry
from runs.models import Run, Step
from runs.pauses import WAITING
from runs.states import RunState, StepState
from sagaboard.accounts.models import User

UNDONE = {
    RunState.FAILED: "The run failed.",
    RunState.COMPENSATING: "The run is being undone.",
    RunState.COMPENSATED: "The run was undone.",
    RunState.STUCK: "The run was to be undone, and is stuck.",
    RunState.LEFT_STANDING: "What the run did was left standing.",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`says` in bold, `then` after it, `quote` a person's reason; `tone` is "", "seen", "bad" or "undo" as notes have it."""

    says: str = ""
    then: str = ""
    quote: str = ""
    tone: str = ""
    icon: str = "clock"
    at: dt.datetime | None = None


def outcome_of(item: Item, siblings: list[Item], user: User) -> Outcome:
    """The sentence above the decision bar, or instead of it."""
    run = item.step.run
    if item.state == ItemState.HELD:
        return Outcome("Nothing to decide yet.", "Its run is not green: the agent is still at work, or checks are not in.", icon="queued")
    if item.state == ItemState.AWAITING:
        return _expired(item, run) if item.has_lapsed else _some_yeses(item, user)
    if item.state == ItemState.APPROVED:
        return _approved(item, siblings, user)
    if item.state == ItemState.SENT:
        return Outcome(f"Sent. {_yes(item, user)}", _answer(item.step), icon="sent", tone="undo", at=item.step.done_at)
    if item.state == ItemState.REJECTED:
        return _rejected(item, user)
    if item.state == ItemState.WITHDRAWN:
        return Outcome("Nothing was sent.", f"The run failed, so this was withdrawn: {run.failed_why}", icon="withdrawn", at=item.closed_at)
    if item.state == ItemState.DROPPED:
        return Outcome(f"Nothing was sent. {item.let_go_by} dropped this.", quote=item.step.error, icon="skipped", at=item.closed_at)
    return _expired(item, run)


def _some_yeses(item: Item, user: User) -> Outcome:
    said = item.standing()
    if not said:
        return Outcome()
    left = item.quorum - len(said)
    return Outcome(
        f"{_capital(_names(said, user))} said yes.",
        f"{left} more {'yes is' if left == 1 else 'yeses are'} needed.",
        tone="seen",
        icon="await",
    )


def _approved(item: Item, siblings: list[Item], user: User) -> Outcome:
    said, step = _yes(item, user), item.step
    if step.state == StepState.FAILED:
        return Outcome("Not sent.", f"{step.error} {said}", tone="bad", icon="stuck")
    if step.state == StepState.UNKNOWN:
        return Outcome("It may or may not have been sent.", f"Looking. {step.error}", tone="seen", icon="unknown")
    if step.state == StepState.RUNNING:
        return Outcome(said, "Sending…", icon="running")
    if step.error.startswith(WAITING):
        return Outcome(said, step.error, tone="seen", icon="alert")
    if step.tries and step.error:
        return Outcome(
            f"Not sent: {step.error}.", f"Trying again with the same key ({step.tries} of {_attempts(step)}).", tone="seen", icon="alert"
        )
    if item.step.run.state == RunState.STUCK:
        return Outcome(said, f"Nothing goes out: the run is stuck. {item.step.run.stopped_why}", tone="bad", icon="stuck")
    open_ones = [other for other in siblings if other.state in UNDECIDED and not item.is_gate]
    if open_ones:
        names = ", ".join(f"“{other}”" for other in open_ones[:3])
        return Outcome(said, f"It goes out when {names} {'is' if len(open_ones) == 1 else 'are'} decided too.", icon="approved")
    return Outcome(said, "Sending…", icon="approved")


def _rejected(item: Item, user: User) -> Outcome:
    last = next((one for one in reversed(list(item.decisions.all())) if one.verdict == Verdict.REJECT), None)
    if last is None:
        return Outcome("Nothing was sent.", icon="rejected", at=item.closed_at)
    then = _since(last.fate, item.step.run)
    return Outcome(f"Nothing was sent. {_capital(_names([last], user))} rejected this.", then, last.reason, icon="rejected", at=last.at)


def _since(fate: str, run: Run) -> str:
    """What became of the run after a rejection, as it is now."""
    if fate == Fate.COMPENSATE:
        return UNDONE.get(RunState(run.state), "")
    if fate == Fate.SEND_BACK:
        return "It went back to the agent." if run.state == RunState.OPEN else f"It went back to the agent; {_now(run)}."
    if run.is_going_forward:
        return "Only this item was dropped; the run goes on without it."
    return f"Only this item was dropped; {_now(run)}."


def _now(run: Run) -> str:
    return f"the run is {run.get_state_display().lower()} now" if run.state != RunState.SUCCEEDED else "the run succeeded without it"


def _expired(item: Item, run: Run) -> Outcome:
    if item.is_gate:
        return Outcome("Expired. Nothing was sent.", "Nobody decided in time, so the run failed.", icon="expired", at=item.closed_at)
    then = f"Nobody decided in time. {run.owner}, who owns the run, asks again or drops it."
    return Outcome("Expired. Nothing was sent.", then, tone="seen", icon="expired", at=item.expires_at)


def _yes(item: Item, user: User) -> str:
    said = [one for one in item.standing() if one.verdict == Verdict.APPROVE]
    return f"Approved by {_names(said, user)}." if said else "By policy it needs no yes."


def _names(decisions: list[Decision], user: User) -> str:
    names = ["you" if one.by_id == user.pk else one.by_name for one in decisions]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _attempts(step: Step) -> int:
    capability = registry.find(step.capability)
    return capability.retry.attempts if capability else step.tries


def _answer(step: Step) -> str:
    """What the target called it: the short facts of the effect."""
    facts = {name: value for name, value in (step.effect or {}).items() if isinstance(value, (str, int)) and len(str(value)) <= 80}
    return " · ".join(f"{name.replace('_', ' ')} {value}" for name, value in list(facts.items())[:4])
