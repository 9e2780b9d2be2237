"""Runs as a reviewer meets them: green, with calls that wait to go out."""

from __future__ import annotations

from typing import Any

from outbox.models import Item, Policy
from runs import services
from runs.engine import invoke
from runs.models import Run
from runs.states import StepState
from tests.factories import ask, do, make_run, make_token
from tests.tools import world

CLIENTS = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "tell", "capability": "tell_client", "args": {"name": "news", "value": "ready"}},
    {"ref": "also", "capability": "tell_client", "args": {"name": "more", "value": "really"}},
]
TEAM = [{"ref": "team", "capability": "tell_team", "args": {"name": "summary"}}, *CLIENTS]
GATE = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "gate", "capability": "tell_client", "args": {"name": "gate"}, "needs_result": True},
]


def make_released(*, token: Any = None, plan: Any = None, **asked: Any) -> Run:
    """A run that is green; its irreversible calls wait."""
    run = make_waiting(token=token, plan=plan, **asked)
    go_green(run)
    return run


def make_waiting(*, token: Any = None, plan: Any = None, why: str = "All checks pass.", **asked: Any) -> Run:
    """A run whose agent has asked for everything; its checks are not in."""
    run = make_run(token=token or make_token(), plan=plan or CLIENTS, **asked)
    for planned in list(run.steps.as_planned()):
        if planned.is_irreversible:
            ask(run, planned.capability, args=planned.args, ref=planned.ref, why=why)
        else:
            assert do(run, planned.ref).state == StepState.DONE
    return run


def go_green(run: Run) -> None:
    """The agent is done and the checker says yes."""
    services.finish_run(run, token=run.token)
    services.report_check(run, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    run.refresh_from_db()


def item_of(run: Run, ref: str) -> Item:
    return Item.objects.get(step__run=run, step__ref=ref)


def deliver(run: Run) -> list[str]:
    """Lets a worker try every step of the run, in the worst order, until nothing moves; returns what reached the clients, in order."""
    moved = True
    while moved:
        before = world.calls("do")
        for step in run.steps.order_by("-number"):
            invoke.invoke(run.pk, step.pk)
        moved = world.calls("do") != before
    run.refresh_from_db()
    return [name for name in world.calls("do") if name in {"news", "more", "summary", "gate"}]


def set_policy(capability: str = "tell_client", audience: str = "", **fields: Any) -> Policy:
    people = fields.pop("people", [])
    policy = Policy.objects.create(capability=capability, audience=audience, **fields)
    policy.people.set(people)
    return policy
