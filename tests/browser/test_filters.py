"""A filter line fills its list in place: the rows stay until the others are there, and what takes long is seen to."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from outbox.models import Item
from tests.browser.pages import plan_of
from tests.factories import make_token
from tests.outbox.scenes import make_released
from tests.runs.pages.helpers import failed_run, told_run

pytestmark = pytest.mark.django_db(transaction=True)
BAR = "getComputedStyle(document.querySelector('#filters'), '::after')"


def _held(page, address):
    """The answers to what is asked for there wait until they are let go."""
    held = []
    page.route(address, lambda route: held.append(route))
    return held


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_rows_stay_while_a_filter_loads_and_a_bar_shows_after_a_moment(open_as, accessible, alice, team, motion):
    failed, over = failed_run(team, plan=plan_of("red")), told_run(team)
    page = open_as(alice, "/runs/", reduced_motion=motion)
    held = _held(page, "**/runs/?state=needs*")
    place = page.locator("#runs").bounding_box()
    page.get_by_role("link", name="Needs someone").click()
    expect(page.locator("#runs")).to_have_attribute("aria-busy", "true")
    assert page.evaluate(f"{BAR}.opacity") == "0"
    page.wait_for_timeout(500)
    assert page.evaluate(f"{BAR}.opacity") == "1"
    assert page.evaluate(f"{BAR}.animationName") == ("sweep" if motion == "no-preference" else "none")
    assert page.locator("#runs").bounding_box() == place
    expect(page.locator(f'#runs a[href="/runs/{over.pk}/"]')).to_be_visible()
    accessible(page)
    held[0].continue_()
    expect(page.locator(f'#runs a[href="/runs/{over.pk}/"]')).to_have_count(0)
    expect(page.locator(f'#runs a[href="/runs/{failed.pk}/"]')).to_be_visible()
    expect(page.locator("#runs")).not_to_have_attribute("aria-busy", "true")
    assert page.evaluate(f"{BAR}.opacity") == "0"
    chip = page.get_by_role("link", name="Needs someone")
    expect(chip).to_have_attribute("aria-current", "true")
    expect(chip).to_be_focused()


def test_the_address_says_what_is_shown_and_back_goes_back(open_as, alice, team):
    failed, over = failed_run(team, plan=plan_of("red"), ticket="BILL-318"), told_run(team)
    page = open_as(alice, "/runs/")
    page.evaluate("window.marked = true")
    page.locator("#q").fill("bill-318")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/?q=bill-318*")
    rows = page.locator("#runs a.ttl")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Compensated").click()
    page.wait_for_url("**/runs/?state=compensated&q=bill-318*")
    expect(page.locator("#runs")).to_contain_text("No run matches.")
    assert page.evaluate("window.marked")
    # What is asked for from now on is what is shown.
    assert "state=compensated&q=bill-318" in page.locator("#poller").get_attribute("hx-get")
    page.go_back()
    expect(rows).to_have_count(1)
    page.locator("#q").fill("")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(2)
    assert {failed.pk, over.pk} == {int(row.get_attribute("href").split("/")[2]) for row in rows.all()}


def test_every_list_is_filtered_in_place_and_keeps_what_is_typed(open_as, alice, team):
    make_released(token=make_token(team=team))
    page = open_as(alice, "/outbox/")
    assert Item.objects.awaiting().count() == 2
    for address, field, shows in (
        ("/outbox/", "q", "Nothing of this waits for you."),
        ("/corrections/", "q", "None of these."),
        ("/capabilities/", "q", "No capability matches."),
        ("/audit/", "on", "Nothing matches."),
    ):
        page.goto(address)
        page.evaluate("window.marked = true")
        page.locator(f"#{field}").fill("nothing like it")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text(shows)
        expect(page.locator(f"#{field}")).to_have_value("nothing like it")
        assert page.evaluate("window.marked"), address
        page.get_by_role("link", name="Show all").first.click()
        page.wait_for_url(f"**{address}")
        expect(page.locator(f"#{field}")).to_have_value("")


def test_without_scripts_chips_are_links_and_the_line_is_a_form(open_as, alice, team):
    failed, over = failed_run(team, plan=plan_of("red"), ticket="BILL-318"), told_run(team)
    page = open_as(alice, "/runs/", java_script_enabled=False, viewport={"width": 390, "height": 844})
    page.get_by_role("link", name="Compensated").click()
    rows = page.locator("#runs a.ttl")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("href", f"/runs/{over.pk}/")
    page.get_by_role("link", name="All").first.click()
    page.locator("#q").fill("bill-318")
    page.locator("#q").press("Enter")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("href", f"/runs/{failed.pk}/")
