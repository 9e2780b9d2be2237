"""A drill as its page shows it: do, undo, verify_undone, and what came of it. All from the log."""

from __future__ import annotations

import dataclasses
from typing import Any

from runs.models import Run, Step

WORDS = {"done": "done", "running": "running", "waiting": "not yet", "failed": "failed", "none": "not done"}


@dataclasses.dataclass(frozen=True)
class Part:
    """One of the three; `state` is done, running, waiting, failed or none."""

    name: str
    says: str
    state: str

    @property
    def word(self) -> str:
        return WORDS[self.state]


@dataclasses.dataclass(frozen=True)
class Drill:
    parts: list[Part]
    proven: bool
    # How it ended, in words; "" while it is under way.
    says: str


def of(run: Run) -> Drill:
    events = set(run.entries.values_list("event", flat=True))
    end = run.entries.filter(event="capability.drilled").first()
    over = end is not None
    did = "done" if "step.done" in events else "failed" if over or "step.failed" in events else "running"
    gone = "undo.verified" in events or "undo.skipped" in events
    stuck = "undo.failed" in events or "undo.drifted" in events
    undid = "done" if gone else "failed" if stuck else "running" if "undo.started" in events else "none" if over else "waiting"
    verified = "done" if gone else "failed" if stuck else "none" if over else "waiting"
    parts = [
        Part("do", "makes the effect on the sandbox", did),
        Part("undo", "takes it back", undid),
        Part("verify_undone", "asks the real system whether it is gone", verified),
    ]
    return Drill(parts, bool(end and end.data.get("proven")), str(end.data.get("says", "")) if end else "")


def last_arguments(name: str) -> dict[str, Any]:
    """What this capability was last drilled with, to start from."""
    step = Step.objects.filter(run__is_drill=True, capability=name).order_by("-pk").first()
    return step.args if step else {}
