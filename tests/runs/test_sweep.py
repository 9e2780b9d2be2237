"""What the sweep finds although no message carries it, and what it leaves alone."""

import datetime as dt

import pytest
from django.core import mail
from django.utils import timezone

from runs import bell, freezing, services
from runs.engine import claim, deliver, invoke, sweep
from runs.locking import locked_run
from runs.models import Page, Run, Step
from runs.paging import page
from runs.states import RunState, StepState
from tests.checker import forged
from tests.factories import PLAN, ask, do, make_run, make_token
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rung(monkeypatch):
    """What the sweep told workers to look at."""
    found = []
    monkeypatch.setattr(bell, "_send", lambda task, ids: found.append((task.rpartition(".")[2], *ids)))
    return found


def long_ago(**of_run):
    then = timezone.now() - dt.timedelta(hours=1)
    Run.objects.update(last_heard_at=then, opened_at=then)
    Step.objects.exclude(requested_at=None).update(requested_at=then)
    Step.objects.exclude(ended_at=None).update(ended_at=then)


def test_what_the_sweep_measures_from_is_stamped_by_the_database():
    """The clock of a web server that is behind would make an agent silent, or put off a page."""
    stamps = [Run._meta.get_field("opened_at"), Run._meta.get_field("last_heard_at"), Page._meta.get_field("due_at")]
    assert [stamp.name for stamp in stamps if stamp.has_default() or not stamp.has_db_default()] == []
    stamped = make_run(token=make_token()).opened_at
    assert isinstance(stamped, dt.datetime)


def test_a_silent_agents_run_fails(token):
    run = make_run(token=token)
    do(run, "one")
    sweep.sweep()
    assert Run.objects.get().state == RunState.OPEN
    long_ago()
    sweep.sweep()
    run.refresh_from_db()
    assert (run.state, run.failed_why) == (RunState.FAILED, "The agent was silent for more than 300 s.")
    assert Page.objects.filter(run=run).count() == 1


def test_a_heartbeat_and_a_read_count_as_heard_of(token):
    run = make_run(token=token)
    long_ago()
    services.heartbeat(run)
    sweep.sweep()
    assert Run.objects.get().state == RunState.OPEN


@pytest.mark.parametrize("state", [StepState.REQUESTED, StepState.ON_HOLD, StepState.UNKNOWN])
def test_the_clock_of_silence_stands_while_a_step_is_awaited(token, rung, state):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    forged(run, "only its state matters")
    Step.objects.filter(pk=step.pk).update(state=state)
    long_ago()
    sweep.silent_runs()
    assert Run.objects.get().state == RunState.OPEN


def test_the_clock_stands_while_a_gate_waits_for_a_person(token, rung):
    gate = {"ref": "gate", "capability": "tell_client", "args": {"name": "n", "value": "v"}, "needs_result": True}
    run = make_run(token=token, plan=[*PLAN[:1], gate])
    ask(run, "tell_client", args=gate["args"], ref="gate")
    long_ago()
    sweep.silent_runs()
    assert Run.objects.get().state == RunState.OPEN


def test_a_requested_step_without_its_message_is_rung_again(token, rung):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    rung.clear()
    sweep.steps_due()
    assert rung == []  # some worker's in a moment
    long_ago()
    sweep.steps_due()
    assert rung == [("invoke_step", run.pk, step.pk)]


def test_a_lost_worker_is_looked_for_after_its_lease_and_not_before(token, rung):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    claim.to_do(run.pk, step.pk)
    rung.clear()
    sweep.steps_due()
    assert rung == []
    Step.objects.update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    sweep.steps_due()
    assert rung == [("look_for_step", run.pk, step.pk)]


def test_a_look_whose_worker_is_lost_too_is_repeated(token, rung):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    claim.to_do(run.pk, step.pk)
    for _ in range(2):
        Step.objects.update(lease_until=timezone.now() - dt.timedelta(seconds=1))
        rung.clear()
        sweep.sweep()
        assert ("look_for_step", run.pk, step.pk) in rung
        assert claim.to_look(run.pk, step.pk) is not None  # and its worker dies
    assert Step.objects.get(pk=step.pk).state == StepState.UNKNOWN


def test_a_compensation_that_stands_still_is_rung_again(token, rung):
    run = make_run(token=token)
    do(run, "one")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    rung.clear()
    sweep.walks_due()
    assert rung == [("compensate_run", run.pk)]


def test_a_red_check_may_turn_green_within_its_grace(team):
    token = make_token(team=team, check_grace=60)
    checker = make_token(scope="checker", team=team)
    run = make_run(token=token)
    services.report_check(run, token=checker, name="ci", state="failure")
    sweep.sweep()
    assert Run.objects.get().state == RunState.OPEN
    run.checks.update(reported_at=timezone.now() - dt.timedelta(minutes=2))
    sweep.sweep()
    assert Run.objects.get().state == RunState.FAILED


def test_a_run_whose_checks_never_come_fails_at_the_deadline(token):
    run = make_run(token=token, plan=PLAN[:1])
    do(run, "one")
    services.finish_run(run, token=token)
    Run.objects.update(checking_since=timezone.now() - dt.timedelta(hours=3))
    sweep.sweep()
    assert Run.objects.get().failed_why == "Its checks were not all green by the deadline."


def test_one_wedged_run_holds_up_no_other(token, monkeypatch):
    first, second = make_run(token=token), make_run(token=token)
    long_ago()
    real = sweep._fail_if_silent

    def wedged(run):
        if run.pk == first.pk:
            raise RuntimeError("wedged")
        real(run)

    monkeypatch.setattr(sweep, "_fail_if_silent", wedged)
    sweep.sweep()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (RunState.OPEN, RunState.FAILED)


def test_a_page_is_delivered_once_and_tried_again_until_it_is(token, alice, monkeypatch):
    run = make_run(token=token)
    with locked_run(run.pk) as locked:
        page(locked, "stuck", "look at it", people=[alice])
    from django.core.mail import EmailMessage

    real = EmailMessage.send
    monkeypatch.setattr(EmailMessage, "send", lambda self: (_ for _ in ()).throw(OSError("no mail server")))
    deliver.pages_due()
    assert "no mail server" in Page.objects.get().error
    monkeypatch.setattr(EmailMessage, "send", real)
    deliver.pages_due()
    assert mail.outbox == []  # not before its time
    Page.objects.update(due_at=timezone.now())
    deliver.pages_due()
    deliver.pages_due()
    assert [message.subject for message in mail.outbox] == [f"Run {run.number}: stuck"]
    assert Page.objects.get().delivered_at


def test_frozen_nothing_is_called_undone_or_failed_and_thawed_it_goes_on(token):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    freezing.freeze(by="Alice", why="restored")
    long_ago()
    invoke.invoke(run.pk, step.pk)
    sweep.sweep()
    assert world.ledger == []
    assert Run.objects.get().state == RunState.OPEN
    freezing.thaw(by="Alice")
    invoke.invoke(run.pk, step.pk)
    assert world.calls("do") == ["one"]


def test_another_databases_history_freezes_by_itself(token):
    from runs.models import System

    assert not freezing.freeze_if_restored()
    System.objects.update(identifier="another cluster")
    assert freezing.freeze_if_restored()
    assert freezing.is_frozen()
