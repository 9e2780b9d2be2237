"""The storm of tests/storm in a size that the suite has time for."""

from tests.storm.approvals import storm


def test_apr_01_forty_clients_press_on_ten_items_of_the_running_product_and_each_gets_one_decision(site, agent_token):
    storm(site, agent_token, clients=40, items=10, presses=2)
