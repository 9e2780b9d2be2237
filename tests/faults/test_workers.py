"""Workers that are slow, killed, stopped, of another version, or told the same thing twice; effects are counted in the target's ledger."""

from __future__ import annotations

import os
import signal
from typing import Any

import httpx
import pytest

from runs import bell, services
from runs.models import Alert, LogEntry, Run, Step
from sagaboard.celery import app
from tests.faults.test_lost_answers import ask, deletes, open_run, puts, state_of, walked
from tests.site import until

pytestmark = pytest.mark.django_db(transaction=True)


def called(site: Any, method: str) -> list[str]:
    """Every call of this kind that reached the shelf, whether it changed anything or not."""
    return [entry["path"].rpartition("/")[2] for entry in site.world.ledger("shelf") if entry["method"] == method]


def left(site: Any) -> list[dict[str, Any]]:
    """What lies on the shelf."""
    token = (site.folder / "world" / "tokens" / "shelf").read_text()
    found = httpx.get(f"{site.targets['shelf']['base_url']}/items", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    return list(found.json()["items"])


# ENG-01


def test_eng_01_what_the_broker_delivers_again_while_it_runs_calls_nothing(site, agent_token):
    """A step, a send and a walk that take long, each told to the workers again and again meanwhile."""
    run = open_run(site, agent_token, "one")
    site.world.fault("shelf", method="PUT", delay_after=1.5)
    ask(site, agent_token, run, "one", wait=0)
    step = until(lambda: Step.objects.filter(run=run, state="running").first())
    for task in ("invoke_step", "look_for_step") * 2:
        app.send_task(f"runs.tasks.{task}", args=(run, step.pk))
    until(lambda: Step.objects.get(pk=step.pk).state == "done")
    assert called(site, "PUT") == ["one"]
    assert LogEntry.objects.filter(run=run, event="step.started").count() == 1
    assert not LogEntry.objects.filter(run=run, event="step.unknown").exists()
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.world.fault("shelf", method="DELETE", delay_after=1.5)
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    until(lambda: Step.objects.get(pk=step.pk).state == "undoing")
    for _ in range(3):
        app.send_task("runs.tasks.compensate_run", args=(run,))
    assert walked(run) == "compensated"
    assert called(site, "DELETE") == ["one"]
    assert LogEntry.objects.filter(run=run, event="undo.started").count() == 1


def test_eng_01_a_send_that_is_delivered_again_goes_out_once(site, agent_token):
    """Through a slot that honours no key: what reached it is what went out."""
    run = open_run(site, agent_token, "news", capability="send_item", shelf="shelf-plain")
    ask(site, agent_token, run, "news", capability="send_item", shelf="shelf-plain", wait=0)
    site.world.fault("shelf-plain", method="POST", delay_after=1.5)
    site.api(agent_token, "POST", f"/runs/{run}/finish")
    site.api(agent_token.checker, "PUT", f"/runs/{run}/checks/ci", {"state": "success"})
    step = until(lambda: Step.objects.filter(run=run, state="running").first())
    for task in ("invoke_step", "look_for_step") * 2:
        app.send_task(f"runs.tasks.{task}", args=(run, step.pk))
    until(lambda: Step.objects.get(pk=step.pk).state == "sent")
    assert len([entry for entry in site.world.ledger("shelf-plain") if entry["method"] == "POST"]) == 1


def test_eng_01_what_waits_has_its_time_in_the_database_and_never_in_the_broker(site, agent_token, monkeypatch):
    sent = []
    monkeypatch.setattr(type(app), "send_task", lambda self, name, **options: sent.append(options))
    bell._send("runs.tasks.invoke_step", (1, 2))
    assert sent == [{"args": (1, 2), "retry": False, "queue": None}]


# ENG-02


@pytest.mark.parametrize("action", ["kill", "kill-worker"])
@pytest.mark.parametrize("point", ["claim.committed", "prepare.called", "prepare.committed", "do.before", "do.after", "done.committed"])
def test_eng_02_a_worker_killed_in_a_step_leaves_one_effect(site, agent_token, point, action):
    run = open_run(site, agent_token, "one")
    site.arm(f"{point}@put_item", action)
    ask(site, agent_token, run, "one", wait=1)
    until(lambda: Step.objects.get(run=run).state == "done", what="the step was not done")
    assert site.fired() == [f"{point}@put_item"]
    assert len(puts(site)) == 1


# ENG-05


def test_eng_05_messages_of_another_version_are_lost_and_no_work_is(site, agent_token, monkeypatch, client):
    """The web that publishes here is of another version: the workers know none of its names."""
    real = bell._send
    monkeypatch.setattr(bell, "_send", lambda task, ids, queue=None: real(task.replace("runs.tasks.", "runs.tasks.v2_"), ids, queue))
    names = [f"n{number}" for number in range(5)]
    run = Run.objects.get(pk=open_run(site, agent_token, *names))
    for name in names:
        services.request_step(run, token=agent_token, capability="put_item", args={"name": name}, ref=name)
    until(lambda: set(run.steps.values_list("state", flat=True)) == {"done"})
    assert sorted(puts(site)) == sorted(f"/shelf/items/{name}" for name in names)
    services.fail_run(run, token=agent_token, reason="x")
    services.compensate_run(run, actor="person:Otto", by=agent_token.people["oncall"])
    assert walked(run.pk) == "compensated"
    assert len(deletes(site)) == len(names)
    until(lambda: Alert.objects.count() == 2)
    assert {alert.name for alert in Alert.objects.all()} == {
        "unknown task runs.tasks.v2_invoke_step",
        "unknown task runs.tasks.v2_compensate_run",
    }
    client.force_login(agent_token.people["oncall"])
    assert "which it does not know: web and workers differ in version" in client.get("/runs/").content.decode()


# ENG-09


def test_eng_09_a_compensation_waits_for_the_step_that_still_runs(site, agent_token):
    """The slow one was meant first and ends last; nothing later is undone beside it, and nothing new begins."""
    run = open_run(site, agent_token, "slow", "quick", "never")
    site.world.fault("shelf", method="PUT", path="/items/slow", delay_before=1.5)
    ask(site, agent_token, run, "slow", wait=0)
    until(lambda: Step.objects.get(run=run, ref="slow").state == "running")
    assert ask(site, agent_token, run, "quick").json()["state"] == "done"
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert ask(site, agent_token, run, "never", wait=0).status_code == 409
    assert walked(run) == "compensated"
    entries = [entry for entry in site.world.ledger("shelf") if entry["method"] in ("PUT", "DELETE")]
    assert called(site, "DELETE") == ["quick", "slow"]
    first_undo = next(entry for entry in entries if entry["method"] == "DELETE")
    assert first_undo["started"] >= next(entry["ended"] for entry in entries if entry["path"] == "/shelf/items/slow")
    assert left(site) == []


def test_eng_09_an_effect_that_comes_after_its_caller_gave_up_is_undone_too(site, agent_token):
    run = open_run(site, agent_token, "late")
    site.world.fault("shelf", method="PUT", delay_before=2.6)
    ask(site, agent_token, run, "late", wait=0)
    until(lambda: Step.objects.get(run=run).state == "running")
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "compensated"
    until(lambda: called(site, "PUT") == ["late"] and site.world.ledger("shelf")[-1]["ended"])
    assert (left(site), called(site, "DELETE")) == ([], ["late"])


# ENG-10


@pytest.mark.parametrize("point", ["do.before", "do.after"])
def test_eng_10_a_worker_that_wakes_after_its_lease_does_and_overwrites_nothing(site, agent_token, point):
    run = open_run(site, agent_token, "one", shelf="shelf-plain")
    site.arm(f"{point}@put_item", "stop")
    ask(site, agent_token, run, "one", wait=0, shelf="shelf-plain")
    stopped = stopped_at(site, point)
    try:
        until(lambda: Step.objects.get(run=run).state == "done", what="nobody took it over")
        before = Step.objects.values().get(run=run)
    finally:
        os.kill(stopped, signal.SIGCONT)
    until(lambda: LogEntry.objects.filter(run=run, event="step.late_effect", attempt=1).exists(), what="the late one is not in the log")
    assert Step.objects.values().get(run=run) == before
    tried = [entry for entry in site.world.ledger("shelf-plain") if entry["method"] == "PUT"]
    assert len(tried) == 1


def test_eng_10_a_walker_that_wakes_after_its_lease_undoes_nothing(site, agent_token):
    run = open_run(site, agent_token, "one")
    assert ask(site, agent_token, run, "one").json()["state"] == "done"
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.arm("undo.before@put_item", "stop")
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    stopped = stopped_at(site, "undo.before")
    try:
        assert walked(run) == "compensated"
        site.world.change("shelf", name="one", value="a colleague's")
    finally:
        os.kill(stopped, signal.SIGCONT)
    # It is at work again, which shows in what it does next.
    other = open_run(site, agent_token, "two")
    assert ask(site, agent_token, other, "two").json()["state"] == "done"
    assert called(site, "DELETE") == ["one"]
    assert [item["value"] for item in left(site) if item["name"] == "one"] == ["a colleague's"]


def stopped_at(site: Any, point: str) -> int:
    """The process that stands still at `point`."""
    until(site.fired)
    (fired,) = site.failpoints.glob(f"{point}@*.fired.*")
    return int(fired.suffix[1:])


# ENG-13


@pytest.mark.parametrize("point", ["walk.claimed", "undo.checked", "undo.before", "undo.after", "undo.verified", "undo.committed"])
def test_eng_13_a_worker_killed_in_an_undo_leaves_nothing_behind(site, agent_token, point):
    run = open_run(site, agent_token, "one", "two")
    for name in ("one", "two"):
        # The worker that the test before this one killed may take longer to come back than a caller waits.
        until(lambda name=name: ask(site, agent_token, run, name).json()["state"] == "done", 100)
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.arm(point, "kill")
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    until(site.fired)
    # A person may press at any time, and joins the walk there is.
    pressed = site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate").status_code
    assert pressed == 202 or state_of(run) == "compensated"
    until(lambda: state_of(run) == "compensated", 100, "the run was not compensated")
    assert site.fired() == [point]
    assert [path.rpartition("/")[2] for path in deletes(site)] == ["two", "one"]
