"""Many at one run: locks are short and taken in one order, and an agent that begins anew repeats nothing."""

from __future__ import annotations

import contextlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test import Client

from outbox import services as outbox
from outbox.exceptions import NotDecidable
from outbox.models import Item
from outbox.receivers import expire_items
from runs import log, services
from runs.engine import claim, invoke, record
from runs.engine.attempt import bounded
from runs.exceptions import NoEffect, Refused
from runs.models import LogEntry, Run, Step
from tests.checker import forged
from tests.factories import ask, make_run, make_token, make_user
from tests.faults.broker import Broker
from tests.outbox.scenes import item_of, make_released, make_waiting
from tests.runs.api.agent import Agent, work
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"ref": "one", "capability": "put_thing", "args": {"name": "one"}}
TWO = {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}
LOOKED = {"ref": "look", "capability": "read_thing", "args": {"name": "one"}}
GATE = {"ref": "gate", "capability": "tell_client", "args": {"name": "gate"}, "needs_result": True}


# ENG-10 (its half that needs no process: the second owner is still at it when the first comes back)


def test_eng_10_a_stale_attempt_writes_nothing_over_the_new_owner(token):
    run = make_run(token=token, plan=[ONE])
    step = ask(run, "put_thing", args=ONE["args"], ref="one").step
    stale = claim.to_do(run.pk, step.pk)
    Step.objects.update(lease_until="2020-01-01T00:00:00Z", started_at="2020-01-01T00:00:00Z")
    invoke.look(run.pk, step.pk)  # nothing is there: another may do it
    owner = claim.to_do(run.pk, step.pk)
    assert owner.number > stale.number
    before = Step.objects.values().get(pk=step.pk)
    forged(run, "an effect that is said and is nowhere")
    late = {"name": "one", "value": "late"}
    assert not record.prepared(stale, {"was": "late"})
    record.unknown(stale, RuntimeError("late"))
    record.failed(stale, NoEffect("late"))
    record.done(stale, late)
    assert Step.objects.values().get(pk=step.pk) == before
    assert run.entries.get(event="step.late_effect").data["effect"] == late
    record.done(owner, {"name": "one", "value": "on"})
    step.refresh_from_db()
    assert (step.state, step.effect["value"]) == ("done", "on")
    assert run.entries.filter(event="step.done").count() == 1


# ENG-19


def test_eng_19_no_call_begins_inside_a_transaction(token):
    run = make_run(token=token, plan=[ONE])
    step = ask(run, "put_thing", args=ONE["args"], ref="one").step
    attempt = claim.to_do(run.pk, step.pk)
    with transaction.atomic(), pytest.raises(AssertionError, match="inside a transaction"):
        bounded(attempt.capability.do, attempt.call)
    assert world.calls("do") == []


def test_eng_19_while_a_call_hangs_everybody_else_goes_on(team, alice):
    """Nobody waits for the call: all of it is done before the call is let go."""
    run = make_run(token=make_token(team=team), plan=[ONE, TWO])
    other = make_released(token=make_token(team=team))
    first = item_of(other, "tell")
    step = ask(run, "put_thing", args=ONE["args"], ref="one").step
    hangs, let_go, in_transaction = threading.Event(), threading.Event(), []

    def hang(call: Any) -> None:
        in_transaction.append(connection.in_atomic_block)
        hangs.set()
        let_go.wait(60)

    world.before["do one"] = hang
    with ThreadPoolExecutor(9) as pool:
        busy = pool.submit(own_connection, lambda: invoke.invoke(run.pk, step.pk))
        try:
            assert hangs.wait(30)
            pages = [pool.submit(own_connection, lambda: see(alice, f"/runs/{run.number}/")) for _ in range(4)]
            beats = [pool.submit(own_connection, lambda: services.heartbeat(Run.objects.get(pk=run.pk))) for _ in range(3)]
            yes = pool.submit(own_connection, lambda: outbox.approve(first, digest=first.digest, by=alice))
            asked = pool.submit(own_connection, lambda: ask(run, "put_thing", args=TWO["args"], ref="two").step.state)
            assert [page.result(30) for page in pages] == [200] * 4
            assert (asked.result(30), yes.result(30), [beat.result(30) for beat in beats]) == ("requested", None, [None] * 3)
            assert idle_in_transaction() == 0
            assert not busy.done()
        finally:
            let_go.set()
        busy.result(30)
    assert in_transaction == [False]
    assert Step.objects.get(pk=step.pk).state == "done"


def own_connection(call: Any) -> Any:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        return call()
    finally:
        connection.close()


def see(person: Any, path: str) -> int:
    client = Client()
    client.force_login(person)
    return client.get(path).status_code


def idle_in_transaction() -> int:
    with psycopg.connect(connection.owner_url) as other:
        state = "state = 'idle in transaction' AND datname = current_database() AND xact_start < now() - interval '1 second'"
        return other.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {state}").fetchone()[0]


def test_eng_19_who_waits_for_a_frozen_process_is_told_to_come_again(token):
    """Its transaction holds the run's row and never ends; ours gives up, has done nothing, and says so."""
    run = make_run(token=token, plan=[ONE])
    with connection.cursor() as cursor:
        shown = {}
        for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SHOW {name}")
            shown[name] = cursor.fetchone()[0]
    assert shown == {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s"}
    agent = Agent(token)
    with psycopg.connect(connection.owner_url) as frozen:
        frozen.execute("SELECT 1 FROM runs_run WHERE id = %s FOR UPDATE", [run.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        answer = agent.post(f"/runs/{run.number}/steps", ONE)
    assert (answer.status_code, answer.data["type"], answer["Retry-After"]) == (503, "/problems/busy", "2")
    assert Step.objects.get(run=run).state == "planned"
    assert agent.post(f"/runs/{run.number}/steps", ONE).status_code == 202


# ENG-20


def test_eng_20_an_agent_that_begins_anew_repeats_nothing(token, alice):
    """Its program sends its whole sequence again, before and after the gate was approved."""
    agent, calls = Agent(token), [ONE, TWO, LOOKED, GATE]
    number = agent.post("/runs", {"title": "x", "plan": calls}).data["run"]

    def sequence(*, with_refs: bool) -> list[Any]:
        answers = []
        for call in calls:
            body = call if with_refs else {name: value for name, value in call.items() if name != "ref"}
            answers.append(agent.post(f"/runs/{number}/steps", {name: value for name, value in body.items() if name != "needs_result"}))
            work(number)
        return answers

    assert [answer.data["state"] for answer in sequence(with_refs=True)] == ["requested", "requested", "requested", "queued"]
    reached = list(world.ledger)
    for with_refs in (True, False):
        again = sequence(with_refs=with_refs)
        assert {answer.status_code for answer in again} <= {200, 202}, "refused, and not given what it left"
        assert [answer.data["state"] for answer in again] == ["done", "done", "nothing_to_undo", "queued"]
        assert again[0].data["effect"] == {"name": "one", "value": "on"}
    state = {step["ref"]: step["state"] for step in agent.get(f"/runs/{number}").data["steps"]}
    assert state == {"one": "done", "two": "done", "look": "nothing_to_undo", "gate": "queued"}
    assert world.ledger == reached
    item = Item.objects.get(step__run=number)
    outbox.approve(item, digest=item.digest, by=alice)
    for _ in range(2):
        sequence(with_refs=False)
    assert [call for call in world.ledger[len(reached) :] if call[0] == "do"] == [("do", "gate", item.step.call_key)]
    assert agent.get(f"/runs/{number}/steps/4").data["state"] == "sent"
    assert LogEntry.objects.filter(run=number, event="step.requested").count() == 4


# ENG-21

THREADS, ACTIONS, ITEMS = 30, 4, 20


def test_eng_21_thirty_at_one_run_end_as_if_one_after_the_other(team, monkeypatch):
    broker = Broker(monkeypatch)
    plan = [ONE, *({"ref": f"n{i}", "capability": "tell_client", "args": {"name": f"n{i}"}} for i in range(ITEMS))]
    run = make_waiting(token=make_token(team=team), plan=plan)
    services.finish_run(run, token=run.token)
    services.report_check(run, token=make_token(scope="checker", team=team), name="ci", state="success")
    people = [make_user(f"r{i}", roles=("reviewer", "on-call"), team=team) for i in range(4)]
    items = list(Item.objects.filter(step__run=run))
    dice = random.Random(21)

    def approve() -> None:
        item = dice.choice(items)
        outbox.approve(item, digest=item.digest, by=dice.choice(people))

    def bulk() -> None:
        for item in dice.sample(items, 5):
            with contextlib.suppress(NotDecidable):
                outbox.approve(item, digest=item.digest, by=dice.choice(people))

    actions = [
        approve,
        bulk,
        lambda: services.heartbeat(Run.objects.get(pk=run.pk)),
        lambda: services.finish_run(run, token=run.token),
        lambda: expire_items(None),
        lambda: services.compensate_run(run, actor="person:Pat", by=people[0]),
        lambda: broker.work(),
    ]
    wrong: list[BaseException] = []

    def somebody(number: int) -> None:
        try:
            for action in dice.sample(actions, ACTIONS):
                try:
                    action()
                except (Refused, NotDecidable):
                    pass
                except Exception as exc:
                    wrong.append(exc)
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(somebody, range(THREADS)))
    assert [*wrong, *broker.raised] == []
    bulk_of_the_rest(items, people)
    broker.deliver()
    run.refresh_from_db()
    assert run.state == "succeeded"
    sent = [name for name in world.calls("do") if name != "one"]
    assert sent == [f"n{i}" for i in range(ITEMS)]
    entries = list(run.entries.order_by("seq"))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sum(entry.event == "item.decided" for entry in entries) == ITEMS
    assert log.verify(run).whole


def bulk_of_the_rest(items: list[Item], people: list[Any]) -> None:
    for item in items:
        with contextlib.suppress(NotDecidable):
            outbox.approve(item, digest=item.digest, by=people[0])


def test_eng_21_a_deadlock_that_happens_all_the_same_is_made_good_whole(token, monkeypatch):
    """PostgreSQL ends one of two that wait for each other; its request is made once more, and nobody sees an error."""
    run = make_run(token=token, plan=[ONE])
    agent, once = Agent(token), []
    from runs.services import asking

    real = asking._check_limits

    def deadlock(*args: Any) -> None:
        if not once:
            once.append(True)
            with connection.cursor() as cursor:
                cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'two wait for each other' USING ERRCODE = 'deadlock_detected'; END $$")
        real(*args)

    monkeypatch.setattr(asking, "_check_limits", deadlock)
    answer = agent.post(f"/runs/{run.number}/steps", ONE)
    assert (answer.status_code, answer.data["state"], once) == (202, "requested", [True])
    assert run.entries.filter(event="step.requested").count() == 1
