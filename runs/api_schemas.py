"""The shapes that go in and out of the API."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=80)]
Text = Annotated[str, Field(max_length=4_000)]
# The number that opening or resuming gave; it guards a run against an older self of its agent.
SessionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Strict(Schema):
    """Unknown names are refused: a typing error must not become a default."""

    model_config = ConfigDict(extra="forbid")


class PlanEntry(Strict):
    """One planned call. Arguments not yet known are left out."""

    ref: Name | None = None
    capability: Name
    args: dict[str, Any] = Field(default_factory=dict)
    needs_result: bool = False


class NewRun(Strict):
    """A run to open. Everything but the title may only tighten what the token's rules say."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    owner: Annotated[str, Field(max_length=150)] = ""
    ticket: Annotated[str, Field(max_length=80)] = ""
    plan: Annotated[list[PlanEntry], Field(max_length=1_000)] = Field(default_factory=list)
    checks: Annotated[list[Name], Field(max_length=50)] = Field(default_factory=list)
    patience: Annotated[int, Field(ge=1, le=604_800)] | None = None
    on_failure: Literal["ask", "compensate"] | None = None
    off_plan: Literal["refuse", "hold", "allow"] | None = None
    retry_of: Annotated[int, Field(ge=1, le=2**62)] | None = None


class NewStep(Strict):
    """A call of a capability. `session` is the number that opening or resuming gave; it guards against an older self."""

    ref: Name | None = None
    capability: Name
    args: dict[str, Any] = Field(default_factory=dict)
    why: Text = ""
    session: SessionNumber | None = None


class Skip(Strict):
    """Which step: by the plan's `ref`, or by its `number` where it has none."""

    ref: Name | None = None
    number: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    reason: Annotated[str, Field(min_length=1, max_length=4_000)]
    session: SessionNumber | None = None


class Reason(Strict):
    reason: Annotated[str, Field(min_length=1, max_length=4_000)]
    session: SessionNumber | None = None


class Speaker(Strict):
    """Which session of the agent speaks."""

    session: SessionNumber | None = None


class Report(Strict):
    """A check's outcome. `subject` is what was checked: a commit, or the log's `seq`."""

    state: Literal["success", "failure", "pending"]
    subject: Annotated[str, Field(max_length=200)] = ""
    url: Annotated[str, Field(max_length=500)] = ""


class Compensation(Strict):
    """`to` names the step to go back to; empty undoes the whole run."""

    to: Annotated[str, Field(max_length=80)] = ""


class Tool(Schema):
    """A capability as a tool definition."""

    name: str
    description: str
    input_schema: dict[str, Any]
    kind: str
    audience: str
    read_by: str
    undo: str
    undone_when: str
    proven: bool
    leaves_effect: bool


class StepRecord(Schema):
    run: int
    number: int
    ref: str | None
    capability: str
    args: dict[str, Any]
    kind: str
    audience: str
    state: str
    closed_why: str
    key: str | None
    effect: dict[str, Any] | None
    error: str
    needs_result: bool
    requested_at: dt.datetime | None
    done_at: dt.datetime | None
    undone_at: dt.datetime | None
    item: dict[str, Any] | None


class RunRecord(Schema):
    run: int
    title: str
    state: str
    owner: str
    ticket: str
    session: int
    patience: int
    off_plan: str
    on_failure: str
    retry_of: int | None
    opened_at: dt.datetime
    failed_why: str
    stopped_why: str
    checks: list[dict[str, Any]]
    waits_for: str
    steps: list[StepRecord]
    remaining: list[str | int]
    log: dict[str, Any]
    warnings: list[str] = Field(default_factory=list)


class Problem(Schema):
    """RFC 9457. `type` is stable, `detail` says what to do next; further members depend on the type."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
