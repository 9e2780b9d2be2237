"""The report on paper."""

from __future__ import annotations

import re

import pytest

from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
# 210 mm, less two margins of 14 mm, at 96 pixels an inch.
A4 = 688


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_of_seven_steps_fits_two_pages_in_black_on_white(open_as, alice, team, scheme):
    page = open_as(alice, f"/runs/{red_run(team).pk}/report/", color_scheme=scheme)
    paper = page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", paper)) <= 2
    assert re.search(rb"/MediaBox\s*\[0 0 59[45]\.?\d* 84[12]\.?\d*\]", paper)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": A4, "height": 900})
    for gone in ("header.top", ".btn", ".crumbs"):
        assert not page.locator(gone).first.is_visible(), gone
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(18, 24, 28)"
    assert page.locator(".pivot-line").is_visible()
    # A table on paper too, with its head, and not the cards of a phone.
    row = page.locator("tr.row").first
    assert row.evaluate("(row) => getComputedStyle(row).display") == "table-row"
    assert row.locator("td.c-exp").bounding_box()["y"] == row.locator("td.c-step").bounding_box()["y"]


def test_the_button_asks_the_browser_to_print_once(open_as, alice, team):
    page = open_as(alice, f"/runs/{red_run(team).pk}/report/")
    page.evaluate("() => { window.asked = 0; window.print = () => { window.asked += 1; }; }")
    page.get_by_role("button", name="Print").click()
    assert page.evaluate("window.asked") == 1
