"""Past a call that went out there is no undo by itself, whatever was settled, left or found late in between."""

import pytest
from django.utils import timezone

from outbox import services as outbox
from runs import services
from runs.capability import Capability
from runs.engine import compensate, invoke
from runs.exceptions import NoEffect, NotCompensatable, NotSettleable, Refused
from runs.models import Step
from tests.factories import make_token, make_user
from tests.outbox.scenes import GATE, deliver, item_of, make_released, make_waiting
from tests.tools import TellClient, world

pytestmark = pytest.mark.django_db(transaction=True)


def approve(run, ref, by):
    item = item_of(run, ref)
    outbox.approve(item, digest=item.digest, by=by)


def boom(*args):
    raise RuntimeError("timeout")


def refuse(*args):
    raise NoEffect("refused")


@pytest.fixture
def on_call(team):
    """May compensate and settle, and may not override the pivot."""
    return make_user("otto", roles=("on-call",), team=team)


@pytest.fixture
def stuck(token, alice):
    """The first call went out, the second was refused until nobody tries any more."""
    run = make_released(token=token)
    approve(run, "tell", alice)
    world.before["do more"] = refuse
    approve(run, "also", alice)
    for _ in range(5):
        Step.objects.filter(run=run, state="queued").update(due_at=timezone.now())
        deliver(run)
    run.refresh_from_db()
    assert (run.state, bool(run.pivot_at)) == ("stuck", True)
    return run


def test_leaving_it_standing_is_no_way_around_the_pivot(stuck, on_call):
    services.leave_standing(stuck, by=on_call, reason="it stays")
    with pytest.raises(NotCompensatable, match="override the pivot"):
        services.compensate_run(stuck, actor=f"person:{on_call}", by=on_call)
    assert "one" in world.things


def test_a_gate_settled_as_left_standing_still_is_the_pivot(token, alice):
    run = make_waiting(token=token, plan=GATE)
    world.after["do gate"] = world.before["probe gate"] = boom
    approve(run, "gate", alice)
    deliver(run)
    services.settle_step(run.steps.get(ref="gate"), by=alice, how="left_standing", reason="the client has it")
    services.fail_run(run, token=token, reason="x")
    with pytest.raises(NotCompensatable):
        services.compensate_run(run, actor="token:x")
    assert "one" in world.things


def test_a_press_that_could_undo_nothing_changes_nothing_and_sending_goes_on(stuck, on_call):
    with pytest.raises(NotCompensatable):
        services.compensate_run(stuck, actor=f"person:{on_call}", by=on_call)
    world.before.clear()
    services.retry_sending(stuck, by=on_call)
    deliver(stuck)
    stuck.refresh_from_db()
    assert stuck.state == "succeeded"


def test_with_the_right_what_came_before_is_undone_and_what_went_out_is_left_standing(stuck, team):
    sam = make_user("sam", roles=("on-call", "admin"), team=team)
    services.compensate_run(stuck, actor=f"person:{sam}", by=sam, override=True)
    compensate.compensate(stuck.pk)
    stuck.refresh_from_db()
    assert stuck.state == "compensated"
    assert world.calls("undo") == ["one"]
    assert stuck.steps.get(ref="tell").state == "left_standing"
    assert stuck.corrections.filter(steps__ref="tell").count() == 1


def test_nothing_goes_out_while_a_check_is_red_or_pending(team, alice):
    checker = make_token(scope="checker", team=team)
    run = make_released(token=make_token(team=team, check_grace=600))
    services.report_check(run, token=checker, name="ci", state="failure")
    for ref in ("tell", "also"):
        approve(run, ref, alice)
    deliver(run)
    assert world.calls("do") == ["one"]
    services.report_check(run, token=checker, name="ci", state="pending")
    deliver(run)
    assert world.calls("do") == ["one"]
    services.report_check(run, token=checker, name="ci", state="success")
    deliver(run)
    run.refresh_from_db()
    assert run.state == "succeeded"


def test_a_retry_waits_for_a_red_check(stuck, on_call):
    stuck.checks.update(state="failure")
    with pytest.raises(Refused, match="red"):
        services.retry_sending(stuck, by=on_call)


@pytest.mark.parametrize(("how", "effect"), [("happened", '{"id": 1}'), ("left_standing", "")])
def test_after_a_send_was_settled_the_rest_goes_out(token, alice, monkeypatch, how, effect):
    monkeypatch.setattr(TellClient, "probe", Capability.probe)
    monkeypatch.setattr(TellClient, "honours_key", False)
    run = make_released(token=token)
    world.after["do news"] = boom
    for ref in ("tell", "also"):
        approve(run, ref, alice)
    deliver(run)
    invoke.look(run.pk, run.steps.get(ref="tell").pk)
    services.settle_step(run.steps.get(ref="tell"), by=alice, how=how, reason="they have it", effect=effect)
    services.retry_sending(run, by=alice)
    deliver(run)
    run.refresh_from_db()
    assert run.state == "succeeded"


def test_a_call_that_could_not_be_sent_went_out_after_all_says_a_person(stuck, on_call):
    step = stuck.steps.get(ref="also")
    for how in ("never_happened", "undone_by_hand", "left_standing"):
        with pytest.raises(NotSettleable, match="did not go out"):
            services.settle_step(step, by=on_call, how=how, reason="looked", effect='{"id": 1}')
    services.settle_step(step, by=on_call, how="happened", reason="they have it", effect='{"id": 1}')
    step.refresh_from_db()
    assert (step.state, step.effect, step.settled_as) == ("sent", {"id": 1}, "happened")
    assert step.seen_at_settling == "probe: not there"
    assert item_of(stuck, "also").state == "sent"
    services.retry_sending(stuck, by=on_call)
    stuck.refresh_from_db()
    assert stuck.state == "succeeded"
    assert world.calls("do").count("more") == 0
    with pytest.raises(NotSettleable):
        services.settle_step(step, by=on_call, how="happened", reason="again", effect='{"id": 1}')


def test_a_first_call_that_was_refused_and_went_out_after_all_is_the_pivot(token, on_call, alice):
    run = make_released(token=token)
    world.before["do news"] = refuse
    for ref in ("tell", "also"):
        approve(run, ref, alice)
    for _ in range(4):
        deliver(run)
    assert run.state == "failed"
    services.settle_step(run.steps.get(ref="tell"), by=on_call, how="happened", reason="they rang", effect='{"id": 1}')
    run.refresh_from_db()
    assert run.pivot_at is not None
    with pytest.raises(NotCompensatable, match="override the pivot"):
        services.compensate_run(run, actor=f"person:{on_call}", by=on_call)
