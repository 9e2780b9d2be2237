"""The agents' door: JSON below /api/v1/, bearer tokens only, errors as RFC 9457 problem details."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from django.http import HttpResponse, StreamingHttpResponse
from ninja import NinjaAPI, Path, Router, Status
from pydantic import Field

from runs import log, record, registry, services, waiting
from runs.api_schemas import Compensation, NewRun, NewStep, Reason, Report, RunRecord, Skip, Speaker, StepRecord, Tool
from runs.api_support import AgentAPI, TokenRequest, of_scope, problem_responses
from runs.models import CapabilityRecord, Run, Step
from runs.sections import sections

api: NinjaAPI = AgentAPI(
    title="sagaboard",
    version="1",
    description="Calls of tools with an undo. Every refusal is a problem document whose `detail` says what to do next.",
    urls_namespace="api",
    docs_url=None,
)
router = Router()
Number = Path[int]
CheckName = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00]*$")]
Seq = Annotated[int, Field(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Field(ge=1, le=10_000)]


@router.get("/capabilities", response=list[Tool], auth=of_scope("agent", "checker", "auditor", "on_call"), by_alias=True)
def capabilities(request: TokenRequest) -> list[dict[str, Any]]:
    """The registry as tool definitions that an agent framework can pass on unchanged."""
    classes = registry.classes()
    return [
        {
            "name": row.name,
            "description": row.description,
            "input_schema": row.schema,
            "kind": row.stricter_kind or row.kind,
            "audience": row.audience,
            "read_by": row.read_by,
            "undo": row.undo_cost if row.has_undo else "",
            "undone_when": row.undone_when,
            "proven": row.is_proven or not row.leaves_effect,
            "leaves_effect": row.leaves_effect,
        }
        for row in CapabilityRecord.objects.usable().order_by("name")
        if row.name in classes
    ]


@router.post("/runs", response={201: RunRecord, 200: RunRecord, **problem_responses}, auth=of_scope("agent"))
def open_run(request: TokenRequest, response: HttpResponse, new: NewRun) -> Status[dict[str, Any]]:
    """Opens a run; the answer classifies each planned call and says what to worry about."""
    asked = new.model_dump(exclude_unset=True)
    opened = services.open_run(token=request.auth, idempotency_key=request.idempotency_key, **asked)
    _mark_replay(response, replayed=opened.replayed)
    response["Location"] = f"/api/v1/runs/{opened.run.number}"
    return Status(200 if opened.replayed else 201, {**record.of_run(opened.run), "warnings": opened.warnings})


@router.get("/runs/{number}", response={200: RunRecord, **problem_responses}, auth=of_scope("agent", "checker", "on_call", "auditor"))
def read_run(request: TokenRequest, number: Number) -> dict[str, Any]:
    """The record to resume from."""
    run = request.run(number)
    _hear(request, run)
    return record.of_run(run)


@router.post("/runs/{number}/resume", response={200: RunRecord, **problem_responses}, auth=of_scope("agent"))
def resume_run(request: TokenRequest, number: Number) -> dict[str, Any]:
    """A fresh session takes the run over; calls that name an older one get 409. Reading names none."""
    return record.of_run(services.resume_run(request.run(number), token=request.auth))


@router.post("/runs/{number}/steps", response={200: StepRecord, 202: StepRecord, **problem_responses}, auth=of_scope("agent"))
def request_step(request: TokenRequest, response: HttpResponse, number: Number, new: NewStep) -> Status[dict[str, Any]]:
    """Calls a capability: 200 when it ended, 202 while it runs, waits in the outbox or for a person."""
    asked = services.request_step(
        request.run(number),
        token=request.auth,
        capability=new.capability,
        args=new.args,
        ref=new.ref,
        why=new.why,
        idempotency_key=request.idempotency_key,
        session=new.session,
    )
    _mark_replay(response, replayed=asked.replayed)
    return _answer(request, response, asked.step)


@router.post("/runs/{number}/steps/skip", response={200: StepRecord, **problem_responses}, auth=of_scope("agent"))
def skip_step(request: TokenRequest, number: Number, skip: Skip) -> dict[str, Any]:
    """A planned step is not needed; one that failed is given up."""
    return record.of_step(services.skip_step(request.run(number), token=request.auth, **skip.model_dump()))


@router.get(
    "/runs/{number}/steps/{step}", response={200: StepRecord, 202: StepRecord, **problem_responses}, auth=of_scope("agent", "on_call")
)
def read_step(request: TokenRequest, response: HttpResponse, number: Number, step: Number) -> Status[dict[str, Any]]:
    """A step's state, its effect, a reviewer's words; waits as long as preferred for its end."""
    found = request.step(number, step)
    _hear(request, found.run)
    return _answer(request, response, found, also_people=True)


@router.post("/runs/{number}/heartbeat", response={200: dict[str, Any], **problem_responses}, auth=of_scope("agent"))
def heartbeat(request: TokenRequest, number: Number, given: Speaker | None = None) -> dict[str, Any]:
    """Still here; returns what the run waits for. Any other call about the run says as much."""
    run = request.run(number)
    services.heartbeat(run, session=given.session if given else None)
    return {"run": run.number, "state": run.state, "session": run.session, "waits_for": record.waits_for(run)}


@router.post("/runs/{number}/finish", response={200: RunRecord, **problem_responses}, auth=of_scope("agent"))
def finish_run(request: TokenRequest, number: Number, given: Speaker | None = None) -> dict[str, Any]:
    """The agent is done; from here checkers and reviewers decide."""
    session = given.session if given else None
    return record.of_run(services.finish_run(request.run(number), token=request.auth, session=session))


@router.post("/runs/{number}/fail", response={200: RunRecord, **problem_responses}, auth=of_scope("agent"))
def fail_run(request: TokenRequest, number: Number, given: Reason) -> dict[str, Any]:
    """The agent gives up."""
    return record.of_run(services.fail_run(request.run(number), token=request.auth, **given.model_dump()))


@router.put("/runs/{number}/checks/{name}", response={200: dict[str, Any], **problem_responses}, auth=of_scope("checker"))
def report_check(request: TokenRequest, number: Number, name: Path[CheckName], report: Report) -> dict[str, Any]:
    """A checker's word on one part of the success condition."""
    check = services.report_check(request.run(number), token=request.auth, name=name, **report.model_dump())
    return {"run": number, "name": check.name, "state": check.state, "subject": check.subject, "url": check.url}


@router.post("/runs/{number}/compensate", response={202: RunRecord, **problem_responses}, auth=of_scope("on_call"))
def compensate_run(request: TokenRequest, number: Number, given: Compensation | None = None) -> Status[dict[str, Any]]:
    """Undoes the run, as the button does; never past the pivot or over a drift."""
    run = request.run(number)
    services.compensate_run(run, actor=f"token:{request.auth.name}", to=given.to if given else "")
    run.refresh_from_db()
    return Status(202, record.of_run(run))


@router.get("/runs/{number}/log", auth=of_scope("auditor"), response={200: None, **problem_responses})
def read_log(request: TokenRequest, number: Number, after: Seq = 0, limit: Limit = 10_000) -> StreamingHttpResponse:
    """The log with its hashes, as JSON lines: at most `limit` entries, from the one behind `after`."""
    lines = itertools.islice(log.export(request.run(number), after), limit)
    return StreamingHttpResponse(lines, content_type="application/jsonl")


def _answer(request: TokenRequest, response: HttpResponse, step: Step, *, also_people: bool = False) -> Status[dict[str, Any]]:
    step = waiting.for_end(step, request.preferred_wait, also_people=also_people)
    ended = waiting.has_ended(step)
    response["Location"] = f"/api/v1/runs/{step.run_id}/steps/{step.number}"
    if request.preferred_wait:
        response["Preference-Applied"] = f"wait={request.preferred_wait:g}"
    return Status(200 if ended else 202, record.of_step(step, sections.item_of(step) if step.is_irreversible else None))


def _hear(request: TokenRequest, run: Run) -> None:
    """An agent that only reads is there, too."""
    if request.auth.scope == "agent":
        services.heartbeat(run)


def _mark_replay(response: HttpResponse, *, replayed: bool) -> None:
    if replayed:
        response["Idempotency-Replayed"] = "true"


api.add_router("", router)
