"""Sending: many senders and doubled messages, items that always fail, and what a crash left behind."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from django.utils import timezone

from corrections import delivery
from corrections.models import Correction
from outbox.models import Item
from runs import registry, services, tasks
from runs.engine import claim, compensate, deliver, record, sweep, walk
from runs.exceptions import NoEffect, TryLater
from runs.locking import locked_run
from runs.models import LogEntry, Page, Run, Step, TargetPause
from runs.paging import page
from tests.checker import forged
from tests.factories import ask, do, make_run, make_token
from tests.faults.broker import Broker
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"ref": "one", "capability": "put_thing", "args": {"name": "one"}}
SHOW = {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}
TELL = {"ref": "tell", "capability": "tell_client", "args": {"name": "news"}}


@pytest.fixture
def broker(monkeypatch):
    return Broker(monkeypatch)


def released(token: Any, *refs: str, **args: Any) -> Run:
    """A green run whose sends are due: the team's own messages, which need no yes."""
    run = make_run(token=token, plan=[{"ref": ref, "capability": "tell_team", "args": {"name": ref, **args}} for ref in refs])
    for ref in refs:
        ask(run, "tell_team", args={"name": ref, **args}, ref=ref)
    services.finish_run(run, token=token)
    services.report_check(run, token=token.checker, name="ci", state="success")
    return run


@pytest.fixture
def sender(team):
    token = make_token(team=team, waiting_items=10_000)
    token.checker = make_token(scope="checker", team=team)
    return token


# OUT-01

RUNS, EACH, SENDERS, COPIES = 30, 10, 8, 3


def test_out_01_eight_senders_and_tripled_messages_send_each_item_once(sender, broker):
    for number in range(RUNS):
        released(sender, *(f"{number}-{i}" for i in range(EACH)))
    assert Item.objects.filter(state="approved").count() == RUNS * EACH
    steps = list(Step.objects.values_list("run", "pk"))
    broker.waiting.clear()
    broker.waiting.extend([("runs.tasks.invoke_step", ids) for ids in steps] * (COPIES - 1))
    random.Random(1).shuffle(broker.waiting)
    # What goes next in a run is rung by the one before it, so its copies stand side by side.
    broker.copies = COPIES
    broker.waiting.extend(("runs.tasks.invoke_step", ids) for ids in steps[::EACH] for _ in range(COPIES))
    broker.deliver(workers=SENDERS)
    assert broker.raised == []
    sent = [(name, key) for what, name, key in world.ledger if what == "do"]
    assert len(sent) == len(set(sent)) == len({key for _, key in sent}) == RUNS * EACH
    assert set(Item.objects.values_list("state", flat=True)) == {"sent"}
    assert LogEntry.objects.filter(event="step.sent").count() == RUNS * EACH


# OUT-04

BAD, GOOD = 3, 8


def test_out_04_what_always_fails_stops_and_holds_up_nobody(sender, broker, alice):
    world.before["do"] = lambda call: refuse() if call.args.name.startswith("bad") else None
    for number in range(BAD):
        released(sender, f"first-{number}", f"bad-{number}", f"after-{number}")
    for number in range(GOOD):
        released(sender, f"good-{number}")
    rounds = 0
    while broker.waiting and rounds < 20:
        broker.deliver()
        if rounds == 0:
            # Behind all that fail, and done before any of it is tried again.
            assert [name for name in world.calls("do") if name.startswith("good")] == [f"good-{number}" for number in range(GOOD)]
        Step.objects.filter(due_at__gt=timezone.now()).update(due_at=timezone.now())
        sweep.steps_due()
        rounds += 1
    assert not broker.waiting, "something is tried for ever"
    stuck = Run.objects.filter(steps__ref__startswith="bad").distinct()
    assert {run.state for run in stuck} == {"stuck"}
    bad = Step.objects.filter(ref__startswith="bad")
    assert {(step.state, step.tries, step.error) for step in bad} == {("failed", 3, "the target refuses it")}
    assert Page.objects.filter(run__in=stuck).count() == BAD
    after = Item.objects.filter(step__ref__startswith="after")
    assert {item.state for item in after} == {"approved"}
    # A person may try again; what waited behind goes then, in its turn.
    world.before.clear()
    for run in stuck:
        services.retry_sending(run, by=alice)
    broker.deliver()
    assert {run.state for run in Run.objects.all()} == {"succeeded"}
    assert world.calls("do").count("after-0") == 1


def refuse() -> None:
    raise NoEffect("the target refuses it")


# OUT-05


def let_time_pass() -> None:
    """All leases are over, and whatever waits for its time is due."""
    then = timezone.now() - dt.timedelta(minutes=5)
    Step.objects.exclude(lease_until=None).update(lease_until=then)
    Step.objects.exclude(started_at=None).update(started_at=then)
    Step.objects.exclude(requested_at=None).update(requested_at=then)
    Step.objects.exclude(due_at=None).update(due_at=then)
    Run.objects.exclude(lease_until=None).update(lease_until=then)
    Run.objects.exclude(compensating_since=None).update(compensating_since=then)
    Page.objects.update(due_at=then)
    Correction.objects.exclude(lease_until=None).update(lease_until=then)
    Correction.objects.update(drafted_at=then)
    Item.objects.filter(state="awaiting").update(expires_at=then)


class Crash:
    """Leaves a run as a crash would leave it, in one state after the other; what a worker should have is in nobody's hands."""

    def __init__(self, token: Any, person: Any) -> None:
        self.token, self.person = token, person

    def _asked(self) -> tuple[Run, Step]:
        run = make_run(token=self.token, plan=[ONE])
        return run, ask(run, "put_thing", args=ONE["args"], ref="one").step

    def requested(self) -> str:
        self._asked()
        return "step"

    def running(self) -> str:
        run, step = self._asked()
        claim.to_do(run.pk, step.pk)
        return "step"

    def unknown(self) -> str:
        run, step = self._asked()
        record.unknown(claim.to_do(run.pk, step.pk), RuntimeError("cut off"))
        return "step"

    def approved(self) -> str:
        released(self.token, "news")
        return "step"

    def sending(self) -> str:
        run = released(self.token, "news")
        claim.to_do(run.pk, run.steps.get().pk)
        return "step"

    def compensating(self) -> str:
        run = make_run(token=self.token, plan=[SHOW])
        do(run, "show")
        services.fail_run(run, token=self.token, reason="x")
        services.compensate_run(run, actor="person:Pat", by=self.person)
        return "walk"

    def undoing(self) -> str:
        name = self.compensating()
        run = Run.objects.get()
        held = walk.claim(run.pk)
        walk.undo_started(held, run.steps.get(), registry.find("show_thing"))
        return name

    def correction_sending(self) -> str:
        self.compensating()
        compensate.compensate(Run.objects.get().pk)
        drafted = Correction.objects.get()
        forged(drafted.run, "as if somebody had pressed Send")
        Correction.objects.update(state="sending", sent_by="Alice", text="It was premature.")
        delivery._claim(drafted.run_id, drafted.pk)
        return "correction"

    def page(self) -> str:
        run = make_run(token=self.token, plan=[ONE])
        with locked_run(run.pk) as locked:
            page(locked, "stuck", "look", people=[self.person])
        deliver._take(Page.objects.get().pk)
        Page.objects.update(lease_until=timezone.now() - dt.timedelta(minutes=5))
        return "page"

    def awaiting(self) -> str:
        run = make_run(token=self.token, plan=[TELL])
        ask(run, "tell_client", args=TELL["args"], ref="tell")
        services.finish_run(run, token=self.token)
        services.report_check(run, token=self.token.checker, name="ci", state="success")
        return "expiry"


STATES = [name for name in vars(Crash) if not name.startswith("_")]


@pytest.mark.parametrize("state", STATES)
def test_out_05_what_a_crash_left_is_late_and_moves_on(sender, broker, alice, client, state):
    left = getattr(Crash(sender, alice), state)()
    broker.waiting.clear()
    assert client.get("/workz").status_code == 200
    let_time_pass()
    late = client.get("/workz")
    assert (late.status_code, left in late.json()) == (503, True)
    assert f'sagaboard_late{{what="{left}"}} 1' in client.get("/metrics").content.decode()
    for _ in range(6):
        tasks.sweep()
        broker.deliver()
        Step.objects.exclude(due_at=None).update(due_at=timezone.now())
    assert broker.raised == []
    assert client.get("/workz").status_code == 200
    # Over, or in front of a person.
    assert set(Step.objects.values_list("state", flat=True)) <= {"done", "sent", "undone", "queued", "planned"}
    assert set(Item.objects.values_list("state", flat=True)) <= {"sent", "expired"}
    assert not Run.objects.filter(state="compensating").exists()
    assert not Correction.objects.filter(state="sending").exists()
    assert not Page.objects.undelivered().exists()


# OUT-06


def test_out_06_a_target_that_says_slow_down_is_left_alone_and_slows_no_other(sender, broker, settings, client, alice):
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, "slow": {"system": "x"}, "fast": {"system": "x"}}
    tried: list[str] = []
    busy = True

    def answer(call: Any) -> None:
        if call.args.value == "slow":
            tried.append(call.args.name)
            if busy:
                raise TryLater("429, too many requests", 30.0)

    world.before["do"] = answer
    names = [f"{target}-{number}" for number in range(5) for target in ("slow", "fast")]
    for name in names:
        released(sender, name, value=name.partition("-")[0])
    for _ in range(3):  # the sweep looks again and again; that changes nothing
        broker.deliver()
        tasks.sweep()
    assert tried == ["slow-0"]
    assert world.calls("do") == [name for name in names if name.startswith("fast")]
    waiting = Step.objects.filter(ref__startswith="slow")
    until = TargetPause.objects.get().until
    assert {(step.state, step.tries, step.due_at) for step in waiting} == {("queued", 0, until)}
    client.force_login(alice)
    for step in waiting[:2]:
        assert f"until {until:%H:%M:%S} UTC" in client.get(step.item.get_absolute_url()).content.decode()
    busy = False
    past = timezone.now() - dt.timedelta(seconds=1)
    TargetPause.objects.update(until=past)
    waiting.update(due_at=past)
    tasks.sweep()
    broker.deliver()
    assert sorted(world.calls("do")) == sorted(names)
    assert {run.state for run in Run.objects.all()} == {"succeeded"}
