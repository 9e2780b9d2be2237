"""Answers, messages and workers that get lost, on real processes; effects are counted in the target's ledger."""

from __future__ import annotations

from typing import Any

import pytest

from runs.models import LogEntry, Page, Run, Step
from tests.site import until

pytestmark = pytest.mark.django_db(transaction=True)


def open_run(site: Any, token: Any, *names: str, capability: str = "put_item", **args: Any) -> int:
    plan = [{"ref": name, "capability": capability, "args": {"name": name, **args}} for name in names]
    return int(site.api(token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"])


def ask(site: Any, token: Any, run: int, name: str, *, wait: int = 20, capability: str = "put_item", **args: Any) -> Any:
    body = {"ref": name, "capability": capability, "args": {"name": name, **args}}
    return site.api(token, "POST", f"/runs/{run}/steps", body, Prefer=f"wait={wait}")


def puts(site: Any, shelf: str = "shelf") -> list[str]:
    return [entry["path"] for entry in site.world.effects(shelf) if entry["method"] == "PUT"]


def deletes(site: Any, shelf: str = "shelf") -> list[str]:
    return [entry["path"] for entry in site.world.effects(shelf) if entry["method"] == "DELETE"]


def state_of(run: int) -> str:
    return str(Run.objects.get(pk=run).state)


def walked(run: int) -> str:
    """The state in which the way back of the run ended."""
    return str(until(lambda: (found := state_of(run)) != "compensating" and found))


def test_eng_07_a_step_whose_answer_was_lost_is_found_and_undone(site, agent_token):
    run = open_run(site, agent_token, "one")
    site.world.fault("shelf", method="PUT", answer="drop", times=1)
    assert ask(site, agent_token, run, "one").json()["state"] == "done"
    events = list(LogEntry.objects.filter(run=run).order_by("seq").values_list("event", flat=True))
    assert events.index("step.requested") < events.index("step.started") < events.index("step.unknown") < events.index("step.done")
    # Found, not done over: that the target would have given one effect for one key proves nothing.
    assert LogEntry.objects.get(run=run, event="step.done").data["how"] == "probed"
    assert len([entry for entry in site.world.ledger("shelf") if entry["method"] == "PUT"]) == 1
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "compensated"
    assert len(puts(site)) == len(deletes(site)) == 1


def test_eng_07_without_a_probe_the_run_stops_for_a_person(site, agent_token):
    run = open_run(site, agent_token, "one", capability="blind_item")
    site.world.fault("shelf", method="PUT", answer="drop", times=1)
    ask(site, agent_token, run, "one", capability="blind_item", wait=1)
    until(lambda: Page.objects.filter(run=run).exists(), 30)
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "stuck"
    assert Step.objects.get(run=run).state == "unknown"
    assert deletes(site) == []


def test_eng_03_nothing_is_published_before_the_commit(site, agent_token, monkeypatch):
    """Also when the worker is quicker than the commit: the commit is held up, and no worker gets to see the step."""
    import threading

    import psycopg
    from django.db import connection

    from runs import bell, services
    from runs.services import asking

    sent: list[tuple[str, bool]] = []

    def visible(task: str, ids: tuple[int, ...]) -> None:
        with psycopg.connect(connection.owner_url) as other:
            found = other.execute("SELECT 1 FROM runs_step WHERE id = %s AND state = 'requested'", [ids[1]]).fetchone()
        sent.append((task, found is not None))

    monkeypatch.setattr(bell, "_send", visible)
    run = Run.objects.get(pk=open_run(site, agent_token, "one"))
    services.request_step(run, token=agent_token, capability="put_item", args={"name": "one"}, ref="one")
    assert sent == [("runs.tasks.invoke_step", True)]

    original = asking._remember
    monkeypatch.setattr(asking, "_remember", lambda *a: (original(*a), (_ for _ in ()).throw(RuntimeError("rolled back"))))
    other = Run.objects.get(pk=open_run(site, agent_token, "two"))
    with pytest.raises(RuntimeError):
        services.request_step(other, token=agent_token, capability="put_item", args={"name": "two"}, ref="two", idempotency_key="k")
    assert len(sent) == 1
    assert threading.active_count() >= 1


def test_eng_03_a_task_without_its_row_ends_and_says_so(site, agent_token, caplog):
    from runs.engine import invoke

    run = open_run(site, agent_token, "one")
    invoke.invoke(run, 999_999)
    assert "No step 999999" in caplog.text


@pytest.mark.parametrize("where", ["the publish raises", "the process dies before it"])
def test_eng_04_a_lost_publish_is_found_by_the_sweep(site, agent_token, client, monkeypatch, where):
    """Approved and committed, the message to the broker lost: the page says yes, and it is sent once all the same."""
    from outbox.models import Item
    from runs import bell

    run = open_run(site, agent_token, "news", capability="send_out")
    assert ask(site, agent_token, run, "news", capability="send_out", wait=0).json()["state"] == "queued"
    site.api(agent_token, "POST", f"/runs/{run}/finish")
    site.api(agent_token.checker, "PUT", f"/runs/{run}/checks/ci", {"state": "success"})
    item = Item.objects.get(step__run=run)
    assert item.state == "awaiting"

    def lost(task: str, ids: tuple[int, ...]) -> None:
        if where == "the publish raises":
            raise ConnectionError("no broker")

    monkeypatch.setattr(bell, "_send", lost)
    client.force_login(agent_token.people["reviewer"])
    answer = client.post(f"/outbox/{item.pk}/approve/", {"digest": item.digest})
    assert answer.status_code in (200, 302), answer.content.decode()
    until(lambda: Step.objects.get(run=run).state == "sent", 30)
    assert len([entry for entry in site.world.effects("shelf") if entry["method"] == "POST"]) == 1
