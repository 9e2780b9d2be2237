"""The storm at its full size, for `python -m tests.storm`."""

from tests.faults.conftest import agent_token, site, site_of_module  # noqa: F401  (fixtures)
from tests.storm.approvals import storm


def test_each_of_fifty_items_gets_one_decision_under_two_hundred_clients(site, agent_token):  # noqa: F811
    storm(site, agent_token, clients=200, items=50, presses=5)
