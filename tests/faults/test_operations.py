"""Workers that look alive and take nothing, connections that break, and clocks of other places."""

from __future__ import annotations

import datetime as dt
import re
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from runs import services
from runs.locking import locked_run
from runs.models import Run, Step
from sagaboard.accounts.models import Token
from sagaboard.celery import app
from sagaboard.templatetags import words
from tests.factories import do, make_run, make_team, make_token, make_user
from tests.faults.test_lost_answers import ask as ask_site
from tests.faults.test_lost_answers import open_run, puts
from tests.site import Site, until

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = [f"n{number}" for number in range(40)]


def request_all(run: int, token: Any, names: list[str]) -> None:
    for name in names:
        services.request_step(Run.objects.get(pk=run), token=token, capability="put_item", args={"name": name}, ref=name)


def all_done(run: int, names: list[str]) -> bool:
    return Step.objects.filter(run=run, ref__in=names, state="done").count() == len(names)


# OPS-01


def test_ops_01_work_goes_on_after_the_broker_was_away(site, agent_token):
    run = open_run(site, agent_token, *NAMES[:9])
    broker = redis.Redis.from_url(django_settings.REDIS_URL)
    for number in range(3):
        request_all(run, agent_token, NAMES[number * 3 : number * 3 + 3])
        broker.client_kill_filter(_type="normal", skipme=True)
        broker.client_kill_filter(_type="pubsub", skipme=True)
        time.sleep(0.3)
    broker.client_pause(2000)
    until(lambda: all_done(run, NAMES[:9]), 60, "the work did not go on")
    assert len(puts(site)) == 9


def test_ops_01_a_worker_that_answers_and_takes_nothing_is_found_out_and_started_anew(site, agent_token, settings, client):
    run = open_run(site, agent_token, "one")
    worker = site.supervisor.pids["worker-steps"]
    app.control.cancel_consumer("steps", reply=True, timeout=5)
    assert app.control.ping(timeout=5), "it is to look alive"
    ask_site(site, agent_token, run, "one", wait=0)
    settings.LATE_AFTER = 1
    until(lambda: client.get("/workz").status_code == 503, what="nobody saw that nothing moves")
    client.force_login(agent_token.people["oncall"])
    assert "Sending and undoing are delayed since" in client.get("/runs/").content.decode()
    until(lambda: all_done(run, ["one"]), 60, "nobody started it anew")
    assert site.supervisor.pids["worker-steps"] != worker
    assert "takes nothing although messages wait in steps" in site.log()
    until(lambda: client.get("/workz").status_code == 200)
    assert "delayed since" not in client.get("/runs/").content.decode()


# OPS-02


def test_ops_02_children_whose_connections_break_go_on_with_their_own(tmp_path, site, agent_token):
    more = Site(tmp_path / "more", workers=8, more_targets=site.targets)
    tmp_path.chmod(0o711)
    names = [f"t{number}" for number in range(120)]
    run = open_run(site, agent_token, *names)
    try:
        more.start()
        children = {**site.supervisor.pids, **more.supervisor.pids}
        for part in (names[:40], names[40:80], names[80:]):
            request_all(run, agent_token, part)
            # What a restart of PostgreSQL is to its clients, in the middle of their work.
            with connection.cursor() as cursor:
                cursor.execute("SET ROLE NONE")
                cursor.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                assert cursor.fetchone()[0] >= 8, "there is nothing to break"
                cursor.execute("RESET ROLE")
        until(lambda: all_done(run, names), 90, "a broken connection was kept")
        assert {**site.supervisor.pids, **more.supervisor.pids} == children, "a process was started anew"
        said, made = site.log() + more.log(), puts(site)
    finally:
        more.stop()
    assert sorted(path.rpartition("/")[2] for path in made) == sorted(names), "an effect is missing or doubled"
    for step in Step.objects.filter(run=run):
        assert step.effect is not None and step.ref in str(step.effect), f"{step.ref} has the result of another: {step.effect}"
    assert not [word for word in ("lost synchronization", "protocol error", "another command is already in progress") if word in said]


# OPS-03

ZONES = ("UTC", "Asia/Kolkata", "America/New_York")


@pytest.fixture
def zone(request, monkeypatch):
    """The machine and the database server are set to that zone, and the person to another."""
    name = connection.settings_dict["NAME"]
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    as_server(f"ALTER DATABASE {name} SET timezone TO '{request.param}'")
    with timezone.override("Europe/Berlin"):
        yield
    as_server(f"ALTER DATABASE {name} RESET timezone")
    monkeypatch.undo()
    time.tzset()


def as_server(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET ROLE NONE")
        cursor.execute(statement)
    connection.close()  # the next one begins with what the server says


@pytest.mark.parametrize("zone", ZONES, indirect=True)
def test_ops_03_leases_approvals_and_tokens_run_out_at_the_same_moment_everywhere(zone, alice):
    now = dt.datetime.now(dt.UTC)
    token = make_token(waiting_items=10)
    run = make_run(token=token, plan=[{"ref": "tell", "capability": "tell_client", "args": {"name": "news", "value": "ready"}}])
    step = do(run, "tell")
    services.finish_run(run, token=token)
    services.report_check(run, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    with locked_run(run.pk) as locked:
        locked.take_lease(60, "worker")
        locked.save(update_fields=["lease_until"])
    run.refresh_from_db()
    ends = [(step.item.awaiting_since, 0), (run.lease_until, 60), (token.expires_at, 90 * 24 * 3600)]
    ends.append((step.item.expires_at, step.item.policy.open_for if step.item.policy else 4 * 3600))
    assert [abs((moment - now).total_seconds() - seconds) < 30 for moment, seconds in ends] == [True] * 4


def test_ops_03_a_day_across_the_autumn_change_has_24_hours(monkeypatch):
    evening = dt.datetime(2026, 10, 24, 20, tzinfo=dt.UTC)
    monkeypatch.setattr(timezone, "now", lambda: evening)
    with timezone.override("Europe/Berlin"):
        token, _ = Token.issue(name="short", scope="agent", team=make_team(), person=make_user(), days=1)
    assert token.expires_at - evening == dt.timedelta(hours=24)


def test_ops_03_the_api_gives_times_with_their_offset_and_takes_none(client, token):
    run = make_run(token=token)
    do(run, "one")
    answer = client.get(f"/api/v1/runs/{run.number}", headers={"Authorization": f"Bearer {token.text}"}).json()
    moments = [value for key, value in _fields(answer) if key.endswith("_at") and value]
    assert len(moments) >= 3
    assert all(dt.datetime.fromisoformat(moment).tzinfo for moment in moments), moments
    schemas = client.get("/api/v1/openapi.json").json()
    bodies = [operation["requestBody"] for path in schemas["paths"].values() for operation in path.values() if "requestBody" in operation]
    taken = {name for body in bodies for name in re.findall(r"#/components/schemas/(\w+)", str(body))}
    assert taken and not [name for name in taken if "date-time" in str(schemas["components"]["schemas"][name])]


def _fields(document: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield key, value
            yield from _fields(value)
    elif isinstance(document, list):
        for one in document:
            yield from _fields(one)


def test_ops_03_a_page_shows_the_viewers_zone_and_utc_where_an_hour_comes_twice():
    twice = [dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC) for hour in (0, 1)]
    with timezone.override("Europe/Berlin"):
        shown = [words.when(moment) for moment in twice]
        assert [timezone.localtime(moment).hour for moment in twice] == [2, 2]
    assert ["25 Oct 2026, 00:30:00 UTC" in shown[0], "25 Oct 2026, 01:30:00 UTC" in shown[1]] == [True, True]


def test_ops_03_lint_forbids_a_naive_now():
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "DTZ" in settings["tool"]["ruff"]["lint"]["select"]
