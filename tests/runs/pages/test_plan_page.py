"""The plan as it was declared: what the log keeps of it, whatever was asked for since."""

import pytest
from django.db import connection

from runs import erasing
from runs.models import StoredPayload
from tests.factories import ask, make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)
PLAN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "as declared"}},
    {"ref": "ask", "capability": "tell_client", "args": {"name": "client", "value": "x"}, "needs_result": True},
]


def page_of(client, alice, run):
    client.force_login(alice)
    return client.get(f"/runs/{run.pk}/plan/").content.decode()


def test_it_shows_what_was_declared_and_what_came_of_it(client, alice, team):
    run = make_run(token=make_token(team=team), plan=PLAN)
    ask(run, "put_thing", args={"name": "as declared"}, ref="one")
    page = page_of(client, alice, run)
    for needed in ("Two calls declared before anything was done", "as declared", "the run waits for its result", "Requested", "Planned"):
        assert needed in page, needed
    client.force_login(alice)
    assert f'href="/runs/{run.pk}/plan/"' in client.get(f"/runs/{run.pk}/").content.decode()


def test_a_run_without_a_plan_says_so_and_has_no_link_to_one(client, alice, team):
    run = make_run(token=make_token(team=team), plan=[])
    assert "This run declared no plan" in page_of(client, alice, run)
    assert "plan as declared" not in client.get(f"/runs/{run.pk}/").content.decode()


def test_a_plan_that_was_erased_is_not_taken_for_none(client, alice, team):
    long = [{"ref": f"r{n}", "capability": "put_thing", "args": {"name": "x" * 200}} for n in range(100)]
    run = make_run(token=make_token(team=team), plan=long)
    assert "100 calls declared" in page_of(client, alice, run)
    kept = StoredPayload.objects.get()
    with connection.cursor() as as_owner:  # as manage.py has it for those that erase
        as_owner.execute("SET ROLE NONE")
    assert erasing.erase(erasing.Old(kept.digest, kept.bytes, [run.pk]), by="Ada Adler", why="90 days are over")
    connection.close()
    assert "What was declared was erased" in page_of(client, alice, run)
