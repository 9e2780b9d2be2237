"""Which waiting calls may be decided together, and what of them differs."""

from __future__ import annotations

import dataclasses
import difflib

from outbox.models import Item
from outbox.payloads import Sheet, sheet
from outbox.warnings import unusual, warnings_of

# So many are read and decided at once, and so many looked up at all: what a queue shows of a group.
AT_MOST, NAMED_AT_MOST = 20, 100


def why_alone(item: Item, laid_out: Sheet | None = None, odd: dict[int, list[str]] | None = None) -> str:
    """Why this one is looked at by itself; "" where it may go with others of its kind. `odd` is what is unusual about each."""
    if item.is_gate:
        return "a gate: its run waits for the result"
    if item.policy is not None and not item.policy.bulk:
        return "its policy allows no bulk"
    if item.current.is_long:
        return "it is longer than 64 KiB"
    if found := warnings_of(item, laid_out or sheet(item.current.payload()), odd or unusual([item])):
        return found[0][:1].lower() + found[0][1:]
    return ""


@dataclasses.dataclass(frozen=True)
class One:
    """One of several, beside its text."""

    item: Item
    sheet: Sheet

    @property
    def value(self) -> str:
        """What its box posts: the item, bound to the digest beside it."""
        return f"{self.item.pk}:{self.item.digest}"

    @property
    def to(self) -> str:
        return str(self.sheet.payload.to.get("recipient") or self.item.step.read_by or "its system")


@dataclasses.dataclass(frozen=True)
class Together:
    """Those that may be ticked, and those that are looked at one by one, each with why."""

    ones: list[One]
    alone: list[tuple[Item, str]]

    @property
    def people(self) -> int:
        return len({one.to for one in self.ones})


def review(items: list[Item], why_not: dict[int, str], odd: dict[int, list[str]]) -> Together:
    """Sorts what was chosen; `why_not` says, by item, why this person can't decide one at all, `odd` what is unusual about it."""
    ones: list[One] = []
    alone: list[tuple[Item, str]] = []
    for item in items:
        laid_out = sheet(item.current.payload())
        why = why_not.get(item.pk, "") or why_alone(item, laid_out, odd)
        if not why and ones and item.step.capability != ones[0].item.step.capability:
            why = f"another kind of call: {item.step.capability}"
        if not why and len(ones) == AT_MOST:
            why = f"more than {AT_MOST} at once are not read"
        if why:
            alone.append((item, why))
        else:
            ones.append(One(item, laid_out))
    for other in ones[1:]:
        mark_differences(ones[0].sheet, other.sheet)
    return Together(ones, alone)


def mark_differences(first: Sheet, other: Sheet) -> None:
    """Marks each line of `other` that the first does not have there."""
    if first.shown is None or other.shown is None:
        return
    old, new = [str(line) for line in first.shown], [str(line) for line in other.shown]
    for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            for line in other.shown.lines[start:end]:
                line.differs = True
