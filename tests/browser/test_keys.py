"""Letters: they open pages and focus what they name; they send and undo nothing, and can be switched off."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from runs import services
from runs.states import RunState
from tests.browser.pages import plan_of
from tests.runs.pages.helpers import again, failed_run
from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = {"o": "/outbox/", "c": "/corrections/", "k": "/capabilities/", "a": "/audit/", "r": "/runs/"}


def test_g_and_a_letter_go_to_a_page_and_letters_walk_its_rows(open_as, alice, team):
    runs = [failed_run(team), failed_run(team, plan=plan_of("second"))]
    page = open_as(alice, "/me/")
    for letter, address in PAGES.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(f"**{address}")
    rows = page.locator("tr.row a.ttl")
    for key, row in (("j", 0), ("j", 1), ("k", 0)):
        page.keyboard.press(key)
        expect(rows.nth(row)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*/")
    assert [again(run).state for run in runs] == [RunState.FAILED] * 2


def test_letters_open_the_log_and_the_report(open_as, alice, team):
    over = failed_run(team)
    services.leave_standing(over, by=alice, reason="The next run needs it.")
    page = open_as(alice, f"/runs/{over.pk}/")
    page.keyboard.press("l")
    page.wait_for_url(f"**/runs/{over.pk}/log/")
    page.go_back()
    page.keyboard.press("r")
    page.wait_for_url(f"**/runs/{over.pk}/report/")


def test_letters_open_and_focus_and_never_undo(open_as, alice, team):
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name=f"Undo run {run.pk}?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("#actions").get_by_role("link", name="Preview compensation…")).to_be_focused()
    assert again(run).state == RunState.FAILED
    page.keyboard.press("t")
    expect(page.locator("#actions")).to_contain_text("You are on it")
    page.keyboard.press("/")
    expect(page.locator("#jump")).to_be_focused()
    page.keyboard.type("gocl")
    expect(page.locator("#jump")).to_have_value("gocl")
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def test_letters_do_nothing_for_whoever_switched_them_off(open_as, alice, team):
    run = red_run(team)
    alice.shortcuts = False
    alice.save(update_fields=["shortcuts"])
    page = open_as(alice, f"/runs/{run.pk}/")
    for letter in "gocl":
        page.keyboard.press(letter)
    page.wait_for_timeout(500)
    expect(page.locator("dialog:modal")).to_have_count(0)
    expect(page).to_have_url(f"{page.url.partition('/runs/')[0]}/runs/{run.pk}/")
