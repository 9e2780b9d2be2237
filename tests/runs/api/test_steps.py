"""Calling capabilities: which step is meant, what is refused, and what comes back."""

import pytest

from runs.models import LogEntry, Step
from tests.factories import make_token
from tests.runs.api.agent import Agent, work
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"capability": "put_thing", "args": {"name": "one"}}


def test_the_intent_is_in_the_log_before_anything_happens(agent, number):
    answer = agent.post(f"/runs/{number}/steps", {**ONE, "why": "the field needs it"})
    assert answer.status_code == 202
    entry = LogEntry.objects.get(run=number, event="step.requested")
    assert entry.data["args"] == {"name": "one"}
    assert entry.data["why"] == "the field needs it"
    assert entry.actor == f"token:{agent.token.name}"
    assert world.ledger == []


def test_a_call_that_fits_the_plan_is_the_planned_step(agent, number):
    assert agent.post(f"/runs/{number}/steps", ONE).data["ref"] == "one"
    assert agent.post(f"/runs/{number}/steps", {"capability": "show_thing", "args": {"name": "panel"}}).data["ref"] == "show"


def test_asked_again_it_is_the_same_step_with_its_effect(agent, number):
    agent.post(f"/runs/{number}/steps", ONE)
    work(number)
    again = agent.post(f"/runs/{number}/steps", ONE)
    assert (again.status_code, again.data["effect"]) == (200, {"name": "one", "value": "on"})
    assert world.calls("do") == ["one"]


def test_a_variation_on_a_call_that_ran_is_refused_with_the_step_that_exists(agent, number):
    agent.post(f"/runs/{number}/steps", ONE)
    work(number)
    answer = agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one-2"}})
    assert answer.status_code == 409
    assert answer.data["type"] == "/problems/improvised-retry"
    assert answer.data["effect"] == {"name": "one", "value": "on"}
    assert world.calls("do") == ["one"]


def test_a_call_off_the_plan_is_refused(agent, number):
    answer = agent.post(f"/runs/{number}/steps", {"capability": "blind_thing", "args": {"name": "x"}})
    assert (answer.status_code, answer.data["type"]) == (409, "/problems/off-plan")
    assert not Step.objects.filter(capability="blind_thing").exists()


def test_where_policy_holds_off_plan_calls_a_person_lets_them_through(team, alice):
    from runs import services
    from tests.factories import prove

    prove("blind_thing")
    agent = Agent(make_token(team=team, off_plan="hold"))
    number = agent.post("/runs", {"title": "x", "plan": [{"ref": "one", **ONE}]}).data["run"]
    held = agent.post(f"/runs/{number}/steps", {"capability": "blind_thing", "args": {"name": "x"}})
    assert (held.status_code, held.data["state"]) == (202, "on_hold")
    services.let_through(Step.objects.get(capability="blind_thing"), by=alice)
    work(number)
    assert world.calls("do") == ["x"]


def test_arguments_that_do_not_fit_are_named_and_nothing_is_written(agent, number):
    answer = agent.post(f"/runs/{number}/steps", {"ref": "one", "capability": "put_thing", "args": {"name": 7, "colour": "red"}})
    assert answer.status_code == 422
    assert {problem.split(":")[0] for problem in answer.data["problems"]} == {"name", "colour"}
    assert not LogEntry.objects.filter(event="step.requested").exists()


def test_a_failed_step_is_asked_for_again_under_its_ref(agent, number):
    world.things["red"] = True
    body = {"ref": "look", "capability": "read_thing", "args": {"name": "one"}}
    agent.post(f"/runs/{number}/steps", body)
    work(number)
    failed = agent.get(f"/runs/{number}/steps/3").data
    assert (failed["state"], failed["error"]) == ("failed", "it is red")
    world.things.pop("red")
    agent.post(f"/runs/{number}/steps", body)
    work(number)
    assert agent.get(f"/runs/{number}/steps/3").data["state"] == "nothing_to_undo"
    assert len(world.calls("read")) == 2


def test_an_irreversible_call_waits_in_the_outbox(agent, number):
    answer = agent.post(f"/runs/{number}/steps", {"capability": "tell_client", "args": {"name": "news", "value": "ready"}})
    assert (answer.status_code, answer.data["state"]) == (202, "queued")
    assert answer.data["item"]["state"] == "held"
    work(number)
    assert world.calls("do") == []


def test_an_unproven_undo_counts_as_irreversible(agent, team):
    from runs.models import CapabilityRecord

    CapabilityRecord.objects.filter(name="show_thing").update(proven_version="older")
    data = agent.post("/runs", {"title": "x", "plan": [{"ref": "s", "capability": "show_thing", "args": {"name": "p"}}]}).data
    assert data["steps"][0]["kind"] == "irreversible"
    assert any("proof is older" in warning for warning in data["warnings"])


def test_what_another_unfinished_run_still_changes_is_refused(agent, number, monkeypatch):
    from tests.tools import PutThing

    monkeypatch.setattr(PutThing, "touches", lambda self, args: [f"thing:{args.name}"])
    agent.post(f"/runs/{number}/steps", ONE)
    other = agent.post("/runs", {"title": "y", "plan": [{"ref": "one", **ONE}]}).data["run"]
    answer = agent.post(f"/runs/{other}/steps", ONE)
    assert (answer.status_code, answer.data["type"], answer.data["run"]) == (409, "/problems/overlap", number)


def test_waiting_is_answered_when_a_worker_reports(agent, number):
    import threading
    import time

    from django.db import connection

    from runs.engine import invoke

    def worker_does(*ids):
        invoke.invoke(*ids)
        connection.close()

    step = agent.post(f"/runs/{number}/steps", ONE).data
    row = Step.objects.get(run=number, number=step["number"])
    worker = threading.Timer(0.3, worker_does, (number, row.pk))
    worker.start()
    began = time.monotonic()
    answer = agent.get(f"/runs/{number}/steps/{step['number']}", Prefer="wait=10")
    worker.join()
    assert (answer.status_code, answer.data["state"]) == (200, "done")
    assert time.monotonic() - began < 5
    assert answer.headers["Preference-Applied"] == "wait=10"


def test_at_most_half_of_the_web_threads_wait(agent, number, monkeypatch):
    import threading

    from runs import waiting

    monkeypatch.setattr(waiting, "_seats", threading.BoundedSemaphore(1))
    agent.post(f"/runs/{number}/steps", ONE)
    waiting._seats.acquire()
    answer = agent.get(f"/runs/{number}/steps/1", Prefer="wait=30")
    assert answer.status_code == 202
