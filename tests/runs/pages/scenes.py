"""The story of the mockups, painted as rows: a run of seven steps whose times lie in the past. Its systems don't answer."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.utils import timezone

from runs import keys, registry
from runs.models import CapabilityRecord, Run, Step
from runs.states import RunState, StepState
from tests.checker import forged
from tests.factories import make_token, make_user

S = StepState
# ref, capability, arguments, effect, state, closed_why, minutes and seconds after the beginning
SEVEN = [
    ("branch", "create_branch", {"branch": "feature/billing-field"}, {"commit": "7f3a"}, S.DONE, "", 20),
    ("migration", "run_migration", {"revision": "0142_invoice_billing_field"}, {"after": "c1"}, S.DONE, "", 60),
    (
        "flag",
        "set_flag",
        {"flag": "billing_panel_v1", "segment": "qa-cohort", "value": True},
        {"before": "off", "after": "on"},
        S.DONE,
        "",
        157,
    ),
    ("ticket", "transition_ticket", {"issue": "BILL-318", "to": "In Review"}, None, S.CLOSED, "withdrawn", 174),
    ("ci", "run_ci", {"ref": "feature/billing-field"}, None, S.FAILED, "", 186),
    ("summary", "post_summary", {"channel": "#billing-dev", "text": "The billing field is in."}, None, S.CLOSED, "withdrawn", 198),
    ("partner", "notify_partner", {"subject": "Billing field", "message": "It is there."}, None, S.CLOSED, "withdrawn", 207),
]
READERS = {
    "set_flag": ("people", "humans (QA cohort)"),
    "transition_ticket": ("clients", "humans (client, AM)"),
    "post_summary": ("people", "humans (team)"),
    "notify_partner": ("clients", "machine + their humans"),
}


def red_run(team: Any, *, owner: Any = None) -> Run:
    """Failed at step 5: three effects out there, a flag that the QA cohort sees, three calls withdrawn."""
    began = timezone.now() - dt.timedelta(minutes=13, seconds=40)
    token = make_token(team=team)
    owner = owner or make_user(first_name="Ana", last_name="Ruiz", team=team)
    failed = began + dt.timedelta(seconds=637)
    run = Run.objects.create(
        team=team,
        title="Add billing field to invoices",
        ticket="BILL-318",
        agent="feature-runner",
        token=token,
        owner=owner,
        opened_at=began,
        failed_at=failed,
        failed_why="CI hit a flaky integration test, and the agent’s session ended with it",
        state=RunState.FAILED,
    )
    forged(run, "a picture of a run, made without an engine")
    for number, spec in enumerate(SEVEN, 1):
        _step(run, number, began, *spec)
    _log(run)
    return run


def _step(
    run: Run, number: int, began: dt.datetime, ref: str, name: str, args: Any, effect: Any, state: str, closed: str, after: int
) -> Step:
    capability = registry.find(name)
    assert capability is not None
    at = began + dt.timedelta(seconds=after)
    audience, read_by = READERS.get(name, ("machines", capability.read_by))
    CapabilityRecord.objects.filter(name=name, has_undo=True).update(
        proven_version=capability.version(), proven_at=began, proven_how="drill"
    )
    ran = state in (S.DONE, S.FAILED)
    return Step.objects.create(
        run=run, number=number, ref=ref, capability=name, planned=True, state=state, closed_why=closed, kind=_kind(capability),
        audience=audience, read_by=read_by, version=capability.version(), leaves_effect=capability.leaves_effect, args=args,
        key=keys.digest([run.pk, number]), effect=effect, error="timed out mid-retry" if state == S.FAILED else "", tries=1 if ran else 0,
        intent_seq=number if ran else None, requested_at=at, started_at=at if ran else None, done_at=at if effect else None,
        ended_at=None if state == S.DONE else run.failed_at,
    )  # fmt: skip


def _kind(capability: Any) -> str:
    return "irreversible" if capability.name in ("transition_ticket", "post_summary", "notify_partner") else str(capability.kind)


def _log(run: Run) -> None:
    steps = {step.ref: step for step in run.steps.all()}
    run.append("run.opened", actor="token:feature-runner", title=run.title)
    for ref in ("branch", "migration", "flag", "ci"):
        run.append("step.requested", step=steps[ref], actor="token:feature-runner")
        if ref != "ci":
            run.append("step.done", step=steps[ref], effect=steps[ref].effect)
    for ref in ("ticket", "summary", "partner"):
        run.append("step.queued", step=steps[ref])
    run.append("run.failed", actor="engine", why=run.failed_why)
    run.append("run.paged", people=["Tomas Lindqvist"], subject="failed", why=run.failed_why)
