"""The way back meets a world that others live in: order, things already gone, other people's changes, strangers."""

from __future__ import annotations

from typing import Any

import pytest

from corrections.models import Correction
from runs import services
from runs.engine import compensate
from runs.models import LogEntry, Page, Run, Step
from sagaboard.celery import app
from tests.factories import do, make_run, prove
from tests.faults.test_lost_answers import ask, open_run, walked
from tests.site import until
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
THREE = [{"ref": name, "capability": "put_thing", "args": {"name": name}} for name in ("one", "two", "three")]


def failed_run(token: Any, plan: list[dict[str, Any]]) -> Run:
    run = make_run(token=token, plan=plan)
    for call in plan:
        assert do(run, call["ref"]).state == "done"
    services.fail_run(run, token=token, reason="CI died")
    return run


def press(run: Run, **how: Any) -> Run:
    services.compensate_run(run, actor="person:Alice", **how)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    return run


def events(run: Run, prefix: str = "") -> list[str]:
    return [event for event in run.entries.order_by("seq").values_list("event", flat=True) if event.startswith(prefix)]


# ENG-11


def test_eng_11_undo_is_the_exact_reverse_of_the_intents_one_at_a_time(site, agent_token):
    """Five steps, two of which overlapped and ended the other way round; eight workers are told to walk at once."""
    names = ["one", "two", "three", "four", "five"]
    run = open_run(site, agent_token, *names)
    ask(site, agent_token, run, "one")
    site.world.fault("shelf", method="PUT", path="/items/two", delay_before=2.5)
    ask(site, agent_token, run, "two", wait=0)
    until(lambda: Step.objects.get(run=run, ref="two").state == "running")
    ask(site, agent_token, run, "three")
    until(lambda: Step.objects.get(run=run, ref="two").state == "done")
    for name in ("four", "five"):
        ask(site, agent_token, run, name)
    ended = list(Step.objects.filter(run=run).order_by("done_at").values_list("ref", flat=True))
    assert ended.index("three") < ended.index("two"), "they did not overlap, so nothing is shown"
    # Before it, so that a second walk would still find the effect, and after it.
    site.world.fault("shelf", method="DELETE", delay_before=0.2, delay_after=0.2, times=0)
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    for _ in range(8):
        app.send_task("runs.tasks.compensate_run", args=(run,))
    assert walked(run) == "compensated"
    undone = [entry for entry in site.world.ledger("shelf") if entry["method"] == "DELETE"]
    assert [entry["path"].rpartition("/")[2] for entry in undone] == list(reversed(names))
    assert all(before["ended"] <= after["started"] for before, after in zip(undone, undone[1:], strict=False))
    order = [(entry.event, entry.step.ref) for entry in LogEntry.objects.filter(run=run, event__startswith="undo.").order_by("seq")]
    assert order == [(event, name) for name in reversed(names) for event in ("undo.started", "undo.verified")]


# ENG-12 (its first half belongs to every walk)


def test_eng_12_an_undo_that_answers_and_does_nothing_stops_the_walk(token):
    run = failed_run(token, THREE)
    world.before["undo two"] = lambda call: world.things.update({"kept": world.things["two"]})
    world.after["undo two"] = lambda call: world.things.update({"two": world.things["kept"]})
    press(run)
    assert run.state == "stuck"
    assert [step.state for step in run.steps.as_planned()] == ["done", "undo_failed", "undone"]
    assert Page.objects.filter(run=run, subject__contains="stuck").count() == 1
    world.after.clear()
    press(run)
    assert run.state == "compensated"
    assert world.calls("undo").count("three") == 1


# ENG-14


def test_eng_14_what_is_gone_already_is_skipped_with_its_evidence(token):
    run = failed_run(token, THREE)
    world.things.pop("two")
    press(run)
    assert run.state == "compensated"
    assert world.calls("undo") == ["three", "one"]
    skipped = LogEntry.objects.get(run=run, event="undo.skipped")
    assert (skipped.step.ref, skipped.data["evidence"]) == ("two", "verify_undone: gone")


@pytest.mark.parametrize("status", [401, 403, 502])
def test_eng_14_no_definite_answer_is_not_gone(site, agent_token, status):
    run = open_run(site, agent_token, "one")
    ask(site, agent_token, run, "one")
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.world.fault("shelf", method="GET", status=status, times=0)
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "stuck"
    assert Step.objects.get(run=run).state == "undo_failed"
    assert str(status) in Run.objects.get(pk=run).stopped_why
    assert not [entry for entry in site.world.ledger("shelf") if entry["method"] == "DELETE"]


# ENG-15


def test_eng_15_a_later_change_by_somebody_else_stops_the_walk_and_is_kept(token):
    run = failed_run(token, THREE)
    world.things["two"] = {"value": "a colleague's", "key": "theirs"}
    press(run)
    assert run.state == "stuck"
    assert run.steps.get(ref="two").state == "drifted"
    assert world.things["two"]["value"] == "a colleague's"
    assert world.calls("undo") == ["three"]


def test_eng_15_undoing_over_it_is_a_persons_choice(token):
    run = failed_run(token, THREE)
    world.things["two"] = {"value": "a colleague's", "key": "theirs"}
    press(run)
    press(run, undo_over=[2])
    assert run.state == "compensated"
    assert world.things == {}


# ENG-16


def flag_run(site: Any, token: Any) -> int:
    prove("set_flag")
    plan = [{"ref": "flag", "capability": "set_flag", "args": {"flag": "billing_panel_v1", "segment": "qa-cohort", "value": True}}]
    run = site.api(token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"]
    assert site.api(token, "POST", f"/runs/{run}/steps", plan[0], Prefer="wait=20").json()["state"] == "done"
    site.api(token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    return int(run)


def test_eng_16_a_foreign_change_of_another_segment_survives(site, agent_token):
    before = site.world.reading()["flag"]
    run = flag_run(site, agent_token)
    site.world.change("flags", segment="beta", on=True, rollout="10")
    with_beta = [s for s in site.world.reading()["flag"]["strategies"] if s not in before["strategies"] and "beta" in str(s)]
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "compensated"
    assert site.world.reading()["flag"]["strategies"] == [*before["strategies"], *with_beta]


def test_eng_16_a_foreign_change_of_the_same_segment_stops_the_walk_and_is_shown(site, agent_token):
    run = flag_run(site, agent_token)
    site.world.change("flags", segment="qa-cohort", on=True, rollout="50")
    theirs = site.world.reading()["flag"]
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "stuck"
    step = Step.objects.get(run=run)
    assert step.state == "drifted"
    assert step.undo_error
    assert site.world.reading()["flag"] == theirs


# ENG-17


def ticket_run(site: Any, token: Any) -> int:
    prove("transition_ticket")
    args = {"issue": "SAND-1", "to": "In Review", "target": "tickets-sandbox"}
    plan = [{"ref": "ticket", "capability": "transition_ticket", "args": args}]
    run = site.api(token, "POST", "/runs", {"title": "x", "plan": plan}).json()["run"]
    assert site.api(token, "POST", f"/runs/{run}/steps", plan[0], Prefer="wait=20").json()["state"] == "done"
    site.api(token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    return int(run)


def moves(site: Any) -> int:
    return len([entry for entry in site.world.effects("tickets") if entry["path"].endswith("/transitions")])


def test_eng_17_a_ticket_that_is_back_already_is_not_moved_and_its_people_are_told(site, agent_token):
    run = ticket_run(site, agent_token)
    site.world.change("tickets", issue="SAND-1", status="In Progress")
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "compensated"
    assert moves(site) == 1
    assert Correction.objects.get(run=run).place_kind == "ticket"


def test_eng_17_without_a_legal_way_it_stops_with_what_is_on_offer_and_the_draft_is_there(site, agent_token):
    run = ticket_run(site, agent_token)
    site.world.change("tickets", issue="SAND-1", status="Done")
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) == "stuck"
    assert moves(site) == 1
    assert Step.objects.get(run=run).state in ("drifted", "undo_failed")
    assert Correction.objects.filter(run=run).count() == 1


# ENG-18


def test_eng_18_a_strangers_object_of_the_same_name_is_nothing_to_undo(site, agent_token):
    """The intent is there, the call never arrived, and a person made a thing of that name."""
    run = open_run(site, agent_token, "one")
    site.world.fault("shelf", method="PUT", effect=False, answer="drop", times=1)
    site.world.change("shelf", name="one", value="a stranger's")
    ask(site, agent_token, run, "one", wait=1)
    site.api(agent_token, "POST", f"/runs/{run}/fail", {"reason": "x"})
    site.api(agent_token.on_call, "POST", f"/runs/{run}/compensate")
    assert walked(run) in ("compensated", "failed")
    assert not [entry for entry in site.world.ledger("shelf") if entry["method"] == "DELETE"]
    assert Step.objects.get(run=run).state == "failed"
