import datetime as dt
import time

import pytest
from django.utils import timezone

from corrections.models import Correction
from outbox import services as ob
from outbox.models import Item
from runs import services
from runs.capability import Capability, Place, Args
from runs.engine import claim, compensate, invoke, record, sweep
from runs.exceptions import NoEffect, NotCompensatable, NotAllowed, TryLater, Refused
from runs.locking import locked_run
from runs.models import Claim, Page, Run, Step
from tests.factories import ask, do, make_run, make_token, make_user, prove
from tests.outbox.scenes import GATE, CLIENTS, deliver, go_green, item_of, make_released, make_waiting, set_policy
from tests.runs.api.agent import Agent
from tests.tools import PutThing, ShowThing, BlindThing, TellClient, world
from sagaboard.accounts.models import Token

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}]
TWO = [{"ref": n, "capability": "put_thing", "args": {"name": n}} for n in ("one", "two")]
SHOW = [{"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]


def approve(item, by):
    ob.approve(item, digest=item.digest, by=by)


def boom(*a):
    raise RuntimeError("timeout")


def expire_lease(step):
    Step.objects.filter(pk=step.pk).update(lease_until=timezone.now() - dt.timedelta(seconds=1))


@pytest.fixture(autouse=True)
def _policies(db):
    from outbox.models import Policy
    Policy.objects.exclude(capability="").delete()


# 1 pivot bypass through leave_standing
def test_leave_standing_then_compensate_crosses_pivot_without_override(token, team):
    rev = make_user("rev", roles=("reviewer",), team=team)
    oncall = make_user("oc", roles=("on-call",), team=team)
    assert not oncall.has_perm("runs.override_pivot")
    run = make_released(token=token)
    approve(item_of(run, "tell"), rev)
    world.before["do more"] = lambda c: (_ for _ in ()).throw(NoEffect("refused"))
    approve(item_of(run, "also"), rev)
    deliver(run)
    for _ in range(4):
        Step.objects.filter(run=run, state="queued").update(due_at=timezone.now())
        deliver(run)
    run.refresh_from_db()
    assert run.state == "stuck", run.state
    assert run.pivot_at
    services.leave_standing(run, by=oncall, reason="x")
    services.compensate_run(run, actor="person:oc", by=oncall)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    print(run.state, list(run.steps.values_list("ref", "state")))
    assert "one" in world.things, "the effect before the pivot was undone without override"


# 2 settle left_standing of an unknown gate, then automatic compensation crosses it
def test_settled_gate_is_no_pivot(token, alice):
    run = make_waiting(token=token, plan=GATE)
    world.after["do gate"] = boom
    TellClient_probe = TellClient.probe
    approve(item_of(run, "gate"), alice)
    world.before["probe gate"] = boom
    deliver(run)
    step = run.steps.get(ref="gate")
    assert step.state == "unknown"
    services.settle_step(step, by=alice, how="left_standing", reason="the client has it")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="token:x")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert "one" in world.things, f"undone past the pivot by a token; run {run.state}"


# 3 red check in grace while releasing
def test_red_check_in_grace_still_sends(team, alice):
    token = make_token(team=team, check_grace=600)
    run = make_released(token=token)
    services.report_check(run, token=make_token(scope="checker", team=team), name="ci", state="failure")
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    assert deliver(run) == [], "sent while a check is red"


def test_pending_check_while_releasing_still_sends(token, team, alice):
    run = make_released(token=token)
    services.report_check(run, token=make_token(scope="checker", team=team), name="ci", state="pending")
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    assert deliver(run) == [], "sent while a check is pending"


# 4 claims
@pytest.fixture
def touching(monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])


def test_a_failed_run_without_effects_keeps_its_claims_for_ever(token, touching):
    run = make_run(token=token, plan=ONE)
    world.before["do"] = lambda c: (_ for _ in ()).throw(NoEffect("refused"))
    do(run, "one")
    services.fail_run(run, token=token, reason="give up")
    world.before.clear()
    run.refresh_from_db()
    assert run.state == "failed" and not run.steps.in_effect().exists()
    other = make_run(token=token, plan=ONE, retry_of=run.pk)
    do(other, "one")


def test_a_held_call_let_through_has_no_claim(team, alice, touching):
    token = make_token(team=team, off_plan="hold")
    run = make_run(token=token, plan=SHOW)
    step = ask(run, "put_thing", args={"name": "x"}).step
    assert step.state == "on_hold"
    services.let_through(step, by=alice)
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()
    assert step.state == "done"
    other = make_run(token=token, plan=[{"ref": "x", "capability": "put_thing", "args": {"name": "x"}}])
    with pytest.raises(Refused):
        ask(other, "put_thing", args={"name": "x"}, ref="x")


# 5 sessions
def test_an_older_session_can_finish_and_fail(token):
    prove("show_thing")
    agent = Agent(token)
    n = agent.post("/runs", {"title": "t", "plan": ONE}).data["run"]
    agent.post(f"/runs/{n}/resume")
    agent_old = agent.post(f"/runs/{n}/steps/skip", {"ref": "one", "reason": "r", "session": 1})
    print(agent_old.status_code, agent_old.data)
    r = agent.post(f"/runs/{n}/finish", {"session": 1})
    assert r.status_code == 409, (r.status_code, r.data["state"] if "state" in r.data else r.data)
    assert r.data["type"].endswith("stale-session"), r.data


# 6 run-bound token opens new runs
def test_run_bound_token_opens_runs(token, team):
    run = make_run(token=token, plan=ONE)
    narrow, text = Token.issue(name="narrow", scope="agent", team=team, person=token.person, run_number=run.pk)
    narrow.text = text
    r = Agent(narrow).post("/runs", {"title": "mine", "plan": ONE})
    assert r.status_code in (403, 404, 409), r.status_code


# 7 off-plan refless failed with corrected args
def test_corrected_args_without_ref(team):
    token = make_token(team=team, off_plan="allow")
    run = make_run(token=token, plan=SHOW)
    world.before["do"] = lambda c: (_ for _ in ()).throw(NoEffect("refused"))
    step = ask(run, "put_thing", args={"name": "a", "value": "on"}).step
    invoke.invoke(run.pk, step.pk)
    ask(run, "put_thing", args={"name": "a", "value": "off"})


# 8 unknown + honours_key without probe in a failed run
def test_honours_key_without_probe_is_called_failed(token, monkeypatch):
    monkeypatch.setattr(BlindThing, "honours_key", True)
    run = make_run(token=token, plan=[{"ref": "b", "capability": "blind_thing", "args": {"name": "b"}}])
    world.after["do"] = boom
    do(run, "b")
    step = run.steps.get(ref="b")
    assert step.state == "unknown"
    services.fail_run(run, token=token, reason="x")
    invoke.look(run.pk, step.pk)
    step.refresh_from_db()
    assert "b" in world.things
    assert step.state != "failed", f"{step.state}: {step.error}; effect is in the world and nobody will undo it"


# 9 settled unknown visible: no correction
def test_settled_unknown_visible_gets_no_correction(token, alice):
    run = make_run(token=token, plan=SHOW)
    world.after["do"] = boom
    world.before["probe"] = boom
    do(run, "show")
    invoke.look(run.pk, run.steps.get(ref="show").pk)
    step = run.steps.get(ref="show")
    assert step.state == "unknown" and "panel" in world.things
    services.settle_step(step, by=alice, how="undone_by_hand", reason="I took it off the board")
    assert Correction.objects.filter(run=run).count() == 1


def test_left_standing_unknown_visible_gets_no_correction(token, alice):
    run = make_run(token=token, plan=SHOW)
    world.after["do"] = boom
    world.before["probe"] = boom
    do(run, "show")
    services.fail_run(run, token=token, reason="x")
    services.leave_standing(run, by=alice, reason="stays")
    assert Correction.objects.filter(run=run).count() == 1


# 10 settle during the walk is overwritten
def test_settle_during_the_walk_is_lost(token, alice):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    world.before["undo"] = boom
    services.compensate_run(run, actor="p", by=alice)
    compensate.compensate(run.pk)
    step = run.steps.get(ref="one")
    assert step.state == "undo_failed"
    world.before.clear()
    world.ledger.clear()
    services.compensate_run(run, actor="p", by=alice)

    def meanwhile(call):
        world.before.clear()
        services.settle_step(Step.objects.get(pk=step.pk), by=alice, how="left_standing", reason="we keep it")
        assert Step.objects.get(pk=step.pk).state == "left_standing"

    world.before["verify_undone"] = meanwhile
    try:
        compensate.compensate(run.pk)
    except Refused:
        pass
    step.refresh_from_db()
    assert world.calls("undo") == [], f"undone although settled as left standing; state {step.state}, settled_by {step.settled_by}"


# 11 late effects
def test_late_effect_after_left_standing_is_lost(token, alice):
    run = make_waiting(token=token, plan=GATE)
    approve(item_of(run, "gate"), alice)
    step = run.steps.get(ref="gate")
    world.before["probe gate"] = boom
    attempt = claim.to_do(run.pk, step.pk)
    expire_lease(step)
    invoke.look(run.pk, step.pk)
    services.fail_run(run, token=token, reason="x")
    services.leave_standing(run, by=alice, reason="stays")
    record.done(attempt, {"id": 1})
    assert run.entries.filter(event="step.late_effect").exists()


def test_late_look_undoes_what_a_person_left_standing(token, alice):
    run = make_run(token=token, plan=ONE)
    world.after["do"] = boom
    do(run, "one")
    step = run.steps.get(ref="one")
    services.fail_run(run, token=token, reason="x")
    attempt = claim.to_look(run.pk, step.pk)
    services.leave_standing(run, by=alice, reason="stays")
    record.done(attempt, {"name": "one", "value": "on"}, how="probed")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert "one" in world.things, f"undone; run {run.state}"


def test_late_effect_restarts_a_stuck_walk(token, alice):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    two = ask(run, "put_thing", args={"name": "two"}, ref="two").step
    attempt = claim.to_do(run.pk, two.pk)
    services.fail_run(run, token=token, reason="x")
    expire_lease(two)
    Step.objects.filter(pk=two.pk).update(started_at=timezone.now() - dt.timedelta(seconds=60))
    invoke.look(run.pk, two.pk)
    two.refresh_from_db()
    assert two.state == "failed"
    world.before["undo"] = boom
    services.compensate_run(run, actor="p", by=alice)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "stuck"
    record.done(attempt, {"name": "two", "value": "on"})
    run.refresh_from_db()
    assert run.state == "stuck", run.state


def test_late_effect_in_a_failed_run_tells_nobody(team):
    token = make_token(team=team, on_failure="compensate")
    run = make_run(token=token, plan=ONE, on_failure="compensate")
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    attempt = claim.to_do(run.pk, step.pk)
    Step.objects.filter(pk=step.pk).update(tries=3, started_at=timezone.now() - dt.timedelta(seconds=60))
    expire_lease(step)
    invoke.look(run.pk, step.pk)
    run.refresh_from_db()
    step.refresh_from_db()
    assert (run.state, step.state) == ("failed", "failed")
    record.done(attempt, {"name": "one", "value": "on"})
    run.refresh_from_db()
    step.refresh_from_db()
    assert step.state == "done"
    assert run.state == "compensating" or Page.objects.filter(run=run).exists(), run.state


# 12 changed Args: walk crashes forever
def test_args_that_no_longer_validate_wedge_the_walk(token, monkeypatch):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="p")

    class Stricter(Args):
        name: str
        value: str
        owner: str

    monkeypatch.setattr(PutThing, "Args", Stricter)
    try:
        compensate.compensate(run.pk)
    except Exception as exc:
        print("walk raised", type(exc))
    run.refresh_from_db()
    assert run.state == "stuck", run.state


# 13 overlong place
def test_an_overlong_label_undoes_the_record_of_an_undo(token, monkeypatch):
    monkeypatch.setattr(ShowThing, "place", lambda self, call: Place(key="board", label="x" * 201, kind="note"))
    run = make_run(token=token, plan=SHOW)
    do(run, "show")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="p")
    try:
        compensate.compensate(run.pk)
    except Exception as exc:
        print("walk raised", type(exc), exc)
    run.refresh_from_db()
    assert run.state == "compensated", (run.state, run.steps.get(ref="show").state, world.things)


# 14 stuck past pivot: compensate without override closes the way forward
def test_compensate_from_stuck_past_pivot_blocks_retry(token, alice):
    run = make_released(token=token)
    world.before["do more"] = lambda c: (_ for _ in ()).throw(NoEffect("refused"))
    approve(item_of(run, "tell"), alice)
    approve(item_of(run, "also"), alice)
    for _ in range(5):
        Step.objects.filter(run=run, state="queued").update(due_at=timezone.now())
        deliver(run)
    assert run.state == "stuck"
    services.compensate_run(run, actor="token:oncall")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "stuck" and run.steps.get(ref="one").state == "done"
    world.before.clear()
    services.retry_sending(run, by=alice)


# 15 settled send: the rest never goes
def test_after_a_settled_send_the_rest_goes_out(token, alice, monkeypatch):
    monkeypatch.setattr(TellClient, "probe", Capability.probe)
    monkeypatch.setattr(TellClient, "honours_key", False)
    run = make_released(token=token)
    world.after["do news"] = boom
    approve(item_of(run, "tell"), alice)
    approve(item_of(run, "also"), alice)
    deliver(run)
    invoke.look(run.pk, run.steps.get(ref="tell").pk)
    run.refresh_from_db()
    assert run.state == "stuck"
    services.settle_step(run.steps.get(ref="tell"), by=alice, how="happened", reason="they have it", effect='{"id": 1}')
    run.refresh_from_db()
    assert run.state == "stuck"
    services.retry_sending(run, by=alice)
    for s in Step.objects.filter(run=run, state="queued", due_at__lte=timezone.now()):  # what the sweep would ring for
        invoke.invoke(run.pk, s.pk)
    run.refresh_from_db()
    assert run.state == "succeeded", (run.state, list(run.steps.values_list("ref", "state", "due_at")))


def test_after_a_send_settled_as_left_standing_the_rest_goes_out(token, alice, monkeypatch):
    monkeypatch.setattr(TellClient, "probe", Capability.probe)
    monkeypatch.setattr(TellClient, "honours_key", False)
    run = make_released(token=token)
    world.after["do news"] = boom
    approve(item_of(run, "tell"), alice)
    approve(item_of(run, "also"), alice)
    deliver(run)
    invoke.look(run.pk, run.steps.get(ref="tell").pk)
    services.settle_step(run.steps.get(ref="tell"), by=alice, how="left_standing", reason="they have it")
    services.retry_sending(run, by=alice)
    deliver(run)
    assert run.state == "succeeded", (run.state, item_of(run, "tell").state, list(run.steps.values_list("ref", "state", "due_at")))


# 16 late undo without deadline
def test_an_undo_begins_after_its_lease(token, monkeypatch, settings):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    settings.LEASE_MARGIN = 0.2
    settings.CALL_TIMEOUT_AT_MOST = settings.PATIENCE_AT_MOST = 0.2
    monkeypatch.setattr(PutThing, "timeout", 0.2)
    monkeypatch.setattr(PutThing, "verify_for", 0.0)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="p")
    original = compensate.reach
    once = []

    def reach(point, *a):
        if point == "undo.before" and not once:
            once.append(1)
            time.sleep(1.2)  # the machine sleeps; meanwhile the other walk
            compensate.compensate(run.pk)
            world.things["one"] = {"value": "somebody else's", "key": "other"}
        return original(point, *a)

    monkeypatch.setattr(compensate, "reach", reach)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert world.calls("undo") == ["one"], (run.state, world.things)


# 17 expired gate
def test_an_expired_gate_compensates(token, alice):
    from outbox.receivers import expire_items
    run = make_waiting(token=token, plan=GATE)
    Item.objects.filter(step__run=run).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    expire_items(None)
    run.refresh_from_db()
    assert run.state == "compensating", run.state


# 18 calls that are not heard
def test_a_polling_agent_is_silent(token):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    old = timezone.now() - dt.timedelta(seconds=1000)
    Run.objects.filter(pk=run.pk).update(last_heard_at=old)
    Step.objects.filter(run=run, state="done").update(ended_at=old, requested_at=old)
    agent = Agent(token)
    assert agent.get(f"/runs/{run.pk}/steps/1").status_code == 200
    assert agent.post(f"/runs/{run.pk}/steps", {"capability": "put_thing", "args": {"name": "one"}, "ref": "one"}).status_code == 200
    assert not sweep.silent().filter(pk=run.pk).exists()
