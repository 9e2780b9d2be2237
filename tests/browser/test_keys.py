"""Letters: they open pages and focus what they name; they send and undo nothing, and can be switched off."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.runs.pages.helpers import compensated_run
from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = {"r": "/runs/", "o": "/outbox/", "c": "/corrections/", "k": "/capabilities/", "a": "/audit/"}


def test_g_and_a_letter_go_to_a_page(open_as, alice):
    page = open_as(alice, "/me/")
    for letter, address in PAGES.items():
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(lambda url, address=address: url.partition("?")[0].endswith(address))


def test_letters_open_the_log_the_report_and_the_preview_and_change_nothing(open_as, alice, team):
    over, red = compensated_run(team), red_run(team)
    page = open_as(alice, f"/runs/{over.pk}/")
    page.keyboard.press("l")
    page.wait_for_url(f"**/runs/{over.pk}/log/")
    page.go_back()
    page.keyboard.press("r")
    page.wait_for_url(f"**/runs/{over.pk}/report/")
    page.goto(f"/runs/{red.pk}/")
    state, entries = red.state, red.entries.count()
    page.keyboard.press("c")
    expect(page.get_by_text("Will be undone, in this order")).to_be_visible(timeout=20_000)
    red.refresh_from_db()
    assert (red.state, red.entries.count()) == (state, entries)


def test_letters_do_nothing_while_somebody_writes_or_who_switched_them_off(open_as, alice, team):
    run = red_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    page.keyboard.press("/")
    expect(page.locator("#jump")).to_be_focused()
    page.keyboard.type("gol")
    expect(page.locator("#jump")).to_have_value("gol")
    alice.shortcuts = False
    alice.save(update_fields=["shortcuts"])
    page.reload()
    for letter in "gol":
        page.keyboard.press(letter)
    page.wait_for_timeout(500)
    expect(page).to_have_url(f"{page.url.partition('/runs/')[0]}/runs/{run.pk}/")
