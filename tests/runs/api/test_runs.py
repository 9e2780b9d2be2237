"""Opening, reading, resuming and ending runs through the API."""

import datetime as dt

import pytest
from django.conf import settings
from django.utils import timezone

from runs.engine import sweep
from runs.models import IdempotencyKey, Run, Step
from runs.states import RunState, StepState
from tests.factories import make_token, make_user
from tests.runs.api.agent import Agent, work
from tests.runs.api.conftest import PLAN
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


def test_opening_a_run_classifies_each_planned_call(agent):
    answer = agent.post("/runs", {"title": "Add a field", "plan": PLAN})
    assert answer.status_code == 201
    assert [step["kind"] for step in answer.data["steps"]] == ["reversible", "compensatable", "reversible", "irreversible"]
    assert answer.data["remaining"] == ["one", "show", "look", "tell"]
    assert answer.headers["Location"] == f"/api/v1/runs/{answer.data['run']}"


def test_the_plan_is_refused_whole_and_every_fault_is_named(agent):
    answer = agent.post(
        "/runs", {"title": "x", "plan": [{"capability": "nothing"}, {"capability": "put_thing", "args": {"colour": "red"}}]}
    )
    assert answer.status_code == 422
    assert "nothing" in answer.data["detail"]
    assert "colour" in answer.data["detail"]
    assert not Run.objects.exists()


def test_a_plan_warns_of_a_send_before_an_undoable_call_and_of_an_audience_nobody_owns(agent):
    plan = [PLAN[3], {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]
    warnings = agent.post("/runs", {"title": "x", "plan": plan}).data["warnings"]
    assert any("Better: show, tell" in warning for warning in warnings)
    assert any("nobody owns the audience “team”" in warning for warning in warnings)


def test_the_same_key_opens_one_run(agent):
    first = agent.post("/runs", {"title": "x"}, Idempotency_Key="k1")
    second = agent.post("/runs", {"title": "x"}, Idempotency_Key="k1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.data["run"] == second.data["run"]
    assert second.headers["Idempotency-Replayed"] == "true"


def test_the_same_key_gets_the_same_warnings(agent, monkeypatch):
    plan = [PLAN[3], {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}]
    first = agent.post("/runs", {"title": "x", "plan": plan}, Idempotency_Key="k1")
    again = agent.post("/runs", {"title": "x", "plan": plan}, Idempotency_Key="k1")
    assert len(first.data["warnings"]) > 1
    assert again.data["warnings"] == first.data["warnings"]
    long = [PLAN[3], *({"ref": f"s{n}", "capability": "show_thing", "args": {"name": f"{n}" * 200}} for n in range(200))]
    first = agent.post("/runs", {"title": "x", "plan": long}, Idempotency_Key="k2")
    assert "$beside" in Run.objects.get(pk=first.data["run"]).entries.get(event="run.opened").data
    assert agent.post("/runs", {"title": "x", "plan": long}, Idempotency_Key="k2").data["warnings"] == first.data["warnings"]


@pytest.mark.parametrize("loosened", [{"off_plan": "allow"}, {"patience": 10_000}, {"owner": "stranger"}])
def test_a_request_can_only_tighten_the_rules(agent, loosened):
    make_user("stranger")
    assert agent.post("/runs", {"title": "x", **loosened}).status_code == 422


def test_the_rules_checks_cannot_be_left_out(agent):
    data = agent.post("/runs", {"title": "x", "checks": ["lint"]}).data
    assert [check["name"] for check in data["checks"]] == ["ci", "lint"]


def test_a_token_sees_its_own_runs_only(agent, team, number):
    other = Agent(make_token(team=team))
    assert other.get(f"/runs/{number}").status_code == 404
    assert agent.get(f"/runs/{number}").status_code == 200
    assert agent.get("/runs/999999").data["type"] == other.get(f"/runs/{number}").data["type"]


def test_a_run_bound_token_speaks_of_its_run_only(agent, team, number):
    bound = make_token(team=team)
    bound.run_number = number
    bound.save()
    other = agent.post("/runs", {"title": "another"}).data["run"]
    assert Agent(bound).get(f"/runs/{number}").status_code == 200
    assert Agent(bound).get(f"/runs/{other}").status_code == 404


def test_a_fresh_agent_resumes_and_the_old_session_is_refused(agent, number):
    agent.post(f"/runs/{number}/steps", {"ref": "one", "capability": "put_thing", "args": {"name": "one"}, "session": 1})
    work(number)
    record = agent.post(f"/runs/{number}/resume").data
    assert record["session"] == 2
    assert record["steps"][0]["effect"] == {"name": "one", "value": "on"}
    assert record["remaining"] == ["show", "look", "tell"]
    old = agent.post(f"/runs/{number}/steps", {"capability": "show_thing", "args": {"name": "p"}, "session": 1})
    assert old.status_code == 409
    assert old.data["type"] == "/problems/stale-session"


def test_a_run_bound_token_opens_no_run(agent, team, number):
    bound = make_token(team=team)
    bound.run_number = number
    bound.save()
    answer = Agent(bound).post("/runs", {"title": "mine", "plan": PLAN}, Idempotency_Key="k")
    assert (answer.status_code, answer.data["type"]) == (403, "/problems/not-allowed")
    assert Run.objects.count() == 1
    assert not IdempotencyKey.objects.exists()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/heartbeat", {}),
        ("/finish", {}),
        ("/fail", {"reason": "I am lost"}),
        ("/steps/skip", {"ref": "look", "reason": "x"}),
        ("/steps", {"ref": "one", "capability": "put_thing", "args": {"name": "one"}}),
    ],
)
def test_an_older_session_neither_ends_the_run_nor_keeps_it_alive(agent, number, path, body):
    agent.post(f"/runs/{number}/resume")
    then = timezone.now() - dt.timedelta(minutes=1)
    Run.objects.update(last_heard_at=then)
    old = agent.post(f"/runs/{number}{path}", {**body, "session": 1})
    assert (old.status_code, old.data["type"], old.data["session"]) == (409, "/problems/stale-session", 2)
    run = Run.objects.get()
    assert (run.state, run.last_heard_at) == (RunState.OPEN, then)
    assert not run.steps.exclude(state=StepState.PLANNED).exists()
    # Refused for other reasons, or not at all.
    assert agent.post(f"/runs/{number}{path}", {**body, "session": 2}).data.get("type") != "/problems/stale-session"


def test_an_older_session_that_repeats_itself_is_told_so(agent, number):
    body = {"ref": "one", "capability": "put_thing", "args": {"name": "one"}, "session": 1}
    agent.post(f"/runs/{number}/steps", body, Idempotency_Key="k")
    agent.post(f"/runs/{number}/resume")
    assert agent.post(f"/runs/{number}/steps", body, Idempotency_Key="k").data["type"] == "/problems/stale-session"
    assert agent.post(f"/runs/{number}/steps", {**body, "session": 2}, Idempotency_Key="k").headers["Idempotency-Replayed"] == "true"


def test_finishing_early_names_what_is_open(agent, number):
    answer = agent.post(f"/runs/{number}/finish")
    assert answer.status_code == 409
    assert [step["ref"] for step in answer.data["steps"]] == ["one", "show", "look", "tell"]


def test_an_agent_cannot_report_its_own_success(agent, number):
    assert agent.put(f"/runs/{number}/checks/ci", {"state": "success"}).status_code == 403


def test_a_green_check_lets_a_finished_run_succeed(agent, checker):
    number = agent.post("/runs", {"title": "x", "plan": PLAN[:1]}).data["run"]
    agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    work(number)
    assert agent.post(f"/runs/{number}/finish").data["state"] == "checking"
    assert checker.put(f"/runs/{number}/checks/ci", {"state": "success", "subject": "abc"}).status_code == 200
    assert agent.get(f"/runs/{number}").data["state"] == "succeeded"


def test_a_red_check_fails_the_run_and_no_green_one_revives_it(agent, checker, number):
    checker.put(f"/runs/{number}/checks/ci", {"state": "failure"})
    assert agent.get(f"/runs/{number}").data["state"] == "failed"
    checker.put(f"/runs/{number}/checks/ci", {"state": "success"})
    assert agent.get(f"/runs/{number}").data["state"] == "failed"


def test_a_later_step_sets_the_checks_back(agent, checker):
    number = agent.post("/runs", {"title": "x", "plan": PLAN[:1]}).data["run"]
    checker.put(f"/runs/{number}/checks/ci", {"state": "success"})
    agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    assert agent.get(f"/runs/{number}").data["checks"][0]["state"] == "pending"


def test_a_run_without_any_check_waits_for_a_person(team):
    agent = Agent(make_token(team=team, required_checks=[]))
    number = agent.post("/runs", {"title": "x", "plan": PLAN[:1]}).data["run"]
    agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    work(number)
    data = agent.post(f"/runs/{number}/finish").data
    assert (data["state"], data["waits_for"]) == ("checking", "a person, since the run has no check")


def test_failing_withdraws_what_waits(agent, number):
    agent.post(f"/runs/{number}/steps", {"capability": "tell_client", "args": {"name": "news", "value": "ready"}})
    data = agent.post(f"/runs/{number}/fail", {"reason": "given up"}).data
    assert data["state"] == RunState.FAILED
    assert (data["steps"][3]["state"], data["steps"][3]["closed_why"]) == (StepState.CLOSED, "withdrawn")
    assert world.calls("do") == []
    late = agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    assert late.data["type"] == "/problems/run-not-open"


def test_skipping_wants_a_reason_and_leaves_nothing_to_do(agent, number):
    assert agent.post(f"/runs/{number}/steps/skip", {"ref": "look", "reason": ""}).status_code == 422
    assert agent.post(f"/runs/{number}/steps/skip", {"ref": "look", "reason": "no CI today"}).data["state"] == "skipped"
    assert "look" not in agent.get(f"/runs/{number}").data["remaining"]


def test_a_heartbeat_says_what_the_run_waits_for(agent, number):
    assert agent.post(f"/runs/{number}/heartbeat").data["waits_for"] == "the agent's next call"


@pytest.mark.parametrize("path", ["", "/steps/1"])
def test_an_agent_that_only_reads_is_not_silent(agent, number, path):
    agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    work(number)
    then = timezone.now() - dt.timedelta(hours=1)
    Run.objects.update(last_heard_at=then)
    Step.objects.exclude(requested_at=None).update(requested_at=then, ended_at=then)
    assert sweep.silent().exists()
    assert agent.get(f"/runs/{number}{path}").status_code == 200
    assert not sweep.silent().exists()


def test_a_watcher_does_not_keep_a_run_alive(agent, team, number):
    then = timezone.now() - dt.timedelta(hours=1)
    Run.objects.update(last_heard_at=then)
    Agent(make_token(scope="on_call", team=team)).get(f"/runs/{number}/steps/1")
    Agent(make_token(scope="checker", team=team)).get(f"/runs/{number}")
    assert Run.objects.get().last_heard_at == then


@pytest.mark.parametrize("name", ["a%00b", "%00", "x" * 81, "nothing"])
def test_a_check_of_an_odd_name_is_refused_in_words(checker, number, name):
    answer = checker.put(f"/runs/{number}/checks/{name}", {"state": "success"})
    assert (answer.status_code, answer.data["type"]) == (422, "/problems/invalid")


@pytest.mark.parametrize("key", ["", "k" * 201, "a\x00b", "a\udc80b"])
def test_a_key_that_cannot_be_kept_is_refused_in_words(agent, key):
    answer = agent.post("/runs", {"title": "x"}, Idempotency_Key=key)
    assert (answer.status_code, answer.data["type"]) == (422, "/problems/invalid")
    assert not Run.objects.exists()


@pytest.mark.parametrize("beyond", [0, 200_000])
def test_a_body_that_is_too_large_is_refused_in_words(agent, beyond):
    answer = agent.post("/runs", {"title": "x", "ticket": "y" * (settings.SAGABOARD_MAX_BODY + beyond)})
    assert (answer.status_code, answer.data["type"]) == (413, "/problems/too-large")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert not Run.objects.exists()


def test_an_auditor_reads_the_log_with_its_hashes(agent, team, number):
    auditor = Agent(make_token(scope="auditor", team=team))
    lines = b"".join(auditor.get(f"/runs/{number}/log").streaming_content).decode().splitlines()
    assert '"event": "run.opened"' in lines[0]
    assert agent.get(f"/runs/{number}/log").status_code == 403


def test_an_on_call_token_compensates_as_the_button_does(agent, team, number):
    agent.post(f"/runs/{number}/steps", {"capability": "put_thing", "args": {"name": "one"}})
    work(number)
    on_call = Agent(make_token(scope="on_call", team=team))
    assert on_call.post(f"/runs/{number}/compensate").status_code == 409
    agent.post(f"/runs/{number}/fail", {"reason": "x"})
    assert on_call.call("POST", f"/runs/{number}/compensate", b"").data["state"] == "compensating"


def test_capabilities_are_tool_definitions(agent):
    tool = next(tool for tool in agent.get("/capabilities").data if tool["name"] == "put_thing")
    assert tool["description"] == "Put a thing into the world."
    assert tool["input_schema"]["required"] == ["name"]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer nonsense", "Basic eDp5"])
def test_without_a_token_nothing_answers(agent, number, header):
    answer = agent.client.get(f"/api/v1/runs/{number}", headers={"authorization": header})
    assert answer.status_code == 401
    assert "detail" in answer.json()


def test_a_revoked_or_expired_token_counts_no_more(agent, number, token):
    from django.utils import timezone

    token.expires_at = timezone.now()
    token.save()
    assert agent.get(f"/runs/{number}").status_code == 401


def test_a_browsers_session_is_no_token(client, alice, number):
    client.force_login(alice)
    assert client.get(f"/api/v1/runs/{number}").status_code == 401


def test_past_its_limit_a_token_is_told_when_to_come_back(team):
    agent = Agent(make_token(team=team, calls_per_minute=2))
    answers = [agent.get("/capabilities") for _ in range(6)]
    assert answers[-1].status_code == 429
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60


@pytest.mark.parametrize("path", ["/nothing", "/runs/1/nothing", "/../v9/runs"])
def test_an_unknown_address_is_a_problem_document_that_names_the_description(agent, path):
    answer = agent.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
    assert answer.data["type"] == "/problems/not-found"
    assert "/api/v1/openapi.json" in answer.data["detail"]


def test_a_wrong_method_is_a_problem_document_that_names_the_right_ones(agent):
    answer = agent.call("DELETE", "/runs")
    assert (answer.status_code, answer["Content-Type"], answer["Allow"]) == (405, "application/problem+json", "POST")
    assert answer.data["detail"] == "DELETE is not understood here. This address takes POST."


def test_a_fault_of_ours_is_a_problem_document_that_tells_nothing_of_the_inside(agent, monkeypatch):
    from runs import record

    monkeypatch.setattr(record, "of_run", lambda run: 1 / 0)
    agent.client.raise_request_exception = False
    answer = agent.post("/runs", {"title": "x", "plan": []})
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/problem+json")
    assert "ZeroDivisionError" not in answer.content.decode()
