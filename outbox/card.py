"""One item as its card shows it: who will see it, who asked, what came before, exactly what goes, and what can be done now."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from outbox.difference import Row, difference
from outbox.editing import is_editable
from outbox.models import Decision, Item, Version
from outbox.outcome import Outcome, outcome_of
from outbox.payloads import Sheet, sheet
from outbox.policies import Reader, approvers, disabled_in_words
from outbox.services import fates
from outbox.states import Fate, ItemState
from outbox.warnings import unusual, warnings_of
from runs import registry
from runs.models import Step
from runs.states import HAS_ENDED_WELL, Audience, CheckState, StepState
from sagaboard.accounts.models import User

WHO = {Audience.CLIENTS: "client", Audience.PEOPLE: "the team", Audience.MACHINES: "its system"}


@dataclasses.dataclass(frozen=True)
class Before:
    """Something that had to be so first, and whether it is."""

    ok: bool
    text: str
    at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Card:
    """What one person sees of one item, and may do about it."""

    item: Item
    version: Version
    sheet: Sheet
    before: list[Before]
    warnings: list[str]
    cannot_be_taken_back: str
    after: str
    steps: int
    outcome: Outcome
    # Why this person can't say yes, or no, and who could; "" where they can.
    why_not: str
    why_no_reject: str
    decisions: list[Decision]
    is_owner: bool
    # What the newest version changed, or what changed since the version that this person had read.
    difference: list[Row]
    compared: Version | None
    # Whether the whole of a long payload is on the page.
    is_whole: bool
    editable: bool

    @property
    def step(self) -> Step:
        return self.item.step

    @cached_property
    def approvers(self) -> list[User]:
        """Who could say yes instead of this person."""
        return approvers(self.item) if self.item.is_awaiting else []

    @property
    def is_sent(self) -> bool:
        return self.item.state == ItemState.SENT

    @property
    def never_sent(self) -> bool:
        return self.item.closed_at is not None and not self.is_sent

    @property
    def is_open(self) -> bool:
        """Decidable as far as time goes; the sweep may not have come by yet."""
        return self.item.is_awaiting and not self.item.has_lapsed

    @property
    def at_the_end(self) -> str:
        """What becomes of it when nobody answers."""
        run = self.item.step.run
        if self.item.is_gate:
            return "Unanswered, the run fails then, and what it did is undone. Nothing is sent."
        return f"Unanswered, nothing is sent then, and {run.owner} asks again or drops it."

    @property
    def state(self) -> str:
        """As it is shown: what nobody answered in time is expired, also where nothing has noted it yet."""
        return ItemState.EXPIRED if self.item.is_awaiting and not self.is_open else self.item.state

    @property
    def may_approve(self) -> bool:
        return self.is_open and self.is_whole and not self.why_not and all(one.ok for one in self.before)

    @property
    def may_edit(self) -> bool:
        return self.is_open and self.editable and not self.why_no_reject

    @property
    def may_show_all(self) -> bool:
        return self.is_open and not self.is_whole

    @property
    def may_reject(self) -> bool:
        return self.is_open and not self.why_no_reject

    @property
    def may_ask_again(self) -> bool:
        return self.is_owner and self.item.state == ItemState.EXPIRED and not self.item.is_gate

    @property
    def as_read(self) -> str:
        return self.version.as_read if self.is_whole else ""

    @property
    def fates(self) -> list[Fate]:
        return fates(self.item)

    @property
    def yes_number(self) -> int:
        return len(self.item.standing()) + 1

    @property
    def button(self) -> str:
        """What the first press promises: what will happen, and to whom."""
        if self.item.quorum > self.yes_number:
            return f"Give yes {self.yes_number} of {self.item.quorum}"
        return f"Approve and send to {WHO[Audience(self.step.audience)]}"

    @property
    def recipient(self) -> str:
        return str(self.version.to.get("recipient") or self.step.read_by or WHO[Audience(self.step.audience)])

    @property
    def seen(self) -> str:
        """Changes when anything on the card that can change has changed."""
        facts = (self.item.state, self.item.digest, self.item.expires_at, len(self.decisions), self.before, self.outcome, self.after)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def card_of(item: Item, user: User, *, read: str = "", odd: dict[int, list[str]] | None = None) -> Card:
    """The card of an item that was read for it; `read` is the digest of the version that this person had before them."""
    approver, steps = Reader(user), list(item.step.run.steps.all())
    siblings = [_with_title(step) for step in steps if step.pk != item.step_id and hasattr(step, "item")]
    laid_out = sheet(item.current.payload())
    compared = _compared(item, read)
    return Card(
        item=item,
        version=item.current,
        sheet=laid_out,
        before=list(_before(item, steps, siblings)),
        warnings=warnings_of(item, laid_out, unusual([item]) if odd is None else odd),
        cannot_be_taken_back=_cannot_be_taken_back(item.step),
        after=_after(item, siblings),
        steps=len(steps),
        outcome=outcome_of(item, siblings, user),
        why_not=approver.why_not(item) or ("you said yes already" if approver.said_yes(item) else "") or _disabled(item),
        why_no_reject=approver.no_right(item),
        decisions=list(item.decisions.all()),
        is_owner=item.step.run.owner_id == user.pk,
        difference=difference(sheet(compared.payload()), laid_out) if compared else [],
        compared=compared,
        is_whole=not item.current.is_long or item.was_served,  # type: ignore[attr-defined]  # annotated
        editable=item.is_awaiting and is_editable(item),
    )


def _compared(item: Item, read: str) -> Version | None:
    """The version to compare with: the one that was read, else the one an edit replaced."""
    versions = sorted(item.versions.all(), key=lambda version: version.number)
    had = next((version for version in reversed(versions) if version.digest == read != item.digest), None)
    return had or (versions[-2] if len(versions) > 1 and item.closed_at is None else None)


def _with_title(step: Any) -> Item:
    """The item of a step that was read for a card."""
    found: Item = step.item
    found.read_title = step.item_title or ""
    return found


def _disabled(item: Item) -> str:
    return disabled_in_words(item, item.disabled_because)  # type: ignore[attr-defined]  # annotated


def _before(item: Item, steps: list[Step], siblings: list[Item]) -> Iterator[Before]:
    """Steps, checks, and what of the run went out already."""
    waiting = {other.step_id for other in siblings}
    earlier = [step for step in steps if step.number < item.step.number and step.pk not in waiting]
    done = [step.number for step in earlier if step.state in HAS_ENDED_WELL]
    if done:
        yield Before(True, f"{_steps(done)} done")
    for step in earlier:
        if step.state not in HAS_ENDED_WELL:
            yield Before(False, f"Step {step.number}, {step.capability}: {step.get_state_display().lower()}")
    if not item.is_gate:
        for check in item.step.run.checks.all():
            yield Before(check.state == CheckState.SUCCESS, f"Check {check.name} {_colour(check.state)}", check.reported_at)
    if item.step.run.pivot_at is None and item.step.state == StepState.QUEUED:
        first = not any(other.closed_at is None and other.step.number < item.step.number for other in siblings)
        yield Before(True, "First to go out: this is the pivot" if first else "Others of this run go out before it")


def _colour(state: str) -> str:
    return {CheckState.SUCCESS: "green", CheckState.FAILURE: "red"}.get(CheckState(state), "not reported yet")


def _steps(numbers: list[int]) -> str:
    """“Steps 1–3”, where nothing is left out between them."""
    if len(numbers) == 1:
        return f"Step {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"Steps {numbers[0]}–{numbers[-1]}"
    return f"Steps {', '.join(str(number) for number in numbers)}"


def _cannot_be_taken_back(step: Step) -> str:
    """In the capability's words."""
    capability = registry.find(step.capability)
    if capability is None:
        return "No code defines this capability any more."
    parts = [part for part in (capability.undo_cost, capability.undo_note) if part]
    return f"To take it back: {'; '.join(parts)}." if parts else "It can’t be taken back."


def _after(item: Item, siblings: list[Item]) -> str:
    """What follows a yes."""
    if item.is_gate:
        return "The run waits for the result. If it fails to send, it is retried with the same key, never doubled."
    undecided = sum(other.state in (ItemState.AWAITING, ItemState.EXPIRED) for other in siblings)
    later = [other for other in siblings if other.closed_at is None and other.step.number > item.step.number]
    said = f"After this: {', then '.join(f'{other} (step {other.step.number})' for other in later[:3])}. " if later else ""
    if undecided:
        return f"{said}Nothing goes out until all {undecided + 1} are decided."
    return f"{said}If it fails to send, it is retried with the same key, never doubled."
