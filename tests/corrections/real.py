"""Signals in the systems themselves: a tracker, a chat and a partner of the demo world, and a mail server, each left behind."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from corrections import delivery, services
from corrections.models import Correction
from outbox import services as outbox
from outbox.models import Item
from runs import services as runs
from runs.engine import compensate, invoke
from runs.models import Run
from runs.states import RunState
from tests.factories import make_user
from tests.helpers import reread
from tests.outbox.scenes import make_released
from tests.smtp import MailServer

SAID = "The billing field is in review."
PLAN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "ticket", "capability": "transition_ticket", "args": {"issue": "BILL-318", "to": "In Review"}},
    {"ref": "summary", "capability": "post_summary", "args": {"channel": "#billing-dev", "text": SAID}},
    {"ref": "mail", "capability": "send_mail", "args": {"to": ["sam@halden.example"], "subject": "Billing field", "text": SAID}},
    {"ref": "partner", "capability": "notify_partner", "args": {"subject": "Billing field", "message": SAID}},
]
PLACES = {"ticket": "ticket", "summary": "thread", "mail": "email", "partner": "notice"}


@dataclasses.dataclass
class Told:
    """A run that went past its pivot, was undone over it, and the drafts for what stays, by the ref of their step."""

    run: Run
    world: Any
    mails: MailServer
    drafts: dict[str, Correction]

    def send(self, ref: str) -> Correction:
        draft = reread(self.drafts[ref])
        services.send(draft, by=self.run.owner, revision=draft.revision)
        Correction.objects.filter(pk=draft.pk).update(due_at=None)
        delivery.deliver(self.run.pk, draft.pk)
        return reread(draft)

    def channel(self) -> list[dict[str, str]]:
        return self.world.reading()["chat"]["channel"]


@pytest.fixture
def mails():
    server = MailServer()
    yield server
    server.stop()


@pytest.fixture
def told(token, alice, world, mails, settings):
    """Everything went out for real: to a tracker, a chat, a mail server and a partner; then the run was undone past it."""
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, "mail": mails.target()}
    run = make_released(token=token, plan=PLAN)
    # The team's own messages need no yes.
    for item in Item.objects.filter(step__run=run, state="awaiting"):
        outbox.approve(item, digest=item.digest, by=alice)
    for step in run.steps.as_planned():
        invoke.invoke(run.pk, step.pk)
    run.refresh_from_db()
    assert run.state == RunState.SUCCEEDED, list(run.steps.values_list("ref", "state", "error"))
    admin = make_user("root", roles=("admin",), team=token.team)
    runs.compensate_run(run, actor="person:root", by=admin, override=True)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    drafts = {one.steps.get().ref: one for one in run.corrections.all()}
    return Told(run, world, mails, drafts)
