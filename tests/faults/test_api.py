"""Faults of ingest APIs: keys, hashes, characters and numbers that other systems fell over."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runs import bell, keys, registry, services
from runs.models import IdempotencyKey, LogEntry, Run, Step
from runs.services import asking, opening
from tests.factories import make_run, make_token, prove
from tests.helpers import meet_after, run_together
from tests.runs.api.agent import Agent, work
from tests.site import until
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"ref": "one", "capability": "put_thing", "args": {"name": "one"}}
REMIND = {"capability": "tell_team", "args": {"name": "reminder", "value": "stand-up"}}


@pytest.fixture
def agent(token):
    prove("show_thing", "blind_thing")
    return Agent(token)


def open_run(agent: Agent, *plan: dict[str, Any]) -> int:
    return int(agent.post("/runs", {"title": "x", "plan": list(plan) or [ONE]}).data["run"])


# API-01


def test_api_01_a_key_with_other_content_is_refused_and_shows_nothing_of_the_first(agent):
    run = open_run(agent, ONE, {"ref": "two", "capability": "put_thing", "args": {"name": "two"}})
    first = agent.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k")
    work(run)
    others = [
        (f"/runs/{run}/steps", {**ONE, "args": {"name": "one", "value": "off"}}),
        (f"/runs/{run}/steps", {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}),
        (f"/runs/{open_run(agent)}/steps", ONE),
        ("/runs", {"title": "x"}),
    ]
    for path, body in others:
        answer = agent.post(path, body, Idempotency_Key="k")
        assert (answer.status_code, answer.data["type"]) == (422, "/problems/key-reused"), path
        assert "effect" not in answer.data
    assert first.data["number"] == 1
    assert world.calls("do") == ["one"]


def test_api_01_a_key_that_opened_a_run_opens_no_other_and_calls_nothing(agent):
    run = agent.post("/runs", {"title": "x", "plan": [ONE]}, Idempotency_Key="k").data["run"]
    for path, body in [("/runs", {"title": "y", "plan": [ONE]}), (f"/runs/{run}/steps", ONE)]:
        answer = agent.post(path, body, Idempotency_Key="k")
        assert (answer.status_code, answer.data["type"]) == (422, "/problems/key-reused"), path
    assert Run.objects.count() == 1
    assert Step.objects.get(run=run).state == "planned"


def test_api_01_keys_of_two_tokens_never_meet(agent, team):
    other = Agent(make_token(team=team))
    runs = [open_run(one) for one in (agent, other)]
    answers = [one.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k") for one, run in zip((agent, other), runs, strict=True)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert IdempotencyKey.objects.filter(key="k").count() == 2


def test_api_01_the_same_content_gets_the_first_result_marked_as_a_replay(agent):
    run = open_run(agent)
    agent.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k")
    work(run)
    again = agent.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.data["effect"] == {"name": "one", "value": "on"}


# API-02


@pytest.mark.parametrize("key", ["k", None])
def test_api_02_fifty_at_once_make_one_intent_and_one_effect(site, agent_token, key):
    plan = [{"ref": "one", "capability": "put_item", "args": {"name": "one"}}]
    run = site.api(agent_token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"]
    headers = {"Idempotency_Key": key} if key else {}

    def call(_: int) -> Any:
        return site.api(agent_token, "POST", f"/runs/{run}/steps", plan[0], Prefer="wait=10", **headers)

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(call, range(50)))
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert {answer.json()["number"] for answer in answers} == {1}
    assert LogEntry.objects.filter(run=run, event="step.requested").count() == 1
    until(lambda: Step.objects.get(run=run).state == "done")
    assert len([entry for entry in site.world.effects("shelf") if entry["method"] == "PUT"]) == 1
    later = call(0)
    assert (later.status_code, later.json()["effect"]["name"]) == (200, "one")


def test_api_02_fifty_at_once_open_one_run(site, agent_token):
    def call(_: int) -> Any:
        return site.api(agent_token, "POST", "/runs", {"title": "the same"}, Idempotency_Key="r")

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(call, range(50)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["run"] for answer in answers}) == 1
    assert Run.objects.count() == 1


def test_api_02_two_that_look_before_either_writes_make_one_intent(token, monkeypatch):
    run = make_run(token=token, plan=[ONE])
    meet_after(monkeypatch, asking, "_meant")
    asked = run_together(*2 * [lambda: services.request_step(run, token=token, capability="put_thing", args={"name": "one"}, ref="one")])
    assert sorted(one.new for one in asked) == [False, True]
    assert LogEntry.objects.filter(run=run, event="step.requested").count() == 1


def test_api_02_two_that_look_before_either_writes_open_one_run(token, monkeypatch):
    meet_after(monkeypatch, opening, "_opened_before")
    opened = run_together(*2 * [lambda: services.open_run(token=token, title="x", idempotency_key="k")])
    assert sorted(one.replayed for one in opened) == [False, True]
    assert Run.objects.count() == 1


# API-03


def test_api_03_a_key_whose_call_has_not_ended_is_answered_with_its_step(agent):
    run = open_run(agent)
    first = agent.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k", Prefer="wait=0")
    again = agent.post(f"/runs/{run}/steps", ONE, Idempotency_Key="k", Prefer="wait=0")
    assert (again.status_code, again.data["state"]) == (first.status_code, "requested")
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("point", ["publish.before", "publish.after"])
def test_api_03_after_a_web_process_died_the_retry_gets_a_definite_answer(site, agent_token, point):
    """The key is committed with its intent, so it is never "in progress"; a retry meets what became of the first."""
    import httpx

    plan = [{"ref": "one", "capability": "put_item", "args": {"name": "one"}}]
    run = site.api(agent_token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"]
    site.arm(point, "kill")

    def call() -> Any:
        try:
            answer = site.api(agent_token, "POST", f"/runs/{run}/steps", plan[0], Prefer="wait=5", Idempotency_Key="k")
        except httpx.TransportError:
            return None
        assert answer.status_code in (200, 202), answer.text  # never "in progress", never refused
        return answer

    began = time.monotonic()
    answer = until(lambda: (found := call()) and found.status_code == 200 and found, 60)
    assert point in site.fired()
    assert time.monotonic() - began < 60
    assert answer.json()["state"] == "done"
    assert len([entry for entry in site.world.effects("shelf") if entry["method"] == "PUT"]) == 1


# API-04

SAME = [
    b'{"capability": "put_any", "args": {"a": 1, "b": "\\u00e9"}}',
    b'{"args":{"b":"\xc3\xa9","a":1.0},"capability":"put_any"}',
    b'{ "args" : { "a" : 1e0 , "b" : "\\u00E9" } , "capability" : "put_any" }',
]
VALUES = [True, "true", 1, "1", None, "\u00e9", "e\u0301", [1, 2], [2, 1]]
DIFFERENT = [{}, *({"v": value} for value in VALUES)]


def test_api_04_the_same_intent_has_one_key_however_it_is_written():
    from runs import strict_json

    found = {keys.digest(strict_json.load(body)) for body in SAME}
    assert len(found) == 1
    assert keys.digest(strict_json.load(b"[-0.0]")) == keys.digest([0])


def test_api_04_different_intents_have_different_keys():
    assert len({keys.digest(args) for args in DIFFERENT}) == len(DIFFERENT)


def test_api_04_fingerprints_stay_the_same_over_machines_and_versions():
    fixture = json.loads((Path(__file__).parent / "fingerprints.json").read_text())
    put = registry.find("put_thing")
    for entry in fixture:
        assert keys.digest(entry["value"]) == entry["sha256"], entry
    assert keys.intent(put, "one", {"name": "one"}) == keys.digest(["put_thing", "one", {"name": "one"}])


def test_api_04_a_name_that_stands_twice_is_refused(agent):
    run = open_run(agent)
    answer = agent.post(f"/runs/{run}/steps", b'{"capability": "put_thing", "args": {"name": "one", "name": "two"}}')
    assert answer.status_code == 422
    assert "twice" in answer.data["detail"]


def test_api_04_text_is_never_normalised(agent):
    name = "e\u0301 and \u00e9"
    run = open_run(agent, {"ref": "one", "capability": "put_thing"})
    agent.post(f"/runs/{run}/steps", {"ref": "one", "capability": "put_thing", "args": {"name": name}})
    assert Step.objects.get(run=run).args["name"] == name


# API-05 and API-06

BODIES = {
    "/runs": '{"title": %s}',
    "/runs/{run}/steps": '{"capability": "put_thing", "args": {"name": %s}}',
    "/runs/{run}/steps/skip": '{"ref": "one", "reason": %s}',
    "/runs/{run}/fail": '{"reason": %s}',
}
AT_THE_DOOR = ("holds a NUL or a lone surrogate", "is not a JSON number", "is too large for a number")


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("bad", ['"a\\u0000b"', '"a\\ud800b"', "NaN", "Infinity", "-Infinity", "1e999"])
def test_api_05_and_06_what_cannot_be_stored_is_refused_at_the_door(agent, path, bad):
    run = open_run(agent)
    before = LogEntry.objects.count()
    answer = agent.post(path.format(run=run), (BODIES[path] % bad).encode())
    assert answer.status_code == 422, answer.content
    # Not because it is no string: it would be refused where any JSON is taken.
    assert any(words in answer.data["detail"] for words in AT_THE_DOOR), answer.data
    assert LogEntry.objects.count() == before
    assert Run.objects.count() == 1


def test_api_05_a_target_that_answers_with_nul_leaves_its_record(agent):
    run = open_run(agent)
    agent.post(f"/runs/{run}/steps", ONE)
    world.after["do"] = lambda call: (_ for _ in ()).throw(ValueError("bad \x00 byte \ud800"))
    work(run)
    step = Step.objects.get(run=run)
    assert step.state == "unknown"
    assert "\\u0000" in step.error


def test_api_05_an_effect_with_nul_is_kept_and_given_back_to_the_undo(agent, monkeypatch):
    from tests.tools import PutThing

    put = PutThing.do
    monkeypatch.setattr(PutThing, "do", lambda self, call: {**put(self, call), "id": "a\x00b", "n": float("nan")})
    run = open_run(agent)
    agent.post(f"/runs/{run}/steps", ONE)
    work(run)
    step = Step.objects.get(run=run)
    assert step.state == "done"
    assert step.effect["id"] == "a\\u0000b"
    assert step.what_undo_needs()[1]["id"] == "a\x00b"
    answer = agent.get(f"/runs/{run}")  # which refuses NaN when it parses
    assert answer.data["steps"][0]["effect"]["n"] == "nan"


def test_api_06_numbers_beyond_what_json_carries_are_refused(agent):
    run = open_run(agent)
    answer = agent.post(f"/runs/{run}/steps", b'{"capability": "put_thing", "args": {"name": 9007199254740993}}')
    assert answer.status_code == 422
    assert "2^53" in answer.data["detail"]


# API-07


def test_api_07_two_planned_twins_are_two_intents_and_a_retry_adds_none(agent):
    run = open_run(agent, {"ref": "first", **REMIND}, {"ref": "second", **REMIND})
    answers = [agent.post(f"/runs/{run}/steps", {"ref": ref, **REMIND}) for ref in ("first", "second", "first")]
    assert [answer.data["number"] for answer in answers] == [1, 2, 1]
    assert Step.objects.filter(run=run, state="queued").count() == 2
    without = agent.post(f"/runs/{run}/steps", REMIND)
    assert without.data["number"] == 1  # an equal call already requested is that step
    assert Step.objects.filter(run=run).count() == 2


def test_api_07_a_second_different_call_gets_the_step_that_exists(agent):
    run = open_run(agent, {"ref": "first", **REMIND})
    agent.post(f"/runs/{run}/steps", {"ref": "first", **REMIND})
    answer = agent.post(f"/runs/{run}/steps", {"capability": "tell_team", "args": {"name": "reminder", "value": "again"}})
    assert (answer.status_code, answer.data["step"]) == (409, 1)


# API-09


@pytest.mark.parametrize("read", [0, 20, 400])
def test_api_09_a_client_that_lost_the_answer_repeats_without_a_second_effect(site, agent_token, read):
    plan = [{"ref": "one", "capability": "put_item", "args": {"name": "one"}}]
    run = site.api(agent_token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"]
    _cut_off(site, agent_token, run, json.dumps(plan[0]).encode(), read)
    answers = [site.api(agent_token, "POST", f"/runs/{run}/steps", plan[0], Prefer="wait=10") for _ in range(10)]
    assert {answer.json()["effect"]["key"] for answer in answers} == {Step.objects.get(run=run).call_key}
    record = site.api(agent_token, "GET", f"/runs/{run}").json()
    assert record["steps"][0]["state"] == "done"
    # Calls, not effects: that this target would have given one effect for one key proves nothing.
    assert len([entry for entry in site.world.ledger("shelf") if entry["method"] == "PUT"]) == 1


def _cut_off(site: Any, token: Any, run: int, body: bytes, read: int) -> None:
    """Sends the call and hangs up after `read` bytes of the answer."""
    host, port = site.url.removeprefix("http://").split(":")
    head = (
        f"POST /api/v1/runs/{run}/steps HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token.text}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nPrefer: wait=10\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        while read > 0 and (got := connection.recv(read)):
            read -= len(got)


# API-08


@pytest.fixture
def nothing_counted():
    """Calls are counted in the broker by the token's number, which another test's token had."""
    for name in bell.client().scan_iter("sagaboard:rate:*"):
        bell.client().delete(name)


def test_api_08_who_floods_is_told_which_limit_and_when_and_nobody_else_notices(team, nothing_counted):
    flood, calm = (Agent(make_token(team=team, calls_per_minute=most)) for most in (5, 20))
    run, other = open_run(flood), open_run(calm)
    answers = [flood.post(f"/runs/{run}/heartbeat") for _ in range(30)]
    refused = [answer for answer in answers if answer.status_code == 429]
    # The minute may turn once meanwhile; a limit that is soft lets all of them through.
    assert len(refused) >= 15
    for answer in refused:
        assert (answer.data["type"], answer.data["limit"]) == ("/problems/too-many", "calls_per_minute")
        assert 1 <= int(answer["Retry-After"]) == answer.data["retry_after"] <= 60
    assert calm.post(f"/runs/{other}/heartbeat").status_code == 200
    assert calm.post(f"/runs/{other}/steps", ONE).status_code == 202


@pytest.mark.parametrize(
    ("rules", "calls", "limit"),
    [
        ({"open_steps": 2}, [{"capability": "put_thing", "args": {"name": f"n{number}"}} for number in range(4)], "open_steps"),
        ({"waiting_items": 2}, [{"capability": "tell_team", "args": {"name": f"n{number}"}} for number in range(4)], "waiting_items"),
    ],
)
def test_api_08_a_run_holds_so_much_and_no_more(team, rules, calls, limit):
    agent = Agent(make_token(team=team, off_plan="allow", **rules))
    run = open_run(agent, {"ref": "other", "capability": "put_thing", "args": {"name": "other"}})
    answers = [agent.post(f"/runs/{run}/steps", {**call, "ref": call["args"]["name"]}) for call in calls]
    assert [answer.status_code for answer in answers] == [202, 202, 429, 429]
    assert [answer.data["limit"] for answer in answers[2:]] == [limit, limit]
    assert all(int(answer["Retry-After"]) > 0 for answer in answers[2:])
    # Refused is refused: nothing of it is kept.
    assert Step.objects.filter(run=run).exclude(state="planned").count() == 2


def test_api_08_past_its_budget_a_run_is_over_and_people_are_told_once(team):
    agent = Agent(make_token(team=team, off_plan="allow", steps_per_run=2))
    run = open_run(agent)
    answers = [agent.post(f"/runs/{run}/steps", {**ONE, "ref": f"n{number}", "args": {"name": f"n{number}"}}) for number in range(6)]
    assert [answer.status_code for answer in answers] == [202, 429, 409, 409, 409, 409]
    assert (answers[1].data["limit"], answers[1].data["type"]) == ("steps_per_run", "/problems/over-budget")
    assert Run.objects.get(pk=run).state == "failed"
    assert LogEntry.objects.filter(run=run, event="run.paged").count() == 1


def test_api_08_a_plan_is_taken_whole_or_not_at_all(agent):
    bad = {"ref": "two", "capability": "put_thing", "args": {"nome": "two"}}
    assert agent.post("/runs", {"title": "x", "plan": [ONE, bad]}).status_code == 422
    assert (Run.objects.count(), Step.objects.count()) == (0, 0)
