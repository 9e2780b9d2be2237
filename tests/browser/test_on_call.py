"""What on-call does at 3 a.m., in a real browser: at a desk, on a phone, and each with scripts off."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from corrections import services as corrections
from runs.engine import compensate
from runs.states import RunState
from tests.corrections.scenes import own_audience
from tests.runs.pages.helpers import again, failed_run, state_of, stuck_run
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
OFF = {"java_script_enabled": False}
WAYS = {"desk": {}, "phone": PHONE, "desk without scripts": OFF, "phone without scripts": {**PHONE, **OFF}}
# A button that appears where another was ignores presses for this long.
GUARD = 800


def seen(page, way, text):
    """With scripts the page follows; without, one looks again."""
    if "without" in way:
        page.get_by_role("link", name="Refresh").click()
    expect(page.locator("#say")).to_contain_text(text, timeout=10_000)


@pytest.mark.parametrize("way", WAYS)
def test_a_red_run_is_seen_previewed_undone_and_reported(open_as, alice, team, way):
    run = failed_run(team)
    own_audience()
    page = open_as(alice, "/", **WAYS[way])
    page.get_by_role("link", name="Add a billing field").click()
    expect(page.locator("#say")).to_contain_text("Three effects are still out there. People can see one of them.")
    page.locator("a:visible", has_text="Preview compensation…").click()
    expect(page.locator("#preview")).to_contain_text("all three are still exactly as the run left them")
    assert again(run).state == RunState.FAILED
    page.wait_for_timeout(GUARD)
    page.get_by_role("button", name="Undo 3 effects, tell 1 person").click()
    expect(page.locator("#head")).to_contain_text("Compensating")
    expect(page.get_by_role("progressbar", name="Undone")).to_have_attribute("aria-valuenow", "0")
    compensate.compensate(run.pk)
    seen(page, way, "Everything is back where it was. Three of three effects undone and verified")
    corrections.dismiss(run.corrections.get(), by=run.owner, reason="Nobody was in.")
    page.get_by_role("link", name="Run report").click()
    report = page.get_by_role("article")
    expect(report).to_contain_text(f"Run {run.pk}: Add a billing field")
    expect(report).to_contain_text("Alice Ahn had the run undone")
    expect(report).to_contain_text("chain whole")


@pytest.mark.parametrize("way", WAYS)
def test_a_stuck_run_is_settled_and_goes_on_by_itself(open_as, alice, team, way):
    run = stuck_run(team)
    page = open_as(alice, f"/runs/{run.pk}/", **WAYS[way])
    expect(page.locator("#say")).to_contain_text("Stopped at step 3: the undo can’t be verified.")
    ways = page.get_by_role("form", name="Ways on for step 3")
    assert ways.get_by_role("radio", checked=True).count() == 0
    ways.get_by_label("I have undone it by hand").check()
    ways.get_by_role("textbox", name="Reason").fill("I took the panel down by hand, 03:12")
    world.things.pop("panel")
    says = "Do what is chosen" if "without" in way else "Look, then settle step 3"
    ways.get_by_role("button", name=says).click()
    expect(page.locator("#head")).to_contain_text("Compensating")
    assert state_of(run, "show") == "settled"
    compensate.compensate(run.pk)
    seen(page, way, "Everything is back where it was.")
    expect(page.locator("#blast-rows")).to_contain_text("I took the panel down by hand, 03:12")


@pytest.mark.parametrize("way", ["phone", "phone without scripts"])
def test_without_a_choice_nothing_is_settled(open_as, alice, team, way):
    run = stuck_run(team)
    page = open_as(alice, f"/runs/{run.pk}/", **WAYS[way])
    ways = page.get_by_role("form", name="Ways on for step 3")
    ways.get_by_role("textbox", name="Reason").fill("I am not sure")
    ways.get_by_role("button", name="Do what is chosen").click()
    expect(page.get_by_role("alert").filter(has_text="Choose how it ended.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Reason")).to_have_value("I am not sure")
    assert state_of(run, "show") == "undo_failed"
