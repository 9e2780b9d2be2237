"""What a run does under its rules: where it stops, what it refuses, what goes on from where."""

import datetime as dt

import pytest
from django.utils import timezone

from outbox import services as outbox
from runs import isolation, registry, services
from runs.engine import claim, compensate, invoke, record
from runs.exceptions import Improvised, Invalid, NoEffect, NotAllowed, NotOpen, OffPlanCall, Overlaps, TooMany
from runs.models import Claim, Page, Run, Step
from tests.checker import forged
from tests.factories import ask, do, make_run, make_token, make_user
from tests.outbox.scenes import item_of
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}]
TWO = [*ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}]
AROUND_A_GATE = [
    *ONE,
    {"ref": "gate", "capability": "tell_client", "args": {"name": "gate"}, "needs_result": True},
    {"ref": "two", "capability": "put_thing", "args": {"name": "two"}},
]


@pytest.fixture
def touching(monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])


def fail(run, by=None, **how):
    services.fail_run(run, token=run.token, reason="CI died")
    services.compensate_run(run, actor="person:x", by=by, **how)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    return run.state


def states(run):
    return dict(run.steps.values_list("ref", "state"))


# Workers that wake after their lease


def stalled(token):
    """A worker that claimed the step and then stood still until its lease was over."""
    run = make_run(token=token, plan=ONE)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    attempt = claim.to_do(run.pk, step.pk)
    Step.objects.update(lease_until=timezone.now() - dt.timedelta(seconds=1), started_at=timezone.now() - dt.timedelta(minutes=1))
    return run, step, attempt


def test_a_late_answer_ends_the_search_for_it(token):
    run, step, attempt = stalled(token)
    forged(run, "a late answer without its call")
    world.before["probe"] = lambda call: 1 / 0
    invoke.look(run.pk, step.pk)
    record.done(attempt, {"name": "one", "value": "on"})
    step.refresh_from_db()
    assert (step.state, step.effect["name"]) == ("done", "one")
    assert [entry.event for entry in run.entries.order_by("-seq")[:2]] == ["step.done", "step.late_effect"]
    invoke.look(run.pk, step.pk)
    assert world.ledger == []


def test_a_worker_that_wakes_late_writes_over_nobody_and_two_effects_are_told(token, alice):
    run, step, attempt = stalled(token)
    invoke.look(run.pk, step.pk)  # nothing is there, so it is done anew
    invoke.invoke(run.pk, step.pk)
    record.done(attempt, {"name": "one", "value": "twice"})
    record.failed(attempt, NoEffect("late"))
    record.unknown(attempt, RuntimeError("late"))
    step.refresh_from_db()
    assert (step.state, step.effect["value"]) == ("done", "on")
    assert Page.objects.get(run=run).subject == f"Run {run.number}: step 1 may have happened twice"


def test_a_late_answer_that_says_the_same_calls_nobody(token, alice):
    run, step, attempt = stalled(token)
    invoke.look(run.pk, step.pk)
    invoke.invoke(run.pk, step.pk)
    record.done(attempt, {"name": "one", "value": "on"})
    assert not Page.objects.exists()
    assert run.entries.filter(event="step.late_effect").exists()


# Drift


def test_an_undo_that_compares_and_refuses_is_drift_and_not_a_failure(token):
    run = make_run(token=token, plan=ONE)
    do(run, "one")

    def changed_just_now(call):
        world.things["one"] = {"value": "a colleague's", "key": "theirs"}
        raise NoEffect("it was changed since")

    world.before["undo"] = changed_just_now
    assert fail(run) == "stuck"
    assert states(run) == {"one": "drifted"}
    assert world.things["one"]["value"] == "a colleague's"
    assert not run.entries.filter(event="undo.failed").exists(), "it was taken for a failure, to be tried again"


def test_an_undo_that_refuses_although_nothing_changed_is_a_failure(token):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    world.before["undo"] = lambda call: (_ for _ in ()).throw(NoEffect("locked"))
    assert fail(run) == "stuck"
    assert states(run) == {"one": "undo_failed"}
    assert run.steps.get().undo_error == "locked"


def test_a_capability_that_compares_for_itself_is_told_of_a_persons_choice_to_undo_over_it(token):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    world.things["one"] = {"value": "a colleague's", "key": "theirs"}
    seen = []
    world.before["undo"] = lambda call: seen.append(call.over)
    assert fail(run) == "stuck"
    services.compensate_run(run, actor="person:x", undo_over=[1])
    compensate.compensate(run.pk)
    assert (seen, states(run)) == ([True], {"one": "undone"})


# Savepoints and retries


def test_back_to_a_savepoint_and_a_retry_goes_on_from_there(token, touching):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    do(run, "two")
    assert fail(run, to="one") == "failed"
    assert states(run) == {"one": "done", "two": "undone"}
    stranger = make_run(token=token, plan=ONE)
    with pytest.raises(Overlaps):
        ask(stranger, "put_thing", args={"name": "one"}, ref="one")
    retry = make_run(token=token, plan=TWO, retry_of=run.pk)
    assert do(retry, "two").state == "done"
    world.things.clear()
    assert do(retry, "one").state == "done"
    with pytest.raises(Overlaps):
        ask(stranger, "put_thing", args={"name": "one"}, ref="one")
    assert set(Claim.objects.filter(live=True).values_list("run", flat=True)) == {retry.pk}


def test_what_a_retry_undid_is_held_by_the_run_before_it_again(token, touching):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    retry = make_run(token=token, plan=ONE, retry_of=run.pk)
    step = ask(retry, "put_thing", args={"name": "one"}, ref="one").step
    assert Claim.objects.get(live=True).run_id == retry.pk
    forged(retry, "only its state matters")
    Step.objects.filter(pk=step.pk).update(state="closed", closed_why="withdrawn")
    isolation.free(retry, Step.objects.get(pk=step.pk))
    assert Claim.objects.get(live=True).run_id == run.pk


def test_a_run_that_was_undone_is_not_reopened(token):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    assert fail(run) == "compensated"
    with pytest.raises(NotOpen, match="retry_of"):
        services.resume_run(run, token=token)
    with pytest.raises(NotOpen, match="retry_of"):
        ask(run, "put_thing", args={"name": "two"}, ref="two")
    assert ask(run, "put_thing", args={"name": "one"}, ref="one").step.state == "undone"  # what it was, and no new call


# Gates and the pivot


def past_the_gate(token, alice):
    run = make_run(token=token, plan=AROUND_A_GATE)
    do(run, "one")
    ask(run, "tell_client", args={"name": "gate"}, ref="gate")
    item = item_of(run, "gate")
    outbox.approve(item, digest=item.digest, by=alice)
    invoke.invoke(run.pk, item.step_id)
    do(run, "two")
    return run


def test_after_an_approved_gate_a_failure_is_undone_back_to_it_and_then_a_person_is_asked(token, alice):
    run = past_the_gate(token, alice)
    assert fail(run) == "stuck"
    assert states(run) == {"one": "done", "gate": "sent", "two": "undone"}
    assert Page.objects.filter(run=run, subject__contains="stuck", person=alice).exists()


def test_only_who_may_override_goes_past_what_went_out(token, alice, team):
    run = past_the_gate(token, alice)
    fail(run)
    otto, sam = make_user("otto", roles=("on-call",), team=team), make_user("sam", roles=("on-call", "admin"), team=team)
    with pytest.raises(NotAllowed, match="override pivot"):
        services.compensate_run(run, actor="person:otto", by=otto, override=True)
    services.compensate_run(run, actor="person:sam", by=sam, override=True)
    compensate.compensate(run.pk)
    assert states(run) == {"one": "undone", "gate": "left_standing", "two": "undone"}


# People in the middle of a walk


def test_a_pause_lets_the_undo_that_runs_end_and_begins_no_other(token, alice):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    do(run, "two")
    world.after["undo two"] = lambda call: services.pause_run(run, by=alice)
    assert fail(run) == "stuck"
    assert states(run) == {"one": "done", "two": "undone"}
    assert run.stopped_why == "Paused by a person."
    services.compensate_run(run, actor="person:x", by=alice)
    compensate.compensate(run.pk)
    assert states(run) == {"one": "undone", "two": "undone"}


@pytest.mark.parametrize(("there", "seen"), [(True, "verify_undone: still there"), (False, "verify_undone: gone")])
def test_what_the_machine_sees_stands_beside_what_a_person_settles(token, alice, there, seen):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    world.before["undo"] = lambda call: 1 / 0
    fail(run)
    if not there:
        world.things.clear()
    services.settle_step(run.steps.get(), by=alice, how="undone_by_hand", reason="took it away")
    step = run.steps.get()
    assert (step.state, step.seen_at_settling, step.settled_by) == ("settled", seen, "person:Alice Ahn")
    assert run.entries.get(event="step.settled").data["seen"] == seen


def test_an_undo_whose_code_is_gone_stops_the_walk_and_is_never_skipped(token, monkeypatch):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    monkeypatch.setattr(registry, "find", lambda name: None)
    assert fail(run) == "stuck"
    assert states(run) == {"one": "undo_failed"}
    assert "no code defines put_thing" in run.stopped_why


# Rules


def test_off_plan_calls_follow_policy(team):
    for policy, state in (("hold", "on_hold"), ("allow", "requested")):
        run = make_run(token=make_token(team=team, off_plan=policy), plan=[])
        Run.objects.filter(pk=run.pk).update(has_plan=True)
        run.refresh_from_db()
        assert ask(run, "put_thing", args={"name": "x"}).step.state == state
    run = make_run(token=make_token(team=team, off_plan="refuse"), plan=[{"ref": "show", "capability": "show_thing"}])
    with pytest.raises(OffPlanCall):
        ask(run, "put_thing", args={"name": "x"})
    assert run.steps.count() == 1


def test_an_improvised_retry_gets_the_step_that_exists_whatever_policy_allows(team):
    token = make_token(team=team, off_plan="allow")
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    with pytest.raises(Improvised) as by_plan:
        ask(run, "put_thing", args={"name": "one-b"})
    assert (by_plan.value.extra["ref"], by_plan.value.extra["effect"]) == ("one", {"name": "one", "value": "on"})
    free = make_run(token=token, plan=[])
    invoke.invoke(free.pk, ask(free, "put_thing", args={"name": "x"}).step.pk)
    with pytest.raises(Improvised) as by_identity:
        ask(free, "put_thing", args={"name": "x", "value": "off"})
    assert by_identity.value.extra["args"] == {"name": "x"}
    assert world.calls("do") == ["one", "x"]


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"off_plan": "allow"}, "off_plan"),
        ({"on_failure": "ask"}, "on_failure"),
        ({"patience": 301}, "patience"),
        ({"owner": "eve"}, "owner"),
    ],
)
def test_a_request_loosens_no_rule(team, asked, complaint):
    make_user("eve")
    token = make_token(team=team, on_failure="compensate")
    with pytest.raises(Invalid, match=complaint):
        make_run(token=token, plan=ONE, **asked)
    assert not Run.objects.exists()


@pytest.mark.parametrize("limit", ["open_steps", "steps_per_run"])
def test_each_limit_says_when_to_come_back(team, limit):
    run = make_run(token=make_token(team=team, off_plan="allow", **{limit: 1}), plan=[])
    ask(run, "put_thing", args={"name": "a"})
    with pytest.raises(TooMany) as refused:
        ask(run, "put_thing", args={"name": "b"})
    assert refused.value.extra["limit"] == limit
    assert refused.value.extra["retry_after"] > 0
    assert run.steps.count() == 1
