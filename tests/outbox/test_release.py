"""What goes out, in which order, and what never does."""

import datetime as dt

import pytest
from django.utils import timezone

from outbox import services
from outbox.exceptions import NotDecidable
from outbox.models import Item
from outbox.receivers import expire_items
from outbox.states import ItemState
from runs import lifecycle
from runs import services as run_services
from runs.capability import Retry
from runs.exceptions import NoEffect
from runs.locking import locked_run
from runs.models import Page
from runs.states import RunState, StepState
from tests.checker import forged
from tests.factories import ask, make_user
from tests.outbox.scenes import GATE, TEAM, deliver, go_green, item_of, make_released, make_waiting, set_policy
from tests.tools import TellClient, world

pytestmark = pytest.mark.django_db(transaction=True)


def approve(item, by):
    services.approve(item, digest=item.digest, by=by)


def test_nothing_goes_before_the_run_is_green(token, alice):
    run = make_waiting(token=token)
    item = item_of(run, "tell")
    assert item.state == ItemState.HELD
    with pytest.raises(NotDecidable, match="not green"):
        approve(item, alice)
    assert deliver(run) == []


def test_nothing_goes_before_every_item_is_decided(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    assert deliver(run) == []
    approve(item_of(run, "also"), alice)
    assert deliver(run) == ["news", "more"]
    assert run.state == RunState.SUCCEEDED
    assert run.pivot_at is not None
    assert set(Item.objects.values_list("state", flat=True)) == {ItemState.SENT}


def test_items_go_in_the_order_of_the_plan_whoever_was_approved_first(token, alice):
    run = make_released(token=token, plan=TEAM)
    approve(item_of(run, "also"), alice)
    approve(item_of(run, "tell"), alice)
    assert deliver(run) == ["summary", "news", "more"]


def test_what_only_the_team_reads_needs_no_yes_and_waits_for_the_others(token, alice):
    run = make_released(token=token, plan=TEAM)
    assert item_of(run, "team").state == ItemState.APPROVED
    assert deliver(run) == []


def test_clients_need_a_yes_whatever_a_policy_says(token):
    set_policy(needs_yes=False)
    assert item_of(make_released(token=token), "tell").state == ItemState.AWAITING


def test_exactly_the_approved_bytes_are_sent(token, alice):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    deliver(run)
    step = run.steps.get(ref="tell")
    assert step.effect["sent"] == '{"say":"ready"}' == bytes(item_of(run, "tell").current.body).decode()


@pytest.mark.parametrize("role", ["owner", "holder"])
def test_four_eyes_covers_the_owner_and_the_tokens_holder(token, role):
    someone = make_user(roles=("reviewer",), team=token.team)
    if role == "holder":
        token.person = someone
        token.save()
    run = make_released(token=token)
    if role == "owner":
        run.owner = someone
        run.save()
    item = item_of(run, "tell")
    with pytest.raises(NotDecidable, match="so someone else must approve it"):
        approve(item, someone)
    services.reject(item, digest=item.digest, by=someone, reason="not like this")
    assert item_of(run, "tell").state == ItemState.REJECTED


def test_a_second_yes_must_come_from_somebody_else(token, alice):
    set_policy(quorum=2)
    carol = make_user("carol", roles=("reviewer",), team=token.team)
    run = make_released(token=token)
    item = item_of(run, "tell")
    approve(item, alice)
    approve(item, alice)
    assert item_of(run, "tell").state == ItemState.AWAITING
    approve(item, carol)
    assert item_of(run, "tell").state == ItemState.APPROVED
    assert item.decisions.count() == 2


def test_the_wrong_person_decides_nothing(token, bob):
    run = make_released(token=token)
    with pytest.raises(NotDecidable, match="may not decide"):
        approve(item_of(run, "tell"), bob)
    assert not item_of(run, "tell").decisions.exists()


def test_someone_whom_the_policy_names_decides_without_the_role_and_sees_the_item(token):
    named = make_user("named")
    set_policy(people=[named])
    run = make_released(token=token)
    assert item_of(run, "tell") in Item.objects.visible_to(named)
    approve(item_of(run, "tell"), named)
    assert item_of(run, "tell").state == ItemState.APPROVED


def test_where_a_policy_names_people_the_role_is_not_enough(token, alice):
    set_policy(people=[make_user("named")])
    with pytest.raises(NotDecidable, match="may not decide"):
        approve(item_of(make_released(token=token), "tell"), alice)


def expire_now(run):
    Item.objects.filter(step__run=run).exclude(expires_at=None).update(expires_at=timezone.now() - dt.timedelta(seconds=1))


def test_after_its_time_an_item_is_not_approved_even_if_no_sweep_looked(token, alice):
    run = make_released(token=token)
    expire_now(run)
    with pytest.raises(NotDecidable, match="expired"):
        approve(item_of(run, "tell"), alice)
    assert item_of(run, "tell").state == ItemState.AWAITING


def test_an_expired_item_waits_for_its_owner_who_asks_again(token, alice):
    run = make_released(token=token)
    expire_now(run)
    expire_items(None)
    item = item_of(run, "tell")
    assert item.state == ItemState.EXPIRED
    assert Page.objects.filter(run=run, person=run.owner, subject__contains="expired").exists()
    assert deliver(run) == []
    with pytest.raises(NotDecidable, match="asks again or drops"):
        services.ask_again(item, by=alice)
    services.ask_again(item, by=run.owner)
    assert item_of(run, "tell").state == ItemState.AWAITING
    approve(item_of(run, "tell"), alice)
    assert item_of(run, "tell").state == ItemState.APPROVED


def test_an_owner_drops_what_expired_and_the_rest_goes_out(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "also"), alice)
    Item.objects.filter(pk=item_of(run, "tell").pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    expire_items(None)
    services.drop(item_of(run, "tell"), by=run.owner, reason="too late")
    assert deliver(run) == ["more"]
    assert item_of(run, "tell").state == ItemState.DROPPED
    assert run.state == RunState.SUCCEEDED


def test_an_approval_lapses_if_the_others_are_decided_too_late(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    Item.objects.filter(pk=item_of(run, "tell").pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    approve(item_of(run, "also"), alice)
    assert item_of(run, "tell").state == ItemState.EXPIRED
    assert deliver(run) == []


def test_an_approval_lapses_also_while_its_message_waits(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    approve(item_of(run, "also"), alice)
    expire_now(run)
    assert deliver(run) == []
    assert item_of(run, "tell").state == ItemState.EXPIRED


def test_an_item_asked_for_again_needs_every_yes_anew(token, alice):
    set_policy(quorum=2)
    carol = make_user("carol", roles=("reviewer",), team=token.team)
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    expire_now(run)
    expire_items(None)
    services.ask_again(item_of(run, "tell"), by=run.owner)
    approve(item_of(run, "tell"), carol)
    assert item_of(run, "tell").state == ItemState.AWAITING
    approve(item_of(run, "tell"), alice)
    assert item_of(run, "tell").state == ItemState.APPROVED


def test_when_the_run_fails_everything_that_waits_is_withdrawn(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    run_services.report_check(run, token=token, name="ci", state="failure")
    run.refresh_from_db()
    assert run.state == RunState.FAILED
    assert deliver(run) == []
    assert {item_of(run, ref).state for ref in ("tell", "also")} == {ItemState.WITHDRAWN}
    with pytest.raises(NotDecidable, match="withdrawn, unsent"):
        approve(item_of(run, "also"), alice)


def test_a_changed_capability_voids_the_approval(token, alice, monkeypatch):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    monkeypatch.setattr(TellClient, "connector_version", "2")
    assert deliver(run) == []
    item = item_of(run, "tell")
    assert (item.state, item.versions.count()) == (ItemState.AWAITING, 2)
    assert run.entries.filter(event="item.refused", data__why__icontains="no longer what was approved").exists()
    approve(item, alice)
    assert item_of(run, "tell").state == ItemState.APPROVED


def test_a_changed_payload_voids_the_approval(token, alice, monkeypatch):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    run.steps.filter(ref="tell").update(args={"name": "news", "value": "something else"})
    assert deliver(run) == []
    item = item_of(run, "tell")
    assert item.state == ItemState.AWAITING
    assert b"something else" in bytes(item.current.body)


def test_the_account_of_who_approved_was_disabled_so_somebody_else_must(token, alice):
    carol = make_user("carol", roles=("reviewer",), team=token.team)
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    approve(item_of(run, "also"), carol)
    alice.is_active = False
    alice.save()
    assert deliver(run) == []
    item = item_of(run, "tell")
    assert item.state == ItemState.AWAITING
    approve(item, carol)
    assert deliver(run) == ["news", "more"]


def test_an_approval_that_no_decision_backs_sends_nothing(token):
    run = make_released(token=token)
    forged(run, "an approval that nobody gave")
    Item.objects.filter(step__run=run).update(state=ItemState.APPROVED)
    assert deliver(run) == []
    assert item_of(run, "tell").state == ItemState.AWAITING


def test_a_gate_is_decidable_at_once_and_its_result_reaches_the_agent(token, alice):
    run = make_waiting(token=token, plan=GATE)
    item = item_of(run, "gate")
    assert item.state == ItemState.AWAITING
    approve(item, alice)
    assert deliver(run) == ["gate"]
    assert (run.state, run.steps.get(ref="gate").state) == (RunState.OPEN, StepState.SENT)
    assert run.pivot_at is not None


def test_an_expired_gate_is_a_rejection(token):
    run = make_waiting(token=token, plan=GATE)
    expire_now(run)
    expire_items(None)
    run.refresh_from_db()
    assert (item_of(run, "gate").state, run.state) == (ItemState.EXPIRED, RunState.COMPENSATING)
    assert not Item.objects.open().exists()


def test_a_gate_that_failed_and_is_asked_for_again_needs_a_new_yes(token, alice, monkeypatch):
    monkeypatch.setattr(TellClient, "retry", Retry(attempts=2, backoff=0.0))
    run = make_waiting(token=token, plan=GATE)
    approve(item_of(run, "gate"), alice)
    forged(run, "as the engine leaves it: the call did nothing, the agent may ask again")
    run.steps.filter(ref="gate").update(state=StepState.FAILED, tries=1)
    ask(run, "tell_client", args={"name": "gate"}, ref="gate")
    item = item_of(run, "gate")
    assert item.state == ItemState.AWAITING
    assert deliver(run) == []
    approve(item, alice)
    assert deliver(run) == ["gate"]


def test_a_send_that_failed_for_good_leaves_nothing_in_the_queue(token, alice):
    def refuse(call):
        raise NoEffect("no such client")

    run = make_released(token=token)
    world.before["do news"] = refuse
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    for _ in range(4):
        deliver(run)
    assert run.state == RunState.FAILED
    assert world.calls("do") == ["one"]
    assert not Item.objects.open().exists()


def test_items_of_a_dead_run_leave_the_queue_however_it_died(token, alice):
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    forged(run, "a death that no code path leaves behind")
    with locked_run(run.pk) as locked:
        run.steps.filter(ref="tell").update(state=StepState.FAILED)
        lifecycle.fail(locked, "it died")
    assert not Item.objects.open().exists()
    Item.objects.filter(pk=item_of(run, "tell").pk).update(state=ItemState.APPROVED, closed_at=None)
    expire_items(None)
    assert item_of(run, "tell").state == ItemState.WITHDRAWN


def test_runs_never_wait_for_each_other(token, alice):
    waiting, going = make_released(token=token), make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(going, ref), alice)
    deliver(going)
    assert going.state == RunState.SUCCEEDED
    assert item_of(waiting, "tell").state == ItemState.AWAITING


def test_a_run_without_checks_is_not_released_by_itself(token, alice):
    run = make_waiting(token=token)
    run.checks.all().delete()
    run_services.finish_run(run, token=token)
    run.refresh_from_db()
    assert run.state == RunState.CHECKING
    assert item_of(run, "tell").state == ItemState.HELD
    run_services.confirm_green(run, by=alice, reason="I looked at it")
    assert item_of(run, "tell").state == ItemState.AWAITING


def test_go_green_opens_every_item(token):
    run = make_waiting(token=token)
    go_green(run)
    assert {item_of(run, ref).state for ref in ("tell", "also")} == {ItemState.AWAITING}
