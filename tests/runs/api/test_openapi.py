"""The API against its own description: whatever is thrown at it, it answers as documented and never with a 5xx."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from sagaboard.wsgi import application
from tests.factories import make_team, make_token
from tests.runs.api.agent import Agent
from tests.runs.api.conftest import PLAN

SCOPES = {"checks/{name}": "checker", "log": "auditor", "compensate": "on_call"}
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture
def described(transactional_db):
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


def test_every_operation_answers_as_described(described):
    team = make_team()
    tokens = {scope: make_token(scope=scope, team=team, calls_per_minute=10**6) for scope in ("agent", "checker", "auditor", "on_call")}
    number = Agent(tokens["agent"]).post("/runs", {"title": "x", "plan": PLAN}).data["run"]
    operations = [result.ok() for result in described.get_all_operations()]
    assert len(operations) == 13
    for operation in operations:
        scope = SCOPES.get(operation.path.removeprefix("/api/v1/runs/{number}/"), "agent")
        _throw_at(operation, tokens[scope].text, number)


def _throw_at(operation, token, number):
    """Some well-formed and some odd requests, half of them at a run that exists."""

    @given(case=operation.as_strategy())
    @settings(max_examples=30, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def throw(case):
        if "number" in case.path_parameters and case.path_parameters["number"] % 2:
            case.path_parameters["number"] = number
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

    throw()
