"""No state without a way out: what waits for too long is told to a person, and a person can end it."""

import datetime as dt

import pytest
from django.utils import timezone

from outbox import services as outbox
from runs import bell, services
from runs.engine import bounds, claim, compensate, invoke, sweep
from runs.exceptions import Invalid, NoEffect, NotAllowed, Refused, TryLater
from runs.models import Claim, LogEntry, Page, Run, Step
from tests.checker import forged
from tests.factories import ask, do, make_run, make_token
from tests.helpers import meet_after, run_together
from tests.outbox.scenes import deliver, item_of, make_released
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}]
SHOW = [{"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch):
    monkeypatch.setattr(bell, "_send", lambda task, ids: None)


@pytest.fixture
def touching(monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])


def later(call):
    raise TryLater("maintenance until six", 30)


def boom(*args):
    raise RuntimeError("timeout")


def ago(**time):
    return timezone.now() - dt.timedelta(**time)


def held(team, **rules):
    run = make_run(token=make_token(team=team, off_plan="hold", **rules), plan=SHOW)
    step = ask(run, "put_thing", args={"name": "one"}).step
    assert step.state == "on_hold"
    return run, step


def said(run):
    return list(Page.objects.filter(run=run).values_list("person__username", "subject"))


# Calls on hold


def test_a_held_call_that_nobody_answers_is_told_to_its_owner_once(team, bob):
    run, step = held(team, owners=[bob])
    Run.objects.update(owner=bob)
    bounds.waits_too_long()
    assert said(run) == []
    Step.objects.update(requested_at=ago(minutes=11))
    for _ in range(3):
        bounds.waits_too_long()
    assert said(run) == [("bob", f"Run {run.number}: step {step.number} is on hold for you")]


def test_a_held_call_that_nobody_ever_answers_ends_and_says_so_to_its_agent(team, touching):
    run, step = held(team)
    Step.objects.update(requested_at=ago(minutes=11))
    bounds.waits_too_long()
    Step.objects.update(requested_at=ago(hours=25))
    bounds.waits_too_long()
    step.refresh_from_db()
    assert (step.state, step.closed_why) == ("closed", "expired")
    assert "Nobody let it through within 24 h" in step.error
    run.refresh_from_db()
    assert run.state == "open"
    assert not Claim.objects.filter(live=True).exists()


def test_a_held_call_can_be_refused_and_the_agent_gets_the_words(team, alice, touching):
    run, step = held(team)
    services.refuse_held(step, by=alice, reason="use the other one")
    again = ask(run, "put_thing", args={"name": "one"}).step
    assert (again.pk, again.state, again.closed_why, again.error) == (step.pk, "closed", "rejected", "use the other one")
    with pytest.raises(Refused, match="closed now"):
        services.let_through(step, by=alice)
    services.skip_step(run, token=run.token, ref="show", reason="not needed")
    assert services.finish_run(run, token=run.token).state == "checking"


def test_refusing_a_held_call_wants_the_right_and_a_reason(team, alice, bob):
    _, step = held(team)
    with pytest.raises(NotAllowed):
        services.refuse_held(step, by=bob, reason="x")
    with pytest.raises(Invalid):
        services.refuse_held(step, by=alice, reason=" ")
    step.refresh_from_db()
    assert step.state == "on_hold"


# Isolation


def test_a_call_held_for_an_overlap_is_let_through_only_once_the_other_run_is_out_of_the_way(team, alice, touching):
    first = make_run(token=make_token(team=team), plan=ONE)
    do(first, "one")
    run = make_run(token=make_token(team=team, overlap="hold"), plan=ONE)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    with pytest.raises(Refused, match=f"Run {first.number} still has an effect on thing:one"):
        services.let_through(step, by=alice)
    services.fail_run(first, token=first.token, reason="x")
    services.compensate_run(first, actor="person:x")
    compensate.compensate(first.pk)
    services.let_through(step, by=alice)
    assert Claim.objects.get(live=True).run_id == run.pk


def test_an_overlap_that_policy_only_warns_of_is_said_in_the_log(team, touching):
    first = make_run(token=make_token(team=team), plan=ONE)
    do(first, "one")
    run = make_run(token=make_token(team=team, overlap="warn"), plan=ONE)
    assert ask(run, "put_thing", args={"name": "one"}, ref="one").step.state == "requested"
    entry = run.entries.get(event="step.requested")
    assert entry.data["warned"] == f"run {first.number} still has an effect on thing:one"
    assert entry.data["touches"] == ["thing:one"]


def test_a_call_that_ended_without_effect_frees_what_it_touched(token, touching):
    run = make_run(token=token, plan=[*ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}])
    do(run, "two")
    world.before["do one"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    do(run, "one")
    assert list(Claim.objects.filter(live=True).values_list("resource", flat=True)) == ["thing:two"]
    world.before.clear()
    assert do(make_run(token=token, plan=ONE), "one").state == "done"


def test_a_resource_stays_claimed_while_another_call_of_the_run_has_an_effect_there(token, monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: ["shelf"])
    run = make_run(token=token, plan=[*ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}])
    do(run, "one")
    world.before["do two"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    do(run, "two")
    assert Claim.objects.filter(live=True, resource="shelf", run=run).exists()


def test_what_is_undone_is_free_at_once_and_not_when_the_whole_run_has_ended(token, touching):
    run = make_run(token=token, plan=[*ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}])
    do(run, "one")
    do(run, "two")
    services.fail_run(run, token=token, reason="x")
    world.before["undo one"] = boom
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    assert list(Claim.objects.filter(live=True).values_list("resource", flat=True)) == ["thing:one"]


# Calls that may have happened


def lost(token, plan=ONE):
    """A call whose worker is gone and whose target answers no look."""
    run = make_run(token=token, plan=plan)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    claim.to_do(run.pk, step.pk)
    world.before["probe"] = boom
    Step.objects.update(lease_until=ago(seconds=1), started_at=ago(minutes=11))
    invoke.look(run.pk, step.pk)
    step.refresh_from_db()
    assert (step.state, step.error) == ("unknown", "RuntimeError: timeout")
    return run, step


def test_a_look_that_is_never_answered_is_told_with_what_is_known_and_goes_on(token, alice):
    run, step = lost(token)
    for _ in range(3):
        bounds.waits_too_long()
    page = Page.objects.get(run=run)
    assert "may or may not have happened" in page.subject
    assert "RuntimeError: timeout" in page.body
    assert "The next look is at" in page.body
    world.before.clear()
    Step.objects.update(due_at=ago(seconds=1))
    invoke.look(run.pk, step.pk)
    step.refresh_from_db()
    assert step.state == "requested"  # nothing happened, so it is done at last


def test_a_look_within_the_targets_own_delay_is_no_reason_to_call_anybody(token, monkeypatch):
    monkeypatch.setattr(PutThing, "probe_for", 900.0)
    run, _ = lost(token)
    bounds.waits_too_long()
    assert said(run) == []


def test_a_walk_back_that_waits_for_an_answer_stops_for_a_person_who_settles_it(token, alice):
    run, step = lost(token)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:x", by=alice)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensating"
    bounds.waits_too_long()
    run.refresh_from_db()
    assert run.state == "compensating"  # it has only begun
    Run.objects.update(compensating_since=ago(minutes=11))
    bounds.waits_too_long()
    run.refresh_from_db()
    assert run.state == "stuck"
    assert "what is known: RuntimeError: timeout" in run.stopped_why
    services.settle_step(step, by=alice, how="never_happened", reason="looked by hand")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensated"


def test_a_walk_back_that_waits_for_an_answer_can_be_paused(token, alice):
    run, step = lost(token)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:x", by=alice)
    compensate.compensate(run.pk)
    services.pause_run(run, by=alice)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, run.stopped_why) == ("stuck", "Paused by a person.")


def test_a_requested_call_that_no_worker_takes_is_told_to_on_call(token, alice):
    run = make_run(token=token, plan=ONE)
    ask(run, "put_thing", args={"name": "one"}, ref="one")
    Step.objects.update(requested_at=ago(minutes=11))
    for _ in range(2):
        bounds.waits_too_long()
    assert said(run) == [("alice", f"Run {run.number}: step 1 is not done yet")]
    assert "no worker took it" in Page.objects.get().body


# A target that says "later"


def age_log(**time):
    """As if all that is in the log were older."""
    import psycopg
    from django.db import connection

    for run in Run.objects.all():
        forged(run, "no log has entries that became older")
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE runs_logentry SET at = at - %s", [dt.timedelta(**time)])


def again(run, step):
    Step.objects.update(due_at=ago(seconds=1))
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()


def test_out_06_a_target_that_says_later_is_told_after_a_while_and_given_up_one_day(token, alice):
    run = make_run(token=token, plan=ONE)
    world.before["do"] = later
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    for _ in range(5):
        again(run, step)
    assert (step.state, step.tries, said(run)) == ("requested", 0, [])
    age_log(minutes=11)
    again(run, step)
    again(run, step)
    assert said(run) == [("alice", f"Run {run.number}: step 1 is put off")]
    assert "maintenance until six" in Page.objects.get().body
    age_log(hours=6)
    again(run, step)
    assert step.state == "failed"
    assert "maintenance until six; it was put off for 6 h" in step.error
    world.before.clear()
    assert do(run, "one").state == "done"


def test_out_06_a_send_that_is_put_off_for_too_long_stops_for_a_person_who_drops_it(token, alice):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        outbox.approve(item, digest=item.digest, by=alice)
    invoke.invoke(run.pk, run.steps.get(ref="tell").pk)
    world.before["do more"] = later
    also = run.steps.get(ref="also")
    again(run, also)
    age_log(hours=7)
    again(run, also)
    run.refresh_from_db()
    assert (also.state, run.state) == ("failed", "stuck")
    services.drop_send(also, by=alice, reason="told them by phone")
    run.refresh_from_db()
    assert (run.state, item_of(run, "also").state) == ("succeeded", "dropped")
    assert world.calls("do") == ["one", "news"]


# Sends that failed


@pytest.fixture
def stuck(token, alice):
    """The first of two calls can't be told to have gone out, nor looked for; the second waits."""
    run = make_released(token=token)
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        outbox.approve(item, digest=item.digest, by=alice)
    world.before["do news"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    Run.objects.filter(pk=run.pk).update(pivot_at=timezone.now())
    for _ in range(5):
        Step.objects.filter(run=run, state="queued").exclude(due_at=None).update(due_at=timezone.now())
        deliver(run)
    run.refresh_from_db()
    assert (run.state, run.steps.get(ref="tell").state) == ("stuck", "failed")
    return run


def test_a_send_that_failed_can_be_dropped_and_the_next_one_goes(stuck, alice):
    services.drop_send(stuck.steps.get(ref="tell"), by=alice, reason="no longer true")
    deliver(stuck)
    stuck.refresh_from_db()
    assert (stuck.state, stuck.steps.get(ref="tell").closed_why) == ("succeeded", "dropped")
    assert world.calls("do") == ["one", "more"]


def test_only_who_may_and_with_a_reason_drops_and_only_what_failed(stuck, alice, bob):
    step, other = stuck.steps.get(ref="tell"), stuck.steps.get(ref="also")
    with pytest.raises(NotAllowed):
        services.drop_send(step, by=bob, reason="x")
    with pytest.raises(Invalid):
        services.drop_send(step, by=alice, reason="")
    with pytest.raises(Refused, match="nothing to drop"):
        services.drop_send(other, by=alice, reason="x")
    stuck.refresh_from_db()
    assert stuck.state == "stuck"


def test_after_a_drop_nothing_goes_out_while_a_check_is_red(stuck, alice):
    stuck.checks.update(state="failure")
    services.drop_send(stuck.steps.get(ref="tell"), by=alice, reason="x")
    stuck.refresh_from_db()
    assert stuck.state == "stuck"


def test_sending_is_not_tried_again_while_nobody_knows_whether_a_call_went_out(stuck, alice):
    forged(stuck, "as if its answer had been lost")
    stuck.steps.filter(ref="tell").update(state="unknown", due_at=None)
    with pytest.raises(Refused, match="Settle that first"):
        services.retry_sending(stuck, by=alice)


# A failed step


def test_a_failed_step_can_be_given_up_and_the_run_finished_without_it(token):
    run = make_run(token=token, plan=ONE)
    world.before["do"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    do(run, "one")
    with pytest.raises(Refused):
        services.finish_run(run, token=token)
    step = services.skip_step(run, token=token, ref="one", reason="not today")
    assert (step.state, step.closed_why, step.error) == ("closed", "dropped", "not today")
    assert services.skip_step(run, token=token, ref="one", reason="not today").pk == step.pk
    assert services.finish_run(run, token=token).state == "checking"


def test_a_failed_call_without_a_ref_is_given_up_by_its_number(team):
    token = make_token(team=team, off_plan="allow")
    run = make_run(token=token, plan=[])
    world.before["do"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    step = ask(run, "put_thing", args={"name": "x"}).step
    invoke.invoke(run.pk, step.pk)
    services.skip_step(run, token=token, number=step.number, reason="not needed")
    assert services.finish_run(run, token=token).state == "checking"
    for wrong in ({}, {"ref": "a", "number": 1}):
        with pytest.raises(Invalid, match="Say which step"):
            services.skip_step(run, token=token, reason="x", **wrong)


def test_a_step_settled_as_never_happened_with_no_try_left_does_not_wedge_its_run(token, alice):
    run = make_run(token=token, plan=ONE)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    forged(run, "as if its third answer had been lost")
    Step.objects.update(state="unknown", tries=3, started_at=timezone.now(), intent_seq=2)
    services.settle_step(step, by=alice, how="never_happened", reason="looked")
    with pytest.raises(Refused, match="Skip it with a reason"):
        ask(run, "put_thing", args={"name": "one"}, ref="one")
    services.skip_step(run, token=token, ref="one", reason="x")
    assert services.finish_run(run, token=token).state == "checking"


# Runs that stand still


@pytest.mark.parametrize("moved", [{"state": "stuck"}, {"state": "failed", "failed_at": timezone.now()}])
def test_a_run_that_needs_someone_is_told_again_and_again(token, alice, moved):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    forged(run, "only its state matters")
    Run.objects.update(**moved)
    bounds.stands_still()
    assert said(run) == []
    for told in (1, 2):
        age_log(hours=5)
        bounds.stands_still()
        bounds.stands_still()
        assert Page.objects.filter(run=run, subject__contains="still").count() == told


def test_a_failed_run_with_nothing_in_effect_is_left_in_peace(token, alice):
    run = make_run(token=token, plan=ONE)
    services.fail_run(run, token=token, reason="x")
    age_log(days=2)
    bounds.stands_still()
    assert said(run) == []


def test_the_sweep_looks_for_all_that_waits_too_long(team, alice):
    run, step = held(team)
    Step.objects.update(requested_at=ago(hours=25))
    sweep.sweep()
    step.refresh_from_db()
    assert step.state == "closed"
    assert LogEntry.objects.filter(run=run, event="run.paged", step=step).exists()


def test_one_run_that_cannot_be_told_of_holds_up_no_other(token, alice, monkeypatch):
    first, second = make_run(token=token, plan=ONE), make_run(token=token, plan=ONE)
    for run in (first, second):
        do(run, "one")
        forged(run, "only its state matters")
    Run.objects.update(state="stuck")
    age_log(hours=5)
    real = bounds.page

    def wedged(run, *args, **kwargs):
        if run.pk == first.pk:
            raise RuntimeError("wedged")
        real(run, *args, **kwargs)

    monkeypatch.setattr(bounds, "page", wedged)
    bounds.stands_still()
    assert said(second) == [("alice", f"Run {second.number}: still stuck")]


def test_a_call_that_is_put_off_says_so_on_its_runs_page(client, token, alice):
    run = make_run(token=token, plan=ONE)
    world.before["do"] = later
    again(run, ask(run, "put_thing", args={"name": "one"}, ref="one").step)
    client.force_login(alice)
    assert "maintenance until six; tried again" in client.get(f"/runs/{run.pk}/").content.decode()


def test_two_sweeps_at_once_tell_a_person_once(team, bob, monkeypatch):
    run, _ = held(team)
    Run.objects.update(owner=bob)
    Step.objects.update(requested_at=ago(minutes=11))
    meet_after(monkeypatch, bounds, "partial")  # both have found it
    assert run_together(bounds.waits_too_long, bounds.waits_too_long) == [None, None]
    assert len(said(run)) == 1
