"""Workers that come back after their lease, people who decide meanwhile, and code that changed: nothing is lost or overwritten."""

import datetime as dt
import time

import pytest
from django.utils import timezone

from corrections.models import Correction
from outbox import services as outbox
from runs import services
from runs.capability import Args, Place
from runs.engine import claim, compensate, invoke, record
from runs.exceptions import NoEffect, NotSettleable, Refused
from runs.models import Page, Step
from tests.factories import ask, do, make_run, make_token
from tests.outbox.scenes import GATE, item_of, make_waiting
from tests.tools import BlindThing, PutThing, ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = [{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}]
TWO = [*ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}]
SHOW = [{"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]


def boom(*args):
    raise RuntimeError("timeout")


def lose(step, *, ago=60):
    """The worker's lease is over, and its call began long ago."""
    then = timezone.now() - dt.timedelta(seconds=ago)
    Step.objects.filter(pk=step.pk).update(lease_until=timezone.now() - dt.timedelta(seconds=1), started_at=then)


def claimed(run, ref):
    step = ask(run, "put_thing", args={"name": ref}, ref=ref).step
    return step, claim.to_do(run.pk, step.pk)


def comes_back(attempt):
    """The worker makes its call after all, late, and says what it left."""
    record.done(attempt, attempt.capability.do(attempt.call))


def test_a_late_effect_in_a_failed_run_follows_its_policy(team):
    run = make_run(token=make_token(team=team, on_failure="compensate"), plan=ONE, on_failure="compensate")
    step, attempt = claimed(run, "one")
    Step.objects.filter(pk=step.pk).update(tries=3)
    lose(step)
    invoke.look(run.pk, step.pk)
    comes_back(attempt)
    run.refresh_from_db()
    assert (run.steps.get().state, run.state) == ("done", "compensating")


def test_a_late_effect_pages_where_on_call_is_asked(token):
    run = make_run(token=token, plan=ONE)
    step, attempt = claimed(run, "one")
    services.fail_run(run, token=token, reason="x")
    lose(step)
    invoke.look(run.pk, step.pk)
    Page.objects.all().delete()
    comes_back(attempt)
    assert Page.objects.filter(run=run, subject__contains="took effect late").exists()


def test_a_late_effect_never_starts_a_stuck_walk_again(token, alice):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    two, attempt = claimed(run, "two")
    services.fail_run(run, token=token, reason="x")
    lose(two)
    invoke.look(run.pk, two.pk)
    world.before["undo"] = boom
    services.compensate_run(run, actor="person:Alice", by=alice)
    compensate.compensate(run.pk)
    comes_back(attempt)
    run.refresh_from_db()
    assert run.state == "stuck"


def test_what_a_person_left_standing_stays_when_its_effect_is_known_at_last(token, alice):
    run = make_waiting(token=token, plan=GATE)
    gate = item_of(run, "gate")
    outbox.approve(gate, digest=gate.digest, by=alice)
    step = run.steps.get(ref="gate")
    world.before["probe gate"] = boom
    attempt = claim.to_do(run.pk, step.pk)
    lose(step)
    invoke.look(run.pk, step.pk)
    services.fail_run(run, token=token, reason="x")
    services.leave_standing(run, by=alice, reason="stays")
    record.done(attempt, {"id": 1})
    step.refresh_from_db()
    run.refresh_from_db()
    assert (step.state, step.effect, run.state) == ("left_standing", {"id": 1}, "left_standing")
    assert run.entries.filter(event="step.late_effect").exists()


def test_nobody_leaves_standing_what_a_worker_looks_at(token, alice):
    run = make_run(token=token, plan=ONE)
    step, _ = claimed(run, "one")
    services.fail_run(run, token=token, reason="x")
    lose(step)
    claim.to_look(run.pk, step.pk)
    with pytest.raises(Refused, match="being dealt with"):
        services.leave_standing(run, by=alice, reason="stays")


def test_nobody_settles_in_the_middle_of_a_walk(token, alice):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    world.before["undo"] = boom
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice", by=alice)
    compensate.compensate(run.pk)
    world.before.clear()
    services.compensate_run(run, actor="person:Alice", by=alice)
    with pytest.raises(NotSettleable, match="Pause it first"):
        services.settle_step(run.steps.get(), by=alice, how="left_standing", reason="x")


def test_an_undo_begins_only_while_its_walk_holds_the_lease(token, monkeypatch, settings):
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    settings.LEASE_MARGIN = settings.CALL_TIMEOUT_AT_MOST = settings.PATIENCE_AT_MOST = 0.2
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    real, slept = compensate.reach, []

    def reach(point, *args, **more):
        if point == "undo.before" and not slept:
            slept.append(point)
            time.sleep(1.2)  # the machine stood still; meanwhile another walk, and then somebody else
            compensate.compensate(run.pk)
            world.things["one"] = {"value": "somebody else's", "key": "theirs"}
        return real(point, *args, **more)

    monkeypatch.setattr(compensate, "reach", reach)
    compensate.compensate(run.pk)
    assert world.calls("undo") == ["one"]
    assert world.things["one"]["key"] == "theirs"


def test_arguments_that_no_longer_fit_stop_the_walk_in_front_of_a_person(token, monkeypatch):
    class Stricter(Args):
        name: str
        owner: str

    run = make_run(token=token, plan=ONE)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    monkeypatch.setattr(PutThing, "Args", Stricter)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, run.steps.get().state) == ("stuck", "undo_failed")


def test_arguments_that_no_longer_fit_are_not_called_with(token, monkeypatch):
    class Stricter(Args):
        name: str
        owner: str

    run = make_run(token=token, plan=ONE)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    monkeypatch.setattr(PutThing, "Args", Stricter)
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()
    assert (step.state, step.closed_why) == ("closed", "dropped")


def test_a_targets_own_field_of_our_marks_name_does_no_harm(token, monkeypatch):
    real = PutThing.do
    monkeypatch.setattr(PutThing, "do", lambda self, call: {**real(self, call), "$marked": [["nope"]]})
    run = make_run(token=token, plan=ONE)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensated"


def test_an_overlong_place_does_not_undo_the_record_of_an_undo(token, monkeypatch):
    monkeypatch.setattr(ShowThing, "place", lambda self, call: Place(key="k" * 500, label="l" * 500, kind="x" * 90))
    run = make_run(token=token, plan=SHOW)
    do(run, "show")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, Correction.objects.count()) == ("compensated", 1)


def test_a_call_that_cannot_be_looked_for_is_never_called_failed_on_a_guess(token, monkeypatch):
    monkeypatch.setattr(BlindThing, "honours_key", True)
    run = make_run(token=token, plan=[{"ref": "b", "capability": "blind_thing", "args": {"name": "b"}}])
    world.after["do"] = boom
    do(run, "b")
    services.fail_run(run, token=token, reason="x")
    invoke.look(run.pk, run.steps.get().pk)
    assert run.steps.get().state == "unknown"
    assert Page.objects.filter(run=run, subject__contains="may or may not").exists()


@pytest.mark.parametrize("how", ["undone_by_hand", "left_standing"])
def test_people_who_may_have_seen_it_are_told_also_after_a_settlement(token, alice, how):
    run = make_run(token=token, plan=SHOW)
    world.after["do"] = world.before["probe"] = boom
    do(run, "show")
    invoke.look(run.pk, run.steps.get().pk)
    services.settle_step(run.steps.get(), by=alice, how=how, reason="I looked")
    assert Correction.objects.filter(run=run).count() == 1


def test_a_look_is_not_conclusive_before_the_call_could_have_come_through(token, monkeypatch):
    """The lease lets `do` begin as late as its margin allows; the target's own delay counts from there."""
    monkeypatch.setattr(PutThing, "probe_for", 0.5)
    run = make_run(token=token, plan=ONE)
    step, attempt = claimed(run, "one")
    record.prepared(attempt, {"was": None})
    record.unknown(attempt, RuntimeError("timeout"))
    Step.objects.update(started_at=timezone.now() - dt.timedelta(seconds=3))  # timeout 2, and a little
    invoke.look(run.pk, step.pk)
    step.refresh_from_db()
    assert step.state == "unknown"
    assert step.due_at > timezone.now()


def test_a_failed_run_with_nothing_left_holds_up_nobody(token, monkeypatch):
    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])
    run = make_run(token=token, plan=ONE)
    world.before["do"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    world.before.clear()
    assert do(make_run(token=token, plan=ONE, retry_of=run.pk), "one").state == "done"


class Killed(BaseException):
    pass


@pytest.mark.parametrize(("at", "then"), [("prepare", "requested"), ("do", "unknown")])
def test_what_was_lost_before_its_call_is_no_riddle_even_where_nothing_can_look(token, at, then):
    """What `prepare` found is committed before the call, so the log knows which of the two it was."""
    run = make_run(token=token, plan=[{"ref": "b", "capability": "blind_thing", "args": {"name": "b"}}])

    def die(*args):
        raise Killed

    world.before[at] = die
    with pytest.raises(Killed):
        do(run, "b")
    world.before.clear()
    step = run.steps.get()
    late = claim._attempt(run, step, BlindThing(), 60.0, None)
    lose(step)
    invoke.look(run.pk, step.pk)
    assert run.steps.get().state == then
    # Whoever was only slow, and not dead, may not go on to the call.
    assert not record.prepared(late, {"was": None})
    invoke.invoke(run.pk, step.pk)
    assert [what for what, _, _ in world.ledger].count("do") == (then == "requested")


def test_a_call_that_is_asked_again_with_the_same_key_says_so_in_the_log(token, monkeypatch):
    monkeypatch.setattr(BlindThing, "honours_key", True)
    run = make_run(token=token, plan=[{"ref": "b", "capability": "blind_thing", "args": {"name": "b"}}])
    world.after["do"] = boom
    do(run, "b")
    invoke.look(run.pk, run.steps.get().pk)
    assert run.steps.get().state == "requested"
    # What the checker wants of every change of state: its entry, in the same transaction.
    assert run.entries.order_by("-seq").first().data["why"] == "nothing can look; it is asked again"
