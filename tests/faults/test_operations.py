"""Workers that look alive and take nothing, connections that break, and clocks of other places."""

from __future__ import annotations

import datetime as dt
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.utils import timezone

from runs import services
from runs.models import Run, Step
from sagaboard.celery import app
from sagaboard.templatetags import words
from tests.faults.test_lost_answers import ask as ask_site
from tests.faults.test_lost_answers import open_run, puts
from tests.site import until

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


# OPS-03


def test_ops_03_a_page_shows_the_viewers_zone_and_utc_where_an_hour_comes_twice():
    twice = [dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC) for hour in (0, 1)]
    with timezone.override("Europe/Berlin"):
        shown = [words.when(moment) for moment in twice]
        assert [timezone.localtime(moment).hour for moment in twice] == [2, 2]
    assert ["25 Oct 2026, 00:30:00 UTC" in shown[0], "25 Oct 2026, 01:30:00 UTC" in shown[1]] == [True, True]


def test_ops_03_lint_forbids_a_naive_now():
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "DTZ" in settings["tool"]["ruff"]["lint"]["select"]
