"""A run's steps in one row of cells, with the pivot as a stroke of ink between them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from runs.models import Step
from runs.states import StepState

CELL, GAP, PIVOT = 12, 3, 6
# Above this many steps, neighbours of one look merge into a segment with their number.
MOST_CELLS = 24
WIDTH = 240
LOOKS = {
    "done": "done", "running": "run", "requested": "plan", "planned": "plan", "skipped": "none", "on_hold": "wait", "queued": "held",
    "held": "held", "awaiting": "wait", "approved": "held", "sent": "sent", "nothing_to_undo": "none", "failed": "fail", "unknown": "unk",
    "withdrawn": "none", "rejected": "none", "expired": "none", "dropped": "none", "closed": "none", "undoing": "run", "undone": "undone",
    "undo_failed": "stuck", "drifted": "unk", "settled": "undone", "left_standing": "left",
}  # fmt: skip
SAID = {
    "done": "done", "run": "running", "plan": "planned", "none": "not done", "wait": "waiting for a person", "held": "held",
    "sent": "sent", "fail": "failed", "unk": "unknown", "undone": "undone", "stuck": "stuck", "left": "left standing",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Cell:
    """`x` in pixels; `count` above one for a merged segment; `slash` for what will never be sent."""

    look: str
    x: int
    width: int = CELL
    count: int = 1
    slash: bool = False

    @property
    def middle(self) -> int:
        return self.x + self.width // 2


@dataclasses.dataclass(frozen=True)
class Strip:
    cells: tuple[Cell, ...]
    pivot: int | None
    width: int
    says: str


def of(steps: Iterable[Step]) -> Strip:
    """Steps that undo can reach, the pivot, and what waits below it."""
    ordered = sorted(steps, key=lambda step: (step.is_irreversible and not step.is_gate, step.number))
    below = sum(step.is_irreversible and not step.is_gate for step in ordered)
    looks = [look_of(step) for step in ordered]
    above = len(looks) - below
    says = _says(looks, below)
    if len(looks) > MOST_CELLS:
        return _merged(looks, above, says)
    cells = tuple(
        Cell(look, 1 + place * (CELL + GAP) + (PIVOT if place >= above else 0), slash=slash) for place, (look, slash) in enumerate(looks)
    )
    pivot = 2 + above * (CELL + GAP) if below else None
    return Strip(cells, pivot, len(looks) * (CELL + GAP) + (PIVOT if below else 0) + 1, says)


def look_of(step: Step) -> tuple[str, bool]:
    look = LOOKS[step.closed_why or step.state]
    return look, step.state == StepState.CLOSED


def _merged(looks: list[tuple[str, bool]], above: int, says: str) -> Strip:
    groups: list[tuple[str, bool, bool, int]] = []
    for place, (look, slash) in enumerate(looks):
        low = place >= above
        if groups and groups[-1][:3] == (look, slash, low):
            groups[-1] = (look, slash, low, groups[-1][3] + 1)
        else:
            groups.append((look, slash, low, 1))
    cells, x, pivot = [], 1, None
    for look, slash, low, count in groups[:MOST_CELLS]:
        if low and pivot is None:
            pivot, x = x + 1, x + PIVOT
        width = max(10, WIDTH * count // len(looks))
        cells.append(Cell(look, x, width, count, slash))
        x += width + GAP
    return Strip(tuple(cells), pivot, x, says)


def _says(looks: list[tuple[str, bool]], below: int) -> str:
    counts = Counter("withdrawn" if slash else SAID[look] for look, slash in looks)
    said = ", ".join(f"{number} {word}" for word, number in counts.items()) or "no step yet"
    return f"{said}; pivot before the last {below}" if below else said
