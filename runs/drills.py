"""A drill as its page shows it: do, undo, verify_undone, and what came of it. All from the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from runs.exceptions import Refused
from runs.models import Run, Step
from runs.services.drilling import drillable_by, sandboxes
from runs.tools import Tool, all_tools
from sagaboard.accounts.models import User

ICONS = {"done": "check", "running": "running", "failed": "x"}
NO_DRILL = "You can see no drill of it: give it arguments first."
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

    @property
    def icon(self) -> str:
        return ICONS.get(self.state, "planned")


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


@dataclasses.dataclass(frozen=True)
class DueDrill:
    """A capability whose undo wants proof, what it would be drilled with, on which sandboxes, and why that can't be, if it can't."""

    name: str
    arguments: dict[str, Any]
    targets: list[str]
    lives_in: str
    why_not: str


def due(by: User) -> list[DueDrill]:
    """What this person may drill and is due, with what it was last drilled with."""
    names = set(drillable_by(by).values_list("name", flat=True))
    tools = [tool for tool in all_tools(by) if tool.is_due and tool.leaves_effect and tool.name in names]
    arguments = last_arguments([tool.name for tool in tools], by)
    return [_due(tool, arguments.get(tool.name, {})) for tool in tools]


def _due(tool: Tool, arguments: dict[str, Any]) -> DueDrill:
    try:
        targets = sandboxes(arguments, tool.name) if arguments else []
    except Refused as exc:
        return DueDrill(tool.name, arguments, [], tool.lives_in, exc.detail)
    return DueDrill(tool.name, arguments, targets, tool.lives_in, "" if arguments else NO_DRILL)


def last_arguments(names: Iterable[str], by: User) -> dict[str, dict[str, Any]]:
    """What each of these capabilities was last drilled with, to start from, as far as this person may see those runs."""
    drilled = Step.objects.filter(run__in=Run.objects.visible_to(by).filter(is_drill=True), capability__in=names)
    return dict(drilled.order_by("capability", "-pk").distinct("capability").values_list("capability", "args"))
