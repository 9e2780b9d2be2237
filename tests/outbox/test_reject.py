"""No, with a reason that reaches the agent, and what becomes of the run."""

import datetime as dt
import re
import threading

import pytest
from django.db import connection
from django.utils import timezone

from outbox import release, services
from outbox.models import Decision, Item
from outbox.receivers import expire_items
from outbox.states import ItemState
from runs.engine import compensate
from runs.models import CapabilityRecord
from runs.sections import sections
from runs.states import RunState, StepState
from tests.helpers import reread
from tests.outbox.scenes import GATE, deliver, item_of, make_released, make_waiting, set_policy
from tests.runs.api.agent import Agent
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(token):
    return make_released(token=token)


@pytest.fixture
def item(run):
    return item_of(run, "tell")


def press(client, item, **fields):
    return client.post(f"/outbox/{item.pk}/reject/", {"digest": item.digest, "reason": "Wrong tone.", "fate": "drop", **fields})


def test_only_this_item_is_dropped_and_the_others_go_out(client, alice, run, item):
    client.force_login(alice)
    page = client.get(press(client, item).url).content.decode()
    assert "Nothing was sent. You rejected this." in page
    other = item_of(run, "also")
    client.post(f"/outbox/{other.pk}/approve/", {"digest": other.digest})
    assert deliver(run) == ["more"]
    assert run.state == RunState.SUCCEEDED


def test_the_agent_gets_the_reviewers_words(client, alice, item):
    client.force_login(alice)
    press(client, item)
    step = item.step
    step.refresh_from_db()
    assert (step.state, step.closed_why, step.error) == (StepState.CLOSED, "rejected", "Wrong tone.")
    assert sections.item_of(step)["said"] == "Wrong tone."


def test_an_agent_that_waits_hears_the_reviewers_words(alice, token, run, item):
    agent, step = Agent(token), f"/runs/{run.pk}/steps/{item.step.number}"
    queued = agent.get(step)
    assert (queued.status_code, queued.data["state"], queued.data["item"]["url"]) == (202, "queued", f"/outbox/{item.pk}/")

    def say_no():
        services.reject(item, digest=item.digest, by=alice, reason="Wrong tone.")
        connection.close()

    reviewer = threading.Timer(0.5, say_no)
    reviewer.start()
    answer = agent.get(step, Prefer="wait=20")
    reviewer.join()
    assert (answer.status_code, answer.data["state"]) == (200, "closed")
    assert (answer.data["item"]["state"], answer.data["item"]["decided_by"], answer.data["item"]["said"]) == (
        "rejected",
        "Alice Ahn",
        "Wrong tone.",
    )


def test_the_run_is_undone_where_the_reviewer_says_so(client, alice, run, item):
    client.force_login(alice)
    press(client, item, fate="compensate")
    run.refresh_from_db()
    assert run.state == RunState.COMPENSATING
    assert item_of(run, "also").state == ItemState.WITHDRAWN
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, world.calls("undo")) == (RunState.COMPENSATED, ["one"])


def test_without_a_reason_nothing_is_decided_and_what_was_typed_stays(client, alice, item):
    client.force_login(alice)
    response = press(client, item, reason="  ", fate="compensate")
    assert response.status_code == 422
    page = response.content.decode()
    assert "Say why." in page
    assert 'value="compensate" checked' in page
    assert not Decision.objects.exists()


@pytest.mark.parametrize("fate", ["", "send_back", "explode"])
def test_what_becomes_of_the_run_must_be_one_of_what_is_offered(client, alice, item, fate):
    client.force_login(alice)
    assert press(client, item, fate=fate).status_code == 422
    assert not Decision.objects.exists()


def test_a_rejected_gate_undoes_what_came_before_it(client, alice, token):
    run = make_waiting(token=token, plan=GATE)
    client.force_login(alice)
    press(client, item_of(run, "gate"), fate="compensate")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.COMPENSATED


def test_a_gate_may_be_sent_back_and_the_run_stays_open(client, alice, token):
    run = make_waiting(token=token, plan=GATE)
    client.force_login(alice)
    press(client, item_of(run, "gate"), fate="send_back")
    run.refresh_from_db()
    assert run.state == RunState.OPEN
    assert run.steps.get(ref="gate").closed_why == "rejected"


def test_a_second_no_is_refused_and_says_who_said_it(client, alice, item):
    client.force_login(alice)
    press(client, item)
    response = press(client, item)
    assert response.status_code == 409
    assert "Alice Ahn rejected this" in response.content.decode()
    assert Decision.objects.count() == 1


def test_who_said_yes_may_think_again_while_other_yeses_are_missing(alice, token):
    set_policy(quorum=2)
    gate = item_of(make_waiting(token=token, plan=GATE), "gate")
    services.approve(gate, digest=gate.digest, by=alice)
    services.reject(gate, digest=gate.digest, by=alice, reason="the wrong client", fate="send_back")
    assert reread(gate).state == ItemState.REJECTED
    assert [(one.verdict, one.voided_at is None) for one in gate.decisions.all()] == [("approve", False), ("reject", True)]


def test_one_item_that_cannot_expire_holds_up_no_other(token, monkeypatch):
    broken, other = make_waiting(token=token, plan=GATE), make_waiting(token=token, plan=GATE)
    expire = release.expire

    def expire_unless_broken(run, item):
        if run.pk == broken.pk:
            raise RuntimeError("its row is odd")
        expire(run, item)

    monkeypatch.setattr(release, "expire", expire_unless_broken)
    expired(broken, other)
    assert item_of(broken, "gate").state == ItemState.AWAITING
    assert item_of(other, "gate").state == ItemState.EXPIRED


def test_a_disabled_capability_is_still_said_no_to(client, alice, item):
    CapabilityRecord.objects.filter(name="tell_client").update(disabled_at=timezone.now(), disabled_why="incident")
    client.force_login(alice)
    press(client, item)
    assert reread(item).state == ItemState.REJECTED


def test_the_wrong_person_rejects_nothing(client, bob, item):
    client.force_login(bob)
    assert press(client, item).status_code == 409
    assert reread(item).state == ItemState.AWAITING


def expired(*runs):
    Item.objects.filter(step__run__in=runs).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    expire_items(None)


def test_an_owner_asks_again_on_the_page(client, run, item):
    expired(run)
    client.force_login(run.owner)
    assert "Ask reviewers again" in client.get(f"/outbox/{item.pk}/").content.decode()
    assert client.post(f"/outbox/{item.pk}/ask-again/").status_code == 302
    assert reread(item).state == ItemState.AWAITING
    assert client.post(f"/outbox/{item.pk}/ask-again/").status_code == 409


def test_an_owner_drops_what_expired_with_a_reason(client, run, item):
    expired(run)
    client.force_login(run.owner)
    assert client.post(f"/outbox/{item.pk}/drop/", {"reason": ""}).status_code == 422
    client.post(f"/outbox/{item.pk}/drop/", {"reason": "too late"})
    assert reread(item).state == ItemState.DROPPED
    page = client.get(f"/outbox/{item.pk}/").content.decode()
    assert "too late" in page
    assert f"{run.owner} dropped this." in page
    again = client.post(f"/outbox/{item.pk}/drop/", {"reason": "again"})
    assert again.status_code == 409
    assert f"{run.owner} dropped this at" in again.content.decode()


def test_who_presses_on_what_the_sweep_let_expire_reads_when_and_who_was_told(client, alice, run, item):
    expired(run)
    expire_items(None)
    client.force_login(alice)
    answer = client.post(f"/outbox/{item.pk}/approve/", {"digest": item.digest})
    assert answer.status_code == 409
    assert re.search(rf"It expired at \d\d:\d\d UTC\. Nothing was sent; its owner, {run.owner}, was told\.", answer.content.decode())


def test_somebody_else_neither_asks_again_nor_drops(client, alice, run, item):
    expired(run)
    client.force_login(alice)
    assert client.post(f"/outbox/{item.pk}/ask-again/").status_code == 409
    assert client.post(f"/outbox/{item.pk}/drop/", {"reason": "x"}).status_code == 409
    assert reread(item).state == ItemState.EXPIRED
