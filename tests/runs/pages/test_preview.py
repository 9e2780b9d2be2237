"""The preview looks and changes nothing; the press does what was shown, or nothing."""

import re
import time

import pytest

from runs import freezing, preview, services
from runs.capability import Args
from runs.engine import compensate, walk
from runs.locking import locked_run
from runs.models import CapabilityRecord
from runs.sections import sections
from runs.states import RunState
from tests.checker import forged
from tests.corrections.scenes import own_audience
from tests.factories import make_token, make_user
from tests.runs.pages.helpers import again, compensated_run, failed_run, stuck_run
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"headers": {"HX-Request": "true"}}


@pytest.fixture
def run(team):
    return failed_run(team)


@pytest.fixture
def press(client, alice, run):
    client.force_login(alice)

    def press(token=None, **more):
        return client.post(f"/runs/{run.pk}/compensate/", {"token": token or shown(client, run)[1], **more})

    return press


def shown(client, run, query=""):
    """The preview's page, and the token in it."""
    page = client.get(f"/runs/{run.pk}/compensate/{query}").content.decode()
    found = re.search(r'name="token" value="([^"]+)"', page)
    return page, found and found.group(1)


def test_it_shows_the_order_of_the_walk_and_changes_nothing(client, alice, run):
    own_audience()
    client.force_login(alice)
    before = run.entries.count()
    world.ledger.clear()
    page, _ = shown(client, run)
    assert re.findall(r"Step (\d) · <bdi dir=\"auto\">put", page) == ["3", "2", "1"]
    assert "Undo 3 effects, tell 1 person" in page
    assert "all three are still exactly as the run left them" in page
    assert {verb for verb, _, _ in world.ledger} == {"verify_undone"}
    assert run.entries.count() == before
    assert again(run).state == RunState.FAILED


def test_its_order_is_the_walks(run):
    services.compensate_run(run, actor="person:x")
    shown_order = [line.step.pk for line in preview.of(run, look=False).lines]
    held = walk.claim(run.pk)
    assert walk.next_step(held).pk == shown_order[0]
    walked = [step.pk for step in run.steps.to_undo().in_undo_order()]
    assert shown_order == walked


def test_the_press_undoes_what_was_shown(press, alice, run):
    answer = press()
    assert answer.status_code == 302 and answer.url == f"/runs/{run.pk}/"
    assert again(run).state == RunState.COMPENSATING
    assert run.entries.get(event="run.compensating").actor == "person:Alice Ahn"
    compensate.compensate(run.pk)
    assert again(run).state == RunState.COMPENSATED


def test_who_takes_the_run_or_is_refused_meanwhile_moves_nothing(client, press, alice, bob, run):
    token = shown(client, run)[1]
    services.take_run(run, by=alice)
    with locked_run(run.pk) as locked:
        locked.append("item.refused", actor=f"person:{bob}", why="you may not decide it")
    assert press(token).status_code == 302
    assert again(run).state == RunState.COMPENSATING


def test_a_second_press_joins_the_first(client, press, run):
    token = shown(client, run)[1]
    press(token)
    assert press(token).status_code == 302
    assert run.entries.filter(event="run.compensating").count() == 1


def test_by_htmx_the_page_goes_to_the_run(client, alice, run):
    client.force_login(alice)
    answer = client.post(f"/runs/{run.pk}/compensate/", {"token": shown(client, run)[1]}, **HTMX)
    assert answer["HX-Redirect"] == f"/runs/{run.pk}/"


def test_when_the_log_moved_nothing_is_done_and_the_new_plan_is_shown(client, press, alice, run):
    token = shown(client, run)[1]
    services.report_check(run, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    world.things.pop("panel")
    answer = press(token)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "<b>Nothing was done.</b> The run moved while you read. Nothing was undone; look again." in page
    assert again(run).state == RunState.FAILED
    assert "already gone" in page
    assert '<span class="tag people">new</span>' in page
    assert press(re.search(r'name="token" value="([^"]+)"', page).group(1)).status_code == 302


@pytest.mark.parametrize("token", ["", "x", "eyJydW4iOjF9:1abc:def"])
def test_a_forged_or_old_token_undoes_nothing(press, run, token):
    answer = press(token or " ")
    assert answer.status_code == 409
    assert again(run).state == RunState.FAILED


def test_a_token_of_another_run_undoes_nothing(client, press, team, run):
    other = failed_run(team)
    assert press(shown(client, other)[1]).status_code == 409
    assert again(run).state == again(other).state == RunState.FAILED


def test_without_the_right_one_may_look_only(client, bob, team, run):
    client.force_login(bob)
    page, token = shown(client, run)
    assert "Undo 3 effects" not in page
    assert client.post(f"/runs/{run.pk}/compensate/", {"token": token}).status_code == 403
    assert again(run).state == RunState.FAILED


def test_what_is_gone_is_crossed_out_and_not_counted(client, alice, run):
    client.force_login(alice)
    world.things.pop("panel")
    page, _ = shown(client, run)
    assert '<s>Step 3, <bdi dir="auto">put panel</bdi></s>: already gone.' in page
    assert "Undo 2 effects" in page


def test_drift_is_undone_only_if_chosen(client, press, run):
    world.things["panel"]["value"] = "changed by somebody"
    page, token = shown(client, run)
    assert "somebody changed it since" in page
    assert "Begin, and stop at step 3" in page and 'data-whole="Undo 3 effects' in page
    assert "Nothing is left behind" not in page
    press(token)
    assert again(run).undo_over == []
    compensate.compensate(run.pk)
    assert again(run).state == RunState.STUCK


def test_drift_that_was_chosen_is_undone(client, press, run):
    world.things["panel"]["value"] = "changed by somebody"
    press(shown(client, run)[1], over=["3", "1"])
    assert again(run).undo_over == [3]
    compensate.compensate(run.pk)
    assert again(run).state == RunState.COMPENSATED


def test_a_system_that_gives_no_answer_has_its_line_in_amber(client, alice, run):
    client.force_login(alice)
    world.before["verify_undone panel"] = _dead
    page, _ = shown(client, run)
    assert "No answer: ConnectionError: the shelf is on fire" in page
    assert "Undo 3 effects" in page


def test_a_system_that_hangs_does_not_hold_up_the_page(client, alice, run, monkeypatch):
    client.force_login(alice)
    monkeypatch.setattr(preview, "PATIENCE", 0.2)
    world.before["verify_undone panel"] = lambda call: time.sleep(1.5)
    began = time.monotonic()
    page, _ = shown(client, run)
    assert time.monotonic() - began < 1.2
    assert "No answer within 0.2 s" in page
    time.sleep(1.5)


def test_an_undo_that_was_never_proven_wants_a_tick(client, press, run):
    CapabilityRecord.objects.filter(name="show_thing").update(proven_version="", proven_at=None)
    page, token = shown(client, run)
    assert "I know that the undo of step 3 was never proven" in page
    answer = press(token)
    assert answer.status_code == 422
    assert again(run).state == RunState.FAILED
    assert press(token, know="3").status_code == 302


def test_to_a_savepoint(client, press, run):
    page, token = shown(client, run, "?to=one")
    assert "back to one?" in page
    assert re.findall(r"Step (\d) · <bdi dir=\"auto\">put", page) == ["3", "2"]
    press(token)
    assert again(run).undo_to == "one"


@pytest.mark.parametrize("to", ["nothing", "%00", "tell"])
def test_a_savepoint_that_is_none_is_refused(client, alice, run, to):
    client.force_login(alice)
    answer = client.get(f"/runs/{run.pk}/compensate/?to={to}")
    assert answer.status_code == (200 if to == "%00" else 422)


def test_the_plan_stands_there_before_the_looks(client, alice, run):
    client.force_login(alice)
    world.ledger.clear()
    page, _ = shown(client, run, "?look=later")
    assert "Looking at 1 system…" in page
    assert "<b>Looking</b> at 3 effects in their systems." in page
    assert 'hx-trigger="load"' in page
    assert world.ledger == []


def test_nothing_left_to_undo(client, alice, press, run):
    world.things.clear()
    page, token = shown(client, run)
    assert "Nothing is in effect any more." in page
    assert "Mark compensated" in page
    press(token)
    compensate.compensate(run.pk)
    assert again(run).state == RunState.COMPENSATED


def test_while_it_is_undone_the_preview_is_the_run(client, alice, press, run):
    press()
    assert client.get(f"/runs/{run.pk}/compensate/").url == f"/runs/{run.pk}/"


def test_a_run_that_ended_offers_nothing(client, alice, team):
    run = compensated_run(team)
    client.force_login(alice)
    page, token = shown(client, run)
    assert "nothing can be undone now" in page
    assert client.post(f"/runs/{run.pk}/compensate/", {"token": token}).status_code == 409


def test_a_stuck_run_is_previewed_from_where_it_stands(client, alice, team):
    run = stuck_run(team)
    client.force_login(alice)
    assert re.findall(r"Step (\d) · <bdi dir=\"auto\">put", shown(client, run)[0]) == ["3", "2", "1"]


def test_a_capability_gone_from_the_code_cant_be_undone(client, alice, run):
    run.steps.filter(ref="two").update(capability="renamed_away")
    client.force_login(alice)
    page, _ = shown(client, run)
    assert "can’t be undone</b>: no code defines this capability any more" in page


def test_a_call_that_went_out_wants_the_right_and_the_runs_number(client, alice, team, run):
    boss = make_user("boss", roles=("on-call", "admin"), team=team)
    forged(run, "as if a gate had been approved in the middle: the fourth call went out after everything else")
    last = run.steps.get(ref="tell")
    run.steps.filter(pk=last.pk).update(
        state="sent", closed_why="", effect={"id": 1}, done_at=run.opened_at, intent_seq=99, started_at=run.opened_at
    )
    client.force_login(alice)
    page, token = shown(client, run)
    assert "Can’t be taken back" in page
    assert f"the right to override the pivot: {boss}" in page and "type the run’s number" not in page
    assert client.post(f"/runs/{run.pk}/compensate/", {"token": token, "number": str(run.pk)}).status_code == 403
    client.force_login(boss)
    page, token = shown(client, run)
    assert "Undo 3 effects, leave 1 standing" in page
    for number in ("", "7777"):
        assert client.post(f"/runs/{run.pk}/compensate/", {"token": token, "number": number}).status_code == 422
    assert again(run).state == RunState.FAILED
    assert client.post(f"/runs/{run.pk}/compensate/", {"token": token, "number": str(run.pk)}).status_code == 302
    assert again(run).override_pivot


def _dead(call):
    raise ConnectionError("the shelf is on fire")


def test_what_went_out_is_told_of_too_and_what_was_refused_keeps_its_word(client, team, alice, run, monkeypatch):
    told = []
    monkeypatch.setattr(sections, "would_tell", lambda run, steps: told.extend(step.ref for step in steps) or [])
    forged(run, "the same run with its last call sent, and with it refused")
    tell = run.steps.filter(ref="tell")
    tell.update(state="sent", closed_why="", effect={"id": 1}, done_at=run.opened_at, intent_seq=2, started_at=run.opened_at)
    preview.of(run, look=False)
    assert told == ["show", "two", "one", "tell"]
    tell.update(state="closed", closed_why="rejected")
    client.force_login(alice)
    page, _ = shown(client, run)
    assert "<b>rejected</b>, never sent" in page and "withdrawn</b>" not in page


def test_a_freeze_is_said_above_every_page_and_in_the_preview(client, alice, run):
    client.force_login(alice)
    freezing.freeze(by="person:Alice", why="a backup was\u202e restored")
    page, _ = shown(client, run)
    assert "Everything is frozen" in page
    assert "⟨U+202E⟩ restored" in page and "\u202e" not in page
    for address in ("/runs/", f"/runs/{run.pk}/", "/me/"):
        assert "Nothing is called, sent or undone until it is lifted." in client.get(address).content.decode()


def test_arguments_that_no_longer_fit_are_said_and_no_look_is_made_with_them(client, alice, run, monkeypatch):
    """The code of a capability was changed since the call: the on-call reads what will stop the walk, before the press."""

    class Stricter(Args):
        name: str
        owner: str

    monkeypatch.setattr(PutThing, "Args", Stricter)
    client.force_login(alice)
    answer = client.get(f"/runs/{run.pk}/compensate/")
    assert answer.status_code == 200
    assert "its arguments no longer fit put_thing, which was changed since" in answer.content.decode()
