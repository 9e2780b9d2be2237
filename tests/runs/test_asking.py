"""Asking for a call: what it claims, what it replaces, what it may not, and that a refusal leaves nothing behind."""

import datetime as dt

import pytest
from django.utils import timezone

from outbox import services as outbox
from outbox.states import ItemState
from runs import services
from runs.engine import invoke, sweep
from runs.exceptions import Improvised, Invalid, KeyReused, NoEffect, Overlaps, Refused, TooMany
from runs.models import Claim, IdempotencyKey, LogEntry, Run, Step
from runs.sections import sections
from runs.services import asking
from runs.states import RunState, StepState
from sagaboard.accounts.models import Token
from tests.factories import ask, do, make_run, make_token, make_user, prove
from tests.helpers import meet_after, run_together
from tests.outbox.scenes import GATE, deliver, item_of, make_waiting
from tests.tools import PutThing, TellClient, world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}]
SHOW = [{"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]


def refuse(call):
    raise NoEffect("the shelf is full")


@pytest.fixture
def holding(team):
    return make_token(team=team, off_plan="hold")


@pytest.fixture
def touching(monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])


# Claims


def test_two_runs_that_claim_the_same_in_other_orders_wait_and_never_deadlock(token, monkeypatch):
    names = [f"r{n}" for n in range(3000)]
    monkeypatch.setattr(PutThing, "touches", lambda self, args: names if args.name == "one" else names[::-1])
    two = [{"ref": "two", "capability": "put_thing", "args": {"name": "two"}}]
    for _ in range(4):
        runs = make_run(token=token, plan=ONE), make_run(token=token, plan=two)
        calls = [
            lambda r=run, ref=ref: ask(r, "put_thing", args={"name": ref}, ref=ref) for run, ref in zip(runs, ("one", "two"), strict=True)
        ]
        assert sorted(type(answer).__name__ for answer in run_together(*calls)) == ["Asked", "Overlaps"]
        Claim.objects.all().delete()


def test_a_call_on_hold_claims_what_it_will_touch(holding, alice, touching):
    run = make_run(token=holding, plan=SHOW)
    step = ask(run, "put_thing", args={"name": "x"}).step
    assert step.state == StepState.ON_HOLD
    other = make_run(token=holding, plan=[{"ref": "x", "capability": "put_thing", "args": {"name": "x"}}])
    with pytest.raises(Overlaps):
        ask(other, "put_thing", args={"name": "x"}, ref="x")
    services.let_through(step, by=alice)
    invoke.invoke(run.pk, step.pk)
    assert world.calls("do") == ["x"]


def test_a_call_held_for_two_reasons_names_both(team, touching):
    token = make_token(team=team, off_plan="hold", overlap="hold")
    ask(make_run(token=token, plan=ONE), "put_thing", args={"name": "one"}, ref="one")
    step = ask(make_run(token=token, plan=SHOW), "put_thing", args={"name": "one"}).step
    assert "the plan does not hold it; run " in step.error
    assert "still has an effect on thing:one" in step.error


def test_a_resource_with_a_very_long_name_is_claimed_too(token, monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"repo:{'r' * 400}"] * 2)
    ask(make_run(token=token, plan=ONE), "put_thing", args={"name": "one"}, ref="one")
    with pytest.raises(Overlaps):
        ask(make_run(token=token, plan=ONE), "put_thing", args={"name": "one"}, ref="one")
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"repo:{'r' * 401}"])
    ask(make_run(token=token, plan=ONE), "put_thing", args={"name": "one"}, ref="one")
    assert Claim.objects.filter(live=True).count() == 2


def test_a_plan_warns_of_a_claim_with_a_very_long_name(token, monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"repo:{'r' * 400}"])
    ask(make_run(token=token, plan=ONE), "put_thing", args={"name": "one"}, ref="one")
    warnings = services.open_run(token=token, title="x", plan=ONE).warnings
    assert any("still has an effect on repo:rrr" in warning for warning in warnings)


# What is asked for anew


@pytest.mark.parametrize(("off_plan", "name"), [("allow", "a"), ("refuse", "one")])
def test_a_failed_call_with_corrected_arguments_and_no_ref_is_that_step_again(team, off_plan, name):
    """Off the plan as on it: its identity names it."""
    run = make_run(token=make_token(team=team, off_plan=off_plan), plan=ONE)
    world.before["do"] = refuse
    step = ask(run, "put_thing", args={"name": name}).step
    invoke.invoke(run.pk, step.pk)
    world.before.clear()
    again = ask(run, "put_thing", args={"name": name, "value": "off"})
    assert (again.step.pk, again.new) == (step.pk, True)
    invoke.invoke(run.pk, step.pk)
    assert world.things[name]["value"] == "off"


def test_corrected_arguments_are_prepared_for_anew(token, monkeypatch):
    """What was prepared for another thing would be put back onto this one."""
    monkeypatch.setattr(PutThing, "identity", None)
    world.things["b"] = {"value": "theirs", "key": ""}
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing"}])
    world.before["do"] = refuse
    step = ask(run, "put_thing", args={"name": "a"}, ref="one").step
    invoke.invoke(run.pk, step.pk)
    world.before.clear()
    ask(run, "put_thing", args={"name": "b"}, ref="one")
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()
    assert step.prepared["was"] == {"value": "theirs", "key": ""}


@pytest.fixture
def sent_back(token, alice):
    """A run whose gate a reviewer sent back to the agent."""
    run = make_waiting(token=token, plan=GATE)
    item = item_of(run, "gate")
    outbox.reject(item, digest=item.digest, by=alice, reason="Say it better.", fate="send_back")
    return run


def test_a_gate_that_was_sent_back_is_asked_for_again_with_better_words(sent_back, alice):
    step = ask(sent_back, "tell_client", args={"name": "gate", "value": "better"}, ref="gate").step
    step.refresh_from_db()
    assert (step.state, step.closed_why, step.error) == (StepState.QUEUED, "", "")
    item = item_of(sent_back, "gate")
    assert (item.state, item.closed_at, item.versions.count()) == (ItemState.AWAITING, None, 2)
    assert item.expires_at > timezone.now()
    assert b"better" in item.current.body
    assert item.standing() == []
    seen = sections.item_of(step)
    assert (seen["said"], seen["decided_by"]) == ("", "")
    outbox.approve(item, digest=item.digest, by=alice)
    assert deliver(sent_back) == ["gate"]
    assert sent_back.steps.get(ref="gate").state == StepState.SENT


def test_a_gate_may_be_sent_back_more_than_once(sent_back, alice):
    for words in ("better", "best"):
        ask(sent_back, "tell_client", args={"name": "gate", "value": words}, ref="gate")
        item = item_of(sent_back, "gate")
        outbox.reject(item, digest=item.digest, by=alice, reason=f"Not {words}.", fate="send_back")
    assert item_of(sent_back, "gate").decisions.filter(verdict="reject").count() == 3
    assert sent_back.steps.get(ref="gate").error == "Not best."


@pytest.mark.parametrize("ref", ["gate", None])
def test_the_same_gate_again_meets_the_rejection(sent_back, ref):
    asked = ask(sent_back, "tell_client", args={"name": "gate"}, ref=ref)
    assert (asked.new, asked.step.state, asked.step.error) == (False, StepState.CLOSED, "Say it better.")
    assert item_of(sent_back, "gate").state == ItemState.REJECTED


def test_without_its_ref_a_gate_of_other_words_is_the_one_that_was_sent_back(sent_back):
    asked = ask(sent_back, "tell_client", args={"name": "gate", "value": "better"})
    assert (asked.new, asked.step.ref, asked.step.state) == (True, "gate", StepState.QUEUED)


def test_what_was_dropped_is_not_asked_for_again(token, alice):
    run = make_waiting(token=token)
    services.finish_run(run, token=token)
    services.report_check(run, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    item = item_of(run, "tell")
    outbox.reject(item, digest=item.digest, by=alice, reason="No.", fate="drop")
    with pytest.raises(Improvised, match="Use what it left"):
        ask(run, "tell_client", args={"name": "news", "value": "other"}, ref="tell")


# Refusals that leave nothing behind


@pytest.mark.parametrize("method", ["render", "classify", "touches"])
def test_a_call_of_a_target_nobody_knows_is_invalid_and_nothing_is_written(token, monkeypatch, method):
    run = make_run(token=token, plan=[{"ref": "tell", "capability": "tell_client"}])

    def unknown(self, args):
        raise NoEffect("no target is called “nope”")

    monkeypatch.setattr(TellClient, method, unknown)
    before = LogEntry.objects.count()
    with pytest.raises(Invalid, match="no target is called “nope”"):
        ask(run, "tell_client", args={"name": "n"}, ref="tell", idempotency_key="k")
    assert run.steps.get().state == StepState.PLANNED
    assert LogEntry.objects.count() == before
    assert not IdempotencyKey.objects.exists()


@pytest.mark.parametrize("method", ["classify", "touches", "audience_name"])
def test_a_plan_with_a_target_nobody_knows_is_invalid_and_nothing_is_written(token, monkeypatch, method):
    def unknown(self, args):
        raise NoEffect("no target is called “nope”")

    monkeypatch.setattr(TellClient, method, unknown)
    with pytest.raises(Invalid, match="no target is called “nope”"):
        services.open_run(token=token, title="x", plan=[{"ref": "tell", "capability": "tell_client", "args": {"name": "n"}}])
    assert not Run.objects.exists()


def test_of_two_runs_that_use_one_key_at_once_the_later_is_refused(token, monkeypatch):
    runs = [make_run(token=token, plan=ONE) for _ in range(2)]
    meet_after(monkeypatch, asking, "_meant")
    calls = [lambda run=run: ask(run, "put_thing", args={"name": "one"}, ref="one", idempotency_key="k") for run in runs]
    answers = run_together(*calls)
    assert sorted(type(answer).__name__ for answer in answers) == ["Asked", "KeyReused"]
    assert Step.objects.filter(state=StepState.REQUESTED).count() == 1
    assert LogEntry.objects.filter(event="step.requested").count() == 1
    assert isinstance(next(answer for answer in answers if isinstance(answer, Refused)), KeyReused)


# Limits


def test_a_token_without_rules_has_the_default_limits(team):
    token = Token.issue(name="bare", scope="agent", team=team, person=make_user(team=team))[0]
    plan = [{"ref": f"r{n}", "capability": "put_thing", "args": {"name": f"n{n}"}} for n in range(51)]
    run = services.open_run(token=token, title="x", plan=plan).run
    for entry in plan[:50]:
        ask(run, "put_thing", args=entry["args"], ref=entry["ref"])
    with pytest.raises(TooMany) as refused:
        ask(run, "put_thing", args=plan[50]["args"], ref="r50")
    assert refused.value.extra["limit"] == "open_steps"


def test_only_so_many_calls_of_an_agent_wait_for_people(team, alice):
    token = make_token(team=team, waiting_items=2)
    plan = [{"ref": "tell", "capability": "tell_client", "args": {"name": "n"}}, *ONE]
    first, second, third = (make_run(token=token, plan=plan) for _ in range(3))
    ask(first, "tell_client", args={"name": "n"}, ref="tell")
    ask(second, "tell_client", args={"name": "n"}, ref="tell")
    with pytest.raises(TooMany) as refused:
        ask(third, "tell_client", args={"name": "n"}, ref="tell")
    assert refused.value.extra["limit"] == "waiting_items"
    assert third.steps.get(ref="tell").state == StepState.PLANNED
    ask(third, "put_thing", args={"name": "one"}, ref="one")
    services.fail_run(first, token=token, reason="x")
    ask(third, "tell_client", args={"name": "n"}, ref="tell")


# Being heard


def test_asking_again_for_a_step_that_exists_counts_as_heard_of(token):
    run = make_run(token=token)
    do(run, "one")
    then = timezone.now() - dt.timedelta(hours=1)

    def silent_for_an_hour():
        Run.objects.filter(pk=run.pk).update(last_heard_at=then)
        Step.objects.filter(run=run).exclude(ended_at=None).update(ended_at=then, requested_at=then)

    for key in (None, "k", "k"):
        silent_for_an_hour()
        ask(run, "put_thing", args={"name": "one"}, ref="one", idempotency_key=key)
        sweep.sweep()
        run.refresh_from_db()
        assert run.state == RunState.OPEN
    silent_for_an_hour()
    services.skip_step(run, token=token, ref="two", reason="not needed")
    sweep.sweep()
    run.refresh_from_db()
    assert run.state == RunState.OPEN


def test_a_heartbeat_is_written_down_once_a_second_at_most(token):
    run = make_run(token=token)
    then = timezone.now() - dt.timedelta(seconds=2)
    Run.objects.filter(pk=run.pk).update(last_heard_at=then)
    services.heartbeat(run)
    heard = Run.objects.get(pk=run.pk).last_heard_at
    assert heard > then
    services.heartbeat(run)
    assert Run.objects.get(pk=run.pk).last_heard_at == heard


def test_whoever_asked_is_kept_with_the_step(token, team, alice):
    prove("show_thing")
    run = make_run(token=token)
    narrow = make_token(team=team, person=alice)
    step = ask(run, "put_thing", token=narrow, args={"name": "one"}, ref="one").step
    step.refresh_from_db()
    assert step.asked_by == alice
