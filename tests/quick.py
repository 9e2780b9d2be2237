"""A capability that costs next to nothing, so that a benchmark measures sagaboard and not its target."""

from __future__ import annotations

from typing import Any

from runs.capability import Args, Capability
from runs.states import Kind


class Counted(Args):
    name: str


class Count(Capability[Counted]):
    """Count."""

    name = "count"
    kind = Kind.REVERSIBLE
    lives_in = "nowhere"
    undo_cost = "nothing"
    undone_when = "at once"
    timeout = 5.0
    undo_repeatable = True
    Args = Counted
    undone: frozenset[str] = frozenset()

    def do(self, call: Any) -> dict[str, Any]:
        return {"counted": call.args.name}

    def undo(self, call: Any) -> None:
        Count.undone = Count.undone | {call.key}

    def verify_undone(self, call: Any) -> bool:
        return call.key in Count.undone

    def probe(self, call: Any) -> dict[str, Any] | None:
        return {"counted": call.args.name}

    def verify_done(self, call: Any) -> bool:
        return True
