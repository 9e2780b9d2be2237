"""Steps reach a worker's processes over lists: a process or the worker dies, ends or is held up, and nothing waits for the sweep.

Beat stands still in most of these, so that what goes on does so without it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings

from runs import bell, services
from runs.models import LogEntry, Run, Step
from sagaboard.celery import app
from tests.faults.test_lost_answers import ask, open_run, puts, walked
from tests.site import Site, family, until

pytestmark = pytest.mark.django_db(transaction=True)
STEPS_PER_PROCESS = 8


@pytest.fixture(scope="module")
def site_of_module(django_db_setup, django_db_blocker):
    folder = Path(tempfile.mkdtemp(prefix="sagaboard-site-"))
    folder.chmod(0o711)
    site = Site(folder, bounds={"SAGABOARD_STEPS_PER_PROCESS": str(STEPS_PER_PROCESS), "SAGABOARD_QUEUES": "board"})
    try:
        yield site.start()
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def standing_still(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def without_sweep(site):
    with standing_still(site.supervisor.pids["beat"]):
        time.sleep(0.5)  # what it asked for is over
        yield


def processes(site: Any) -> set[int]:
    """The worker's, without its main one."""
    main = until(lambda: site.supervisor.pids.get("worker-steps"))
    return family([main]) - {main}


def workers_of(run: int) -> list[str]:
    """Who began the steps, in their order."""
    started = LogEntry.objects.filter(run=run, event="step.started").order_by("seq")
    return [actor.rpartition(":")[2] for actor in started.values_list("actor", flat=True)]


def broker() -> Any:
    return redis.Redis.from_url(django_settings.REDIS_URL)


@pytest.mark.usefixtures("without_sweep")
def test_what_a_killed_process_held_before_its_claim_is_taken_by_another(site, agent_token):
    run = open_run(site, agent_token, "one")
    site.arm("commit.before@step.started", "kill")
    assert ask(site, agent_token, run, "one").json()["state"] == "done"
    assert (len(site.fired()), len(puts(site))) == (1, 1)


@pytest.mark.usefixtures("without_sweep")
def test_killed_processes_are_replaced_and_take_steps_within_seconds(site, agent_token):
    run = open_run(site, agent_token, *"abcd")
    main = site.supervisor.pids["worker-steps"]
    for name in "abcd":
        # One of them may just be replaced, since it took so many steps.
        until(lambda: len(processes(site)) == 2, 5)
        gone = processes(site)
        for pid in gone:
            os.kill(pid, signal.SIGKILL)
        until(lambda gone=gone: len(processes(site) - gone) == 2, 5)
        began = time.monotonic()
        assert ask(site, agent_token, run, name).json()["state"] == "done"
        assert time.monotonic() - began < 5
    assert site.supervisor.pids["worker-steps"] == main


@pytest.mark.usefixtures("without_sweep")
def test_a_message_of_celery_is_handled_although_every_process_drains(site, agent_token, monkeypatch):
    """As an older version sends it, in a rolling deploy."""
    run = Run.objects.get(pk=open_run(site, agent_token, *"abc"))
    monkeypatch.setattr(bell, "_send", lambda task, ids, queue=None: None)
    for name in "abc":
        step = services.request_step(run, token=agent_token, capability="put_item", args={"name": name}, ref=name).step
        app.send_task("runs.tasks.invoke_step", args=(run.pk, step.pk))
        until(lambda step=step: Step.objects.get(pk=step.pk).state == "done", 10, "the message found no process")
    # And they drain again.
    assert ask(site, agent_token, open_run(site, agent_token, "d"), "d").json()["state"] == "done"


@pytest.mark.usefixtures("without_sweep")
def test_whatever_is_rung_for_at_a_named_queue_goes_over_its_list(site, agent_token, monkeypatch):
    """A call and its way back; as what a look and a drill do, they would find no process where messages carried them."""
    run = Run.objects.get(pk=open_run(site, agent_token, "one"))
    at_board = lambda task, ids, queue=None: bell._put("board", json.dumps([task, *ids]).encode())  # noqa: E731
    monkeypatch.setattr(bell, "_send", at_board)
    services.request_step(run, token=agent_token, capability="put_item", args={"name": "one"}, ref="one")
    until(lambda: run.steps.get().state == "done", 10)
    services.fail_run(run, token=agent_token, reason="x")
    services.compensate_run(run, actor="person:Otto", by=agent_token.people["oncall"])
    assert walked(run.pk) == "compensated"


def test_a_list_that_is_emptied_is_filled_by_the_sweep(site, agent_token):
    run = open_run(site, agent_token, "one")
    beat, idle = site.supervisor.pids["beat"], processes(site)
    with standing_still(beat):
        with standing_still(*idle):
            time.sleep(0.5)  # Their waiting at the broker is over.
            ask(site, agent_token, run, "one", wait=0)
            assert broker().llen(bell.list_of("steps")) == 1
            broker().flushdb()
        time.sleep(1)
        assert Step.objects.get(run=run).state == "requested"
    until(lambda: Step.objects.get(run=run).state == "done", 20)
    assert len(puts(site)) == 1


@pytest.mark.usefixtures("without_sweep")
def test_a_worker_that_ends_brings_its_steps_to_their_end_and_takes_no_further(site, agent_token):
    """The next one begins with what it left; nothing of its drainers is left behind."""
    runs = [open_run(site, agent_token, name) for name in "abcd"]
    site.world.fault("shelf", method="PUT", delay_before=1.5, times=0)
    ended, old = site.supervisor.pids["worker-steps"], processes(site)
    for run, name in zip(runs, "abcd", strict=True):
        if name in "ab":
            site.arm(f"claim.committed@put_item#{run}", "sleep 2.5")
        ask(site, agent_token, run, name, wait=0)
        until(lambda: len(site.fired()) == min("abcd".index(name) + 1, 2))  # noqa: B023
    os.kill(ended, signal.SIGTERM)
    until(lambda: Step.objects.filter(run__in=runs, state="done").count() == 4)
    assert site.supervisor.pids.get("worker-steps") != ended
    by = [int(pid) for run in runs for pid in workers_of(run)]
    assert [pid in old for pid in by] == [True, True, False, False]
    assert not LogEntry.objects.filter(run__in=runs, event="step.unknown").exists()
    assert len(puts(site)) == 4
    until(lambda: not [name for name in ("steps", bell.list_of("steps")) if broker().llen(name)], 5)


@pytest.mark.usefixtures("without_sweep")
def test_drainers_that_wait_for_a_process_when_the_broker_breaks_its_connections_begin_all_the_same(site, agent_token, monkeypatch):
    """Celery then throws away what no process has begun: of its messages, which come again, and of the drainers, which were none."""
    runs = [Run.objects.get(pk=open_run(site, agent_token, name)) for name in "ab"]
    last = open_run(site, agent_token, *"xy")
    site.world.fault("shelf", method="PUT", delay_before=1.5, times=0)
    monkeypatch.setattr(bell, "_send", lambda task, ids, queue=None: None)
    for number, (run, name) in enumerate(zip(runs, "ab", strict=True)):
        site.arm(f"claim.committed@put_item#{run.pk}", "sleep 2.5")
        step = services.request_step(run, token=agent_token, capability="put_item", args={"name": name}, ref=name).step
        app.send_task("runs.tasks.invoke_step", args=(run.pk, step.pk))
        until(lambda number=number: len(site.fired()) == number + 1, 10)
    broker().client_kill_filter(_type="normal", skipme=True)
    until(lambda: Step.objects.filter(run__in=runs, state="done").count() == 2, 20)
    for name in "xy":
        ask(site, agent_token, last, name, wait=0)
    until(lambda: Step.objects.filter(run=last, state="running").count() == 2, 10, "not every process drains")


def test_a_process_is_replaced_after_its_number_of_steps(site, agent_token):
    names = [f"n{number}" for number in range(4 * STEPS_PER_PROCESS)]
    run = open_run(site, agent_token, *names)
    main = site.supervisor.pids["worker-steps"]
    for name in names:
        assert ask(site, agent_token, run, name).json()["state"] == "done"
    by = workers_of(run)
    assert len(by) == len(names), "a step was begun twice"
    assert len(set(by)) >= 4
    assert max(by.count(pid) for pid in by) <= STEPS_PER_PROCESS + 1
    assert site.supervisor.pids["worker-steps"] == main


def test_a_worker_all_of_whose_processes_are_busy_does_not_stand_still(site, agent_token):
    """For longer than an idle one may, while a third step waits."""
    runs = [open_run(site, agent_token, name) for name in "abc"]
    main = site.supervisor.pids["worker-steps"]
    for run, name in zip(runs[:2], "ab", strict=True):
        site.arm(f"claim.committed@put_item#{run}", "sleep 8")
        ask(site, agent_token, run, name, wait=0)
    until(lambda: len(site.fired()) == 2)
    ask(site, agent_token, runs[2], "c", wait=0)
    until(lambda: Step.objects.filter(run__in=runs, state="done").count() == 3)
    assert site.supervisor.pids["worker-steps"] == main
    assert "takes nothing" not in site.log()
