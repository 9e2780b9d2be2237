"""The run pages in a real browser: on a desk, on a phone, without scripts, by keyboard, in light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from corrections import services as corrections
from runs import services
from runs.engine import compensate
from runs.states import RunState
from tests.browser.shots import shoot
from tests.corrections.scenes import own_audience
from tests.factories import make_token
from tests.runs.pages.helpers import again, failed_run, stuck_run
from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"width": 390, "height": 844}


def test_a_red_run_is_seen_previewed_and_undone_live(open_as, alice, team):
    own_audience()
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    expect(page.locator("#say")).to_contain_text("Three effects are still out there.")
    page.get_by_role("link", name="Preview compensation…").click()
    dialog = page.get_by_role("dialog", name=f"Undo run {run.pk}?")
    expect(dialog).to_contain_text("all three are still exactly as the run left them")
    expect(dialog.locator("#dl-h")).to_be_focused()
    page.wait_for_timeout(800)
    dialog.get_by_role("button", name="Undo 3 effects, tell 1 person").click()
    expect(page.locator("#head")).to_contain_text("Compensating")
    assert again(run).state == RunState.COMPENSATING
    page.evaluate("window.marked = true")
    compensate.compensate(run.pk)
    expect(page.locator("#say")).to_contain_text("Everything is back where it was.", timeout=3000)
    expect(page.locator("#head")).to_contain_text("Compensated, 1 to tell")
    corrections.dismiss(run.corrections.get(), by=run.owner, reason="Nobody was in.")
    expect(page.locator("#head")).to_contain_text("Final · no longer updating", timeout=10_000)
    assert page.evaluate("window.marked")
    expect(page.locator("#blast-rows .s-undone")).to_have_count(3)


def test_what_on_call_needs_is_on_a_phones_first_screen(open_as, alice, team):
    run = red_run(team)
    page = open_as(alice, f"/runs/{run.pk}/", viewport=PHONE, has_touch=True)
    button = page.locator(".fixed-do a", has_text="Preview compensation…")
    for seen in (page.locator("#say"), page.locator("#facts"), button):
        box = seen.bounding_box()
        assert box["y"] + box["height"] <= PHONE["height"]
    assert button.bounding_box()["height"] >= 44


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_preview_as_a_dialog_is_accessible(open_as, accessible, alice, team, scheme):
    page = open_as(alice, f"/runs/{red_run(team).pk}/", color_scheme=scheme)
    page.get_by_role("link", name="Preview compensation…").click()
    page.locator("dialog:modal .plan-note").first.wait_for()
    page.wait_for_timeout(300)
    accessible(page)
    shoot(page, f"dialog-{scheme}", full=False)


def test_what_changes_is_said_aloud_at_most_every_five_seconds(open_as, alice, team):
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    page.evaluate(
        """() => {
          window.heard = [];
          const heard = () => window.heard.push([Date.now(), document.querySelector("#says").textContent]);
          new MutationObserver(heard).observe(document.querySelector("#says"), {childList: true});
        }"""
    )
    said = "() => window.heard.filter(([at, text]) => text).length >= {}"
    services.take_run(run, by=alice)
    page.wait_for_function(said.format(1), timeout=10_000)
    services.step_back(run, by=alice)
    services.take_run(run, by=alice)
    # A run that waits is looked at every 5 s; this is as if it had moved.
    page.evaluate("htmx.trigger(document.querySelector('[data-poll]'), 'look')")
    page.wait_for_function(said.format(2), timeout=10_000)
    times = [at for at, text in page.evaluate("window.heard") if text]
    assert times[1] - times[0] >= 4900


def test_states_are_told_apart_by_ear_without_motion_and_in_forced_colours(open_as, alice, team):
    run = failed_run(team)
    services.compensate_run(run, actor="person:Alice Ahn")
    page = open_as(alice, f"/runs/{run.pk}/", reduced_motion="reduce", forced_colors="active")
    expect(page.get_by_role("row", name="Pivot. Undo works above this line")).to_have_count(1)
    pill = page.locator("#head .state")
    assert pill.evaluate("(el) => getComputedStyle(el).borderTopStyle") == "solid"
    assert pill.locator("svg").evaluate("(el) => getComputedStyle(el).animationName") == "none"


def test_what_is_typed_survives_what_changes(open_as, alice, team):
    run = stuck_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    reason = page.get_by_role("textbox", name="Reason")
    reason.fill("I am still writing")
    services.take_run(run, by=alice)
    expect(page.locator("#actions")).to_contain_text("You are on it", timeout=8000)
    expect(reason).to_have_value("I am still writing")
    expect(page.locator("#changed")).to_be_visible()


def test_times_run_on_and_the_page_says_that_it_is_live(open_as, alice, team):
    run = red_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    clock = page.locator("#facts time").first
    first = clock.inner_text()
    expect(clock).not_to_have_text(first, timeout=4000)
    expect(page.locator("#live-mark")).to_contain_text("Live · checked")


def test_the_list_follows_without_a_reload(open_as, alice, team):
    page = open_as(alice, "/runs/")
    expect(page.locator("#runs")).to_contain_text("No run yet.")
    services.open_run(token=make_token(team=team), title="Opened meanwhile", plan=[])
    expect(page.locator("#runs")).to_contain_text("Opened meanwhile", timeout=8000)
