"""The list of runs, the jump box, the registry, the audit and one's own settings."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from runs import news, services
from runs.models import CapabilityRecord, LogEntry, OutsideTool
from runs.sections import sections
from runs.states import RunState
from tests.factories import do, make_run, make_team, make_token, make_user
from tests.runs.pages.helpers import again, failed_run, stuck_run, told_run

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"headers": {"HX-Request": "true"}}


def listed(client, query=""):
    return client.get(f"/runs/{query}").content.decode()


def test_what_people_can_see_comes_first_and_what_ended_last(client, alice, team):
    done, stuck = told_run(team), stuck_run(team)
    failed = failed_run(team)
    going = make_run(token=make_token(team=team))
    client.force_login(alice)
    page = listed(client)
    places = [page.index(f'href="/runs/{run.pk}/"') for run in (stuck, failed, going, done)]
    assert places == sorted(places)
    assert "1 effect, for" in page
    assert "Needs someone<span>2 runs." in page


def test_foreign_runs_are_neither_listed_nor_counted(client, alice, team):
    failed_run(make_team("elsewhere"))
    client.force_login(alice)
    page = listed(client)
    assert "No run yet." in page
    assert "Add a billing field" not in page


def test_nothing_that_needs_anyone_is_said(client, alice, team):
    told_run(team)
    client.force_login(alice)
    assert "Nothing needs anyone. Last looked" in listed(client)


def test_a_failed_run_without_effects_needs_nobody(client, alice, team):
    token = make_token(team=team)
    run = make_run(token=token)
    services.fail_run(run, token=token, reason="no idea")
    client.force_login(alice)
    page = listed(client)
    assert "Failed, nothing to undo" in page
    assert "Nothing needs anyone." in page


def test_filters_live_in_the_address(client, alice, team):
    failed, done = failed_run(team, ticket="BILL-318"), told_run(team)
    client.force_login(alice)

    def seen(query):
        page = listed(client, query)
        return [f'href="/runs/{run.pk}/"' in page for run in (failed, done)]

    assert seen("?state=needs") == [True, False]
    assert seen("?state=visible") == [True, False]
    assert seen("?state=compensated") == [False, True]
    assert seen("?state=running") == [False, False]
    assert seen("?seen=people") == [True, False]
    assert seen("?q=bill-318") == [True, False]
    # The same intent in two runs has one key.
    assert seen(f"?q={failed.steps.get(number=1).key}") == [True, True]
    assert seen(f"?agent={done.agent}") == [False, True]
    assert seen(f"?owner={done.owner.username}") == [False, True]
    assert seen("?q=show_thing") == [True, True]
    assert "No run matches." in listed(client, "?q=nothing+like+it")
    assert seen("?state=' OR 1&before=x") == [True, True]


def test_what_waits_for_a_yes_needs_someone(client, alice, team, monkeypatch):
    run = make_run(token=make_token(team=team))
    monkeypatch.setattr(sections, "awaiting", lambda: {run.pk: 2})
    client.force_login(alice)
    page = listed(client)
    assert "<b>2 to approve</b>" in page
    assert "Awaiting approval" in page
    assert "Needs someone<span>1 run." in page


def test_of_more_runs_than_are_listed_the_most_pressing_are(client, alice, team, monkeypatch):
    monkeypatch.setattr("runs.run_list.AT_MOST", 2)
    stuck = stuck_run(team)
    first, *others = [failed_run(team) for _ in range(2)]
    quiet = [make_run(token=make_token(team=team)) for _ in range(3)]
    monkeypatch.setattr(sections, "awaiting", lambda: {run.pk: 1 for run in quiet[:1]})
    client.force_login(alice)
    page = listed(client)
    needs, going = page.partition(">Running<")[::2]
    assert "The 2 most pressing; search for the others." in page
    shown = [run.pk for run in (stuck, first, *others, *quiet) if f'href="/runs/{run.pk}/"' in needs]
    assert shown == [stuck.pk, first.pk]
    assert "2 runs" in going


def test_of_more_runs_under_way_than_are_listed_the_newest_are(client, alice, team, monkeypatch):
    monkeypatch.setattr("runs.run_list.AT_MOST", 2)
    old, *new = [make_run(token=make_token(team=team)) for _ in range(3)]
    client.force_login(alice)
    page = listed(client)
    assert "the newest 2; search for the others" in page
    assert [f'href="/runs/{run.pk}/"' in page for run in (old, *new)] == [False, True, True]


def test_older_runs_are_a_link(client, alice, team, monkeypatch):
    monkeypatch.setattr("runs.run_list.PAGE", 2)
    runs = [told_run(team) for _ in range(3)]
    client.force_login(alice)
    page = listed(client)
    assert f"before={runs[1].pk}" in page
    assert f'href="/runs/{runs[0].pk}/"' not in page
    older = listed(client, f"?before={runs[1].pk}")
    assert f'href="/runs/{runs[0].pk}/"' in older


def test_the_number_of_queries_does_not_grow_with_the_runs(client, alice, team):
    client.force_login(alice)
    failed_run(team)
    client.get("/runs/")
    counts = []
    for more in (0, 5):
        for _ in range(more):
            do(make_run(token=make_token(team=team)), "one")
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/runs/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] <= 30, counts


def test_an_open_list_is_answered_only_when_something_happened(client, alice, team):
    run = failed_run(team)
    client.force_login(alice)
    at = news.mark()
    assert client.get("/runs/", {"at": at}, **HTMX).status_code == 204
    services.take_run(run, by=alice)
    answer = client.get("/runs/", {"at": at}, **HTMX)
    assert answer.status_code == 200
    assert "Alice Ahn is on it" in answer.content.decode()


def test_an_entry_that_is_committed_behind_a_later_one_is_news_too(client, alice, team):
    """Its number was taken before the other's, and it shows up after the list was made."""
    first, second = failed_run(team), failed_run(team)
    client.force_login(alice)
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence('runs_logentry', 'id'))")
        taken = cursor.fetchone()[0]
    services.take_run(second, by=alice)
    at = news.mark()
    assert not news.since(at)
    LogEntry.objects.create(pk=taken, run=first, event="run.taken", actor="person:Alice Ahn", data={})
    assert LogEntry.objects.newest_id() > taken
    assert client.get("/runs/", {"at": at}, **HTMX).status_code == 200


def test_the_jump_box_finds_runs_tickets_keys_and_hashes(client, alice, team):
    run = failed_run(team, ticket="BILL-318")
    foreign = failed_run(make_team("elsewhere"), ticket="SEC-1")
    client.force_login(alice)

    def lands(text):
        return client.get("/go/", {"q": text}).url

    here = f"/runs/{run.pk}/"
    assert lands(str(run.pk)) == lands(f"run {run.pk}") == lands("bill-318") == here
    step = run.steps.get(number=2)
    assert lands(step.key[:12]) == f"{here}steps/2/"
    assert lands(run.entries.order_by("-seq")[0].hash[:10]) == here
    assert lands(str(foreign.pk)) == f"/runs/?q={foreign.pk}"
    assert lands("SEC-1") == "/runs/?q=SEC-1"
    assert lands("") == "/runs/"
    assert lands("9" * 40).startswith("/runs/?q=")


def test_home_is_the_runs_or_the_outbox(client, alice):
    client.force_login(alice)
    assert client.get("/").url == "/runs/"
    client.force_login(make_user("guest", roles=("reviewer",)))
    assert client.get("/").url == "/outbox/"


def test_the_registry_is_narrowed_by_its_address(client, alice):
    OutsideTool.objects.create(name="psql in the shell", reached_by="data-fixer, shell")
    CapabilityRecord.objects.filter(name="put_thing").update(disabled_at=timezone.now(), disabled_by="Ada", disabled_why="it broke")
    CapabilityRecord.objects.filter(name="show_thing").update(proven_version="")
    client.force_login(alice)

    def listed(query):
        page = client.get(f"/capabilities/{query}").content.decode()
        return set(re.findall(r'<(?:b|a) class="(?:ttl )?mono wrap"[^>]*>([^<]+)<', page))

    every = listed("")
    assert {"psql in the shell", "put_thing", "show_thing", "tell_client"} <= every
    assert listed("?state=blank") == {"psql in the shell"}
    assert listed("?state=disabled") == {"put_thing"}
    assert "show_thing" in listed("?state=due")
    assert "notify_partner" in listed("?state=none")
    assert listed("?q=DATA-fixer") == {"psql in the shell"}
    assert listed("?q=thing&state=disabled") == {"put_thing"}
    assert listed("?state=' OR 1") == every
    page = client.get("/capabilities/?q=nothing+like+it&state=blank").content.decode()
    assert "No capability matches." in page
    assert 'href="?state=disabled&amp;q=nothing+like+it"' in page
    assert "Disabled <small>1</small>" in page


def test_a_filter_that_only_an_address_sets_can_be_taken_off_alone(client, alice, team):
    failed_run(team)
    client.force_login(alice)
    page = listed(client, "?owner=ana&agent=builder&q=x&state=needs")
    assert 'href="?state=needs&amp;q=x&amp;agent=builder"' in page
    assert 'href="?state=needs&amp;q=x&amp;owner=ana"' in page


def test_the_registry_shows_problems_first(client, alice, team):
    OutsideTool.objects.create(name="psql in the shell", reached_by="data-fixer, shell")
    run = failed_run(team)
    run.steps.update(capability="show_thing")
    client.force_login(alice)
    page = client.get("/capabilities/").content.decode()
    assert re.search(r'Capabilities<span class="count red">1<span class="sr"> without undo</span>', page)
    assert page.index("psql in the shell") < page.index("put_thing")
    assert "NO UNDO WRITTEN" in page
    assert "ticket has its old status; <b>webhook stays fired</b>" in page
    one = client.get("/capabilities/show_thing/").content.decode()
    assert f'href="/runs/{run.pk}/"' in one
    assert "&quot;properties&quot;" in one
    assert client.get("/capabilities/nothing/").status_code == 404


def test_the_audit_names_who_did_what_over_runs_one_can_see(client, alice, team):
    run = failed_run(team)
    services.take_run(run, by=alice)
    foreign = failed_run(make_team("elsewhere"))
    client.force_login(alice)
    page = client.get("/audit/").content.decode()
    assert f"run {run.pk}, entry" in page
    assert f"run {foreign.pk}, entry" not in page
    only = client.get("/audit/", {"who": "Alice", "kind": "run"}).content.decode()
    assert ">step.requested</span>" not in only and ">run.taken</span>" in only
    assert "Nothing matches." in client.get("/audit/", {"run": str(foreign.pk)}).content.decode()


def test_settings_are_ones_own(client, alice, bob):
    client.force_login(alice)
    answer = client.post("/me/", {"theme": "dark", "time_zone": "Asia/Kolkata"})
    assert answer.status_code == 302
    alice.refresh_from_db()
    bob.refresh_from_db()
    assert (alice.theme, alice.time_zone, alice.shortcuts) == ("dark", "Asia/Kolkata", False)
    assert bob.theme == ""
    page = client.get("/me/").content.decode()
    assert '<html lang="en" data-theme="dark">' in page
    assert 'data-shortcuts="off"' in page
    assert client.post("/me/", {"theme": "pink", "time_zone": "Mars/Base"}).status_code == 422
    alice.refresh_from_db()
    assert alice.time_zone == "Asia/Kolkata"


def test_a_stale_press_of_anothers_run_changes_nothing(client, team):
    run = failed_run(team)
    client.force_login(make_user("eve", roles=("on-call",), team=make_team("elsewhere")))
    client.post(f"/runs/{run.pk}/compensate/", {"token": "x"})
    assert again(run).state == RunState.FAILED
