"""Runs that were undone after people saw something."""

from __future__ import annotations

from typing import Any

from corrections import delivery
from corrections import services as corrections
from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs import services
from runs.engine import compensate
from runs.models import Run
from tests.factories import do, make_run, make_token, make_user
from tests.helpers import reread
from tests.tools import ShowThing, world

SHOWN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}},
]
SHOWN_TWICE = [*SHOWN, {"ref": "again", "capability": "show_thing", "args": {"name": "banner"}}]


def own_audience(name: str = "team", **person: Any) -> Audience:
    person = {"first_name": "Meera", "last_name": "Joshi", **person}
    return Audience.objects.create(name=name, owner=make_user("meera", **person), address={"target": "chat", "user": "U1"})


def make_undone(*, token: Any = None, plan: Any = None) -> Run:
    """A run that did its plan, failed, and was undone from its log."""
    run = make_failed(token=token, plan=plan)
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    return run


def make_failed(*, token: Any = None, plan: Any = None) -> Run:
    token = token or make_token()
    run = make_run(token=token, plan=plan or SHOWN)
    for step in list(run.steps.as_planned()):
        do(run, step.ref)
    services.fail_run(run, token=token, reason="CI died")
    run.refresh_from_db()
    return run


def make_retry(run: Run, *, succeed: bool = True) -> Run:
    """The same plan once more, done; finished and green, unless it is not to `succeed`."""
    again = make_run(token=run.token, plan=SHOWN, retry_of=run.pk)
    for step in list(again.steps.as_planned()):
        do(again, step.ref)
    if succeed:
        services.finish_run(again, token=run.token)
        services.report_check(again, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    return again


def draft_of(run: Run) -> Correction:
    return run.corrections.get()


def leave_in_doubt(draft: Correction, monkeypatch: Any, *, posted: bool) -> Correction:
    """Sent, its answer lost before or after it was posted, and every look for it in vain: a person is next."""

    def lost(call: Any, message: Any = None) -> None:
        raise TimeoutError

    (world.after if posted else world.before)["correct"] = lost
    corrections.send(draft, by=draft.run.owner, revision=reread(draft).revision)
    with monkeypatch.context() as patch:
        patch.setattr(ShowThing, "probe_correction", lambda self, call, message: lost(call))
        for _ in range(8):
            Correction.objects.filter(pk=draft.pk).update(due_at=None)
            delivery.deliver(draft.run_id, draft.pk)
    world.after.clear()
    world.before.clear()
    found: Correction = reread(draft)
    assert (found.state, found.in_doubt) == (CorrectionState.NOT_DELIVERED, True)
    return found
