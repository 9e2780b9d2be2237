"""Drills from the page: the sandbox is named before the second press, a worker goes through the steps, the page shows them."""

import datetime as dt
import json
import re
import uuid
from functools import partial

import pytest
from django.utils import timezone
from guardian.shortcuts import assign_perm

from runs import registry, tasks
from runs.engine import windows
from runs.models import CapabilityRecord, OutsideTool, Page, Run, Step
from runs.services.drilling import start_drill
from tests.checker import forged
from tests.factories import do, make_run, make_team, make_user
from tests.faults.broker import Broker
from tests.helpers import forbidden, run_meeting
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/capabilities/show_thing/drill/"
ARGS = json.dumps({"name": "sandbox-panel"})


@pytest.fixture
def broker(monkeypatch):
    return Broker(monkeypatch)


@pytest.fixture
def drillmaster(team):
    person = make_user("dana", team=team)
    assign_perm("runs.drill_capability", person, CapabilityRecord.objects.get(name="show_thing"))
    return person


def press(client, team, **more):
    return client.post(PATH, {"arguments": ARGS, "team": team.pk, **more})


def test_two_presses_a_worker_and_three_steps_prove_the_undo(client, drillmaster, team, broker, settings):
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, "sandbox-panel": {"system": "x", "sandbox": True}}
    client.force_login(drillmaster)
    assert "Drill…" in client.get("/capabilities/show_thing/").content.decode()
    asked = press(client, team).content.decode()
    assert "<b>sandbox-panel</b>, a sandbox, and undo it now?" in asked
    assert Run.objects.count() == 0
    begun = press(client, team, confirmed="on")
    run = Run.objects.get()
    assert (begun.status_code, begun.url, run.is_drill) == (302, f"/capabilities/show_thing/drills/{run.pk}/", True)
    waiting = client.get(begun.url).content.decode()
    assert "A worker is at it" in waiting
    assert "every 2s" in waiting
    broker.deliver()
    shown = client.get(begun.url).content.decode()
    assert "Proven." in shown
    assert shown.count(": <b>done</b>") == 3
    assert "every 2s" not in shown
    assert CapabilityRecord.objects.get(name="show_thing").is_proven
    assert world.things == {}
    assert [forbidden(page) for page in (asked, waiting, shown)] == [[], [], []]


def test_an_undo_that_does_nothing_proves_nothing_and_the_page_says_so(client, drillmaster, team, broker):
    world.after["undo"] = lambda call: world.things.update({"sandbox-panel": {"value": "on", "key": call.key}})
    client.force_login(drillmaster)
    begun = press(client, team, confirmed="on")
    broker.deliver()
    shown = client.get(begun.url).content.decode()
    assert "Not proven." in shown
    assert not CapabilityRecord.objects.get(name="show_thing").is_proven


def test_a_target_that_is_no_sandbox_is_refused_and_what_was_typed_stays(client, drillmaster, team, settings):
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, "sandbox-panel": {"system": "x"}}
    client.force_login(drillmaster)
    for more in ({}, {"confirmed": "on"}):
        answer = press(client, team, **more)
        assert answer.status_code == 422
        assert "“sandbox-panel” is not a sandbox" in answer.content.decode()
        assert "sandbox-panel&quot;" in answer.content.decode()
    assert Run.objects.count() == 0


@pytest.mark.parametrize("arguments", ["nonsense", "[1]", '{"nome": "x"}'])
def test_arguments_that_do_not_fit_are_said_in_the_form(client, drillmaster, team, arguments):
    client.force_login(drillmaster)
    answer = client.post(PATH, {"arguments": arguments, "team": team.pk, "confirmed": "on"})
    assert (answer.status_code, Run.objects.count()) == (422, 0)


def test_the_form_starts_from_a_drill_that_one_sees_and_from_no_other_teams(client, drillmaster, team, broker):
    CapabilityRecord.objects.filter(name="show_thing").update(proven_version="older")
    other = make_team("elsewhere")
    theirs = start_drill("show_thing", {"name": "their secret panel"}, by=make_user("ada", roles=("admin",), team=other), team=other)
    client.force_login(drillmaster)
    for page in (client.get(PATH), client.get("/drills/")):
        assert "their secret panel" not in page.content.decode()
    assert "You can see no drill of it" in client.get("/drills/").content.decode()
    press(client, team, confirmed="on")
    assert "sandbox-panel" in client.get(PATH).content.decode()
    assert Run.objects.filter(is_drill=True).latest("pk") != theirs


def test_without_the_right_there_is_no_button_and_no_drill(client, bob, team):
    client.force_login(bob)
    assert "Drill…" not in client.get("/capabilities/show_thing/").content.decode()
    answer = press(client, team, confirmed="on")
    assert (answer.status_code, Run.objects.count()) == (403, 0)


def test_a_drill_whose_worker_was_lost_is_found_by_the_sweep(client, drillmaster, team, broker):
    client.force_login(drillmaster)
    press(client, team, confirmed="on")
    broker.waiting.clear()
    tasks.sweep()
    broker.deliver()
    assert CapabilityRecord.objects.get(name="show_thing").is_proven
    broker.waiting.clear()
    tasks.sweep()
    assert not [task for task, _ in broker.waiting if task.endswith("drill_run")]


def test_a_strangers_drill_does_not_exist(client, drillmaster, team, broker):
    client.force_login(drillmaster)
    begun = press(client, team, confirmed="on")
    client.force_login(make_user("stranger"))
    assert client.get(begun.url).status_code == 404


# One press is one drill


def test_a_second_press_of_the_same_form_shows_the_first_drill(client, drillmaster, team, broker):
    client.force_login(drillmaster)
    once = once_of(press(client, team))
    answers = [press(client, team, confirmed="on", once=once) for _ in range(2)]
    assert answers[0].url == answers[1].url
    assert Run.objects.count() == 1
    assert press(client, team, confirmed="on", once=once_of(press(client, team))).url != answers[0].url


def test_two_presses_at_once_are_one_drill(drillmaster, team, broker):
    once = uuid.uuid4()
    pressed = partial(start_drill, "show_thing", {"name": "sandbox-panel"}, by=drillmaster, team=team, once=once)
    first, second = run_meeting(pressed, pressed)
    assert first == second
    assert Run.objects.count() == 1


def test_nobodys_key_reaches_a_run_that_somebody_else_opened(client, drillmaster, team, broker, token):
    make_run(token=token)
    once = Run.objects.get().nonce
    client.force_login(drillmaster)
    press(client, team, confirmed="on", once=once)
    admin = make_user("ada", roles=("admin",), team=team)
    client.force_login(admin)
    press(client, team, confirmed="on", once=once)
    assert Run.objects.filter(is_drill=True).count() == 2


def test_all_that_are_due_are_named_first_and_drilled_by_one_press(client, drillmaster, team, broker):
    client.force_login(drillmaster)
    press(client, team, confirmed="on")
    broker.deliver()
    assert "Drill all that are due" not in client.get("/capabilities/").content.decode()
    assert "Nothing is due that you may drill." in client.get("/drills/").content.decode()
    CapabilityRecord.objects.filter(name="show_thing").update(proven_version="older")
    assert "Drill all that are due" in client.get("/capabilities/").content.decode()
    asked = client.get("/drills/")
    assert "Drill 1 capability" in asked.content.decode()
    sent = {"team": team.pk, "name": "show_thing", "once": once_of(asked)}
    for _ in range(2):
        begun = client.post("/drills/", sent).content.decode()
        assert "One drill<" in begun
    assert Run.objects.filter(is_drill=True).count() == 2
    broker.deliver()
    assert CapabilityRecord.objects.get(name="show_thing").is_proven


def test_what_was_never_drilled_wants_arguments_and_nothing_unticked_is_drilled(client, drillmaster, team):
    client.force_login(drillmaster)
    asked = client.get("/drills/").content.decode()
    assert "You can see no drill of it: give it arguments first." in asked
    assert "Drill 1" not in asked
    for sent in ({"team": team.pk, "name": "show_thing"}, {"team": team.pk}):
        assert "Nothing was due any more, or nothing was ticked." in client.post("/drills/", sent).content.decode()
    assert client.post("/drills/", {"team": "0"}).status_code == 422
    assert Run.objects.count() == 0


def test_who_may_drill_nothing_is_offered_nothing(client, bob, team):
    client.force_login(bob)
    assert "Nothing is due that you may drill." in client.get("/drills/").content.decode()
    assert client.post("/drills/", {"team": team.pk, "name": "show_thing"}).status_code == 200
    assert Run.objects.count() == 0


def once_of(answer):
    return re.search(r'name="once" value="([^"]+)"', answer.content.decode())[1]


# undo_window


def test_the_owner_is_paged_once_before_an_undo_stops_working(token, monkeypatch):
    monkeypatch.setattr(PutThing, "undo_window", 3600.0)
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}])
    do(run, "one")
    windows.ending()
    assert not Page.objects.exists()
    Step.objects.update(done_at=timezone.now() - dt.timedelta(minutes=50))
    for _ in range(2):
        windows.ending()
    (told,) = Page.objects.all()
    assert (told.person, "can't be undone for much longer" in told.subject) == (run.owner, True)


def test_nobody_is_paged_for_what_is_over(token, monkeypatch):
    monkeypatch.setattr(PutThing, "undo_window", 3600.0)
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}])
    do(run, "one")
    Step.objects.update(done_at=timezone.now() - dt.timedelta(minutes=50))
    forged(run, "it is over, however it got there")
    Run.objects.update(state="succeeded")
    windows.ending()
    assert not Page.objects.exists()


# Tools outside


def test_a_tool_outside_is_in_the_same_table_and_loud_until_somebody_writes_its_undo(client, admin_user):
    client.force_login(admin_user)
    tool = {"name": "shell", "reached_by": "builder, by its shell", "lives_in": "its machine", "read_by": "machines", "undo": ""}
    assert client.post("/admin/runs/outsidetool/add/", tool).status_code == 302
    assert OutsideTool.objects.get().added_by == str(admin_user)
    page = client.get("/capabilities/").content.decode()
    assert "NO UNDO WRITTEN" in page[page.rindex(">shell<") :][:800]
    assert [(found.capability, found.code) for found in registry.lint() if found.code == "W14"] == [("shell", "W14")]
    OutsideTool.objects.update(undo="restore the snapshot of its machine")
    assert [found for found in registry.lint() if found.code == "W14"] == []
    assert "restore the snapshot" in client.get("/capabilities/").content.decode()
