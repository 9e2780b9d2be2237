"""The registry as its page shows it: every tool, its way back, and what is missing, problems first."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Callable
from urllib.parse import urlencode

from django.db.models import Count
from django.utils import timezone

from runs import audiences, registry
from runs.audiences import Unowned
from runs.models import CapabilityRecord, OutsideTool, Step
from runs.sections import sections
from runs.states import Kind
from sagaboard.accounts.models import User

OLD = dt.timedelta(days=90)
# What a call of a capability to an audience waits for, in words.
Yeses = Callable[[str, str], str]


@dataclasses.dataclass(frozen=True)
class Tool:
    """One row. `proof` is ok, old, never or na; `outside` for a tool that agents reach past sagaboard."""

    name: str
    description: str
    kind: str
    treated_as: str
    lives_in: str
    read_by: str
    undo: str
    undone_when: str
    blank: bool
    blank_why: str
    by_nature: bool
    leaves_effect: bool
    proof: str
    proven_at: dt.datetime | None
    proven_how: str
    goes_out: str
    calls: int
    findings: list[registry.Finding]
    outside: bool = False
    # Whom its calls reach and nobody owns.
    unowned: list[Unowned] = dataclasses.field(default_factory=list)
    record: CapabilityRecord | None = None

    @property
    def is_due(self) -> bool:
        """Its undo would count if it were drilled."""
        return self.kind != Kind.IRREVERSIBLE and self.proof in ("old", "never") and not self.blank

    @property
    def gone(self) -> str:
        """What is looked at for it to count as undone."""
        return self.undone_when.partition("; ")[0]

    @property
    def stays(self) -> str:
        """What is there all the same: what the code says after the first semicolon."""
        return self.undone_when.partition("; ")[2]

    @property
    def first_line(self) -> str:
        return self.description.partition("\n")[0]

    @property
    def group(self) -> int:
        """Problems first, then what can be taken back, then what can't."""
        if self.blank or self.is_due:
            return 0
        return 2 if self.kind == Kind.IRREVERSIBLE else 1


# What the table can be narrowed to: its label, its icon, and which tools that are.
STATES: dict[str, tuple[str, str, Callable[[Tool], bool]]] = {
    "blank": ("Undo blank", "stuck", lambda tool: tool.blank),
    "due": ("Proof too old, or none", "clock", lambda tool: tool.is_due),
    "none": ("No undo, and said so", "skipped", lambda tool: tool.by_nature or not tool.leaves_effect),
    "disabled": ("Disabled", "lock", lambda tool: tool.goes_out == "disabled"),
}


@dataclasses.dataclass(frozen=True)
class Filters:
    """What the table is narrowed to. A wrong value narrows nothing."""

    q: str = ""
    state: str = ""

    @classmethod
    def read(cls, given: dict[str, str]) -> Filters:
        state = given.get("state", "")
        return cls(given.get("q", "").strip()[:200], state if state in STATES else "")

    def narrow(self, tools: list[Tool]) -> list[Tool]:
        text = self.q.lower()
        found = [tool for tool in tools if text in " ".join([tool.name, tool.description, tool.lives_in, tool.read_by, tool.undo]).lower()]
        return [tool for tool in found if STATES[self.state][2](tool)] if self.state else found

    @property
    def kept(self) -> str:
        """What stays when the state is changed."""
        return urlencode({"q": self.q}) if self.q else ""


def chips(tools: list[Tool]) -> list[tuple[str, str, str, int]]:
    """All of STATES, with how many there are of each."""
    counted = [(state, label, icon, sum(map(is_so, tools))) for state, (label, icon, is_so) in STATES.items()]
    return [("", "All", "", len(tools)), *counted]


def all_tools(user: User) -> list[Tool]:
    """Every tool, with whom its calls reached as far as this person may know."""
    records, outside = list(CapabilityRecord.objects.select_related("owner")), list(OutsideTool.objects.all())
    findings = defaultdict(list)
    for finding in registry.lint_rows(records, outside):
        findings[finding.capability].append(finding)
    since = timezone.now() - dt.timedelta(days=30)
    calls = dict(Step.objects.filter(requested_at__gte=since).values_list("capability").annotate(Count("pk")).order_by())
    nobodys, goes_out = audiences.unowned(user), sections.goes_out()
    found = [_tool(record, findings[record.name], calls.get(record.name, 0), nobodys.get(record.name, []), goes_out) for record in records]
    found += [_outside(tool) for tool in outside]
    return sorted(found, key=lambda tool: (tool.group, not tool.blank, tool.name))


def one_tool(name: str, user: User) -> Tool | None:
    return next((tool for tool in all_tools(user) if tool.name == name and not tool.outside), None)


def _tool(record: CapabilityRecord, findings: list[registry.Finding], calls: int, unowned: list[Unowned], yeses: Yeses) -> Tool:
    kind = record.stricter_kind or record.kind
    blank = record.missing_since is not None or (record.leaves_effect and not record.has_undo and record.kind != Kind.IRREVERSIBLE)
    proof = _proof(record)
    treated = Kind.IRREVERSIBLE if blank or (kind == Kind.COMPENSATABLE and proof in ("never", "old")) else kind
    return Tool(
        name=record.name,
        description=record.description,
        kind=kind,
        treated_as=str(treated) if treated != kind else "",
        lives_in=record.lives_in,
        read_by=record.read_by or record.get_audience_display(),
        undo=record.undo_cost,
        undone_when=record.undone_when,
        blank=blank,
        blank_why="No code defines it any more; runs that used it can’t be undone."
        if record.missing_since
        else "Write an undo or remove the tool.",
        by_nature=record.leaves_effect and not record.has_undo and record.kind == Kind.IRREVERSIBLE,
        leaves_effect=record.leaves_effect,
        proof=proof,
        proven_at=record.proven_at,
        proven_how=record.proven_how,
        goes_out=_goes_out(record, str(treated), yeses),
        calls=calls,
        findings=findings,
        unowned=unowned,
        record=record,
    )


def _proof(record: CapabilityRecord) -> str:
    if not record.leaves_effect or not record.has_undo:
        return "na" if not record.leaves_effect or record.kind == Kind.IRREVERSIBLE else "never"
    if not record.proven_version:
        return "never"
    aged = record.proven_at is not None and timezone.now() - record.proven_at > OLD
    return "old" if aged or not record.is_proven else "ok"


def _goes_out(record: CapabilityRecord, kind: str, yeses: Yeses) -> str:
    if record.disabled_at:
        return "disabled"
    if not record.leaves_effect or kind != Kind.IRREVERSIBLE:
        return "at once"
    return yeses(record.name, record.audience)


def _outside(tool: OutsideTool) -> Tool:
    return Tool(
        name=tool.name,
        description=f"Reached past sagaboard: {tool.reached_by}",
        kind=Kind.IRREVERSIBLE,
        treated_as="",
        lives_in=tool.lives_in,
        read_by=tool.read_by,
        undo=tool.undo,
        undone_when="nothing looks",
        blank=not tool.undo,
        blank_why=f"Found {tool.added_at:%-d %b}. Write an undo or remove the tool.",
        by_nature=False,
        leaves_effect=True,
        proof="never",
        proven_at=None,
        proven_how="",
        goes_out="at once, unseen",
        calls=0,
        findings=[],
        outside=True,
    )
