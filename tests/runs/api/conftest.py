import pytest

from tests.factories import make_token, prove
from tests.runs.api.agent import Agent

PLAN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "show", "capability": "show_thing"},
    {"ref": "look", "capability": "read_thing", "args": {"name": "one"}},
    {"ref": "tell", "capability": "tell_client", "args": {"name": "news", "value": "ready"}},
]


@pytest.fixture
def agent(token):
    prove("show_thing", "blind_thing")
    return Agent(token)


@pytest.fixture
def checker(team):
    return Agent(make_token(scope="checker", team=team))


@pytest.fixture
def number(agent):
    """The number of an open run with the plan above."""
    return agent.post("/runs", {"title": "Add a billing field", "plan": PLAN}).data["run"]
