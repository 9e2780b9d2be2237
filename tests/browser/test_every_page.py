"""Every page: nothing that axe finds, nothing that scrolls sideways, and a picture where a folder for them is named."""

from __future__ import annotations

import json
from itertools import groupby

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.test import Client
from django.urls import resolve
from playwright.sync_api import expect

from tests import routes
from tests.browser.pages import break_a_region, every_page
from tests.browser.scenes import make_board
from tests.browser.shots import shoot
from tests.outbox.scenes import item_of
from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESK = {"viewport": {"width": 1080, "height": 600}}
# How wide, in which colours, on which device.
SCREENS = {"light": {"color_scheme": "light"}, "dark": {"color_scheme": "dark"}, "phone": PHONE}

# What axe lets pass: one heading of the page, the skip link first, names of tables, and what a finger can hit.
STRUCTURE = """(least) => {
  const all = (what) => [...document.querySelectorAll(what)], wrong = [];
  const headings = all("h1").length;
  if (headings !== 1) wrong.push(`${headings} headings of the page`);
  if (!all("a, button, input")[0].matches(".skip")) wrong.push("the skip link is not first");
  for (const el of all("table")) if (!el.caption && !el.closest("[aria-label], [aria-labelledby]")) wrong.push("a table without a name");
  for (const el of all("button, .btn, select")) {
    const { width, height } = el.getBoundingClientRect();
    if (!width || el.closest("p, td, .log") || (height >= least - 0.5 && width >= 24)) continue;
    wrong.push(`${el.textContent.trim().slice(0, 30)} is ${Math.round(height)} high`);
  }
  return wrong;
}"""


@pytest.fixture
def pages(team, settings, alice, bob, monkeypatch):
    break_a_region(monkeypatch)
    return every_page(team, settings, alice, bob)


def _walk(open_as, pages, screen):
    """Each page, opened by whoever looks at it."""
    for _, theirs in groupby(sorted(pages, key=_reader), key=_reader):
        first, *others = theirs
        window = open_as(first.by, "/login/", **SCREENS[screen])
        for shown in (first, *others):
            answer = window.goto(shown.address)
            yield shown, window, answer.status
        # A page that stays open keeps asking.
        window.goto("about:blank")


def _reader(shown):
    return shown.by.pk if shown.by else 0


# One test, as the pages take as long to make as to look at.
def test_every_page_is_listed_accessible_fits_and_has_a_picture(open_as, client, pages):
    wrong = [f"{route} has no page here" for route in _not_listed(client, pages)]
    for shown, page, status in _walk(open_as, pages, "light"):
        if status != shown.status:
            wrong.append(f"{shown.name} answers {status}")
        wrong += _wrong_on(page, shown, "light", 24)
        # The same markup in other colours, without asking for it again.
        page.emulate_media(color_scheme="dark")
        shoot(page, f"{shown.name}-dark")
        wrong += _violations(page, shown, runOnly=["color-contrast"])
        page.emulate_media(color_scheme="light")
    for shown, page, _ in _walk(open_as, pages, "phone"):
        # Colours don't depend on the width.
        wrong += _wrong_on(page, shown, "phone", 44, **{"color-contrast": {"enabled": False}})
    assert wrong == [], "\n".join(wrong)


def _wrong_on(page, shown, screen, least, **rules):
    shoot(page, f"{shown.name}-{screen}")
    # A phone zooms out over what is too wide, and then says that it has the room.
    width, room = page.evaluate("document.documentElement.scrollWidth"), page.viewport_size["width"]
    wrong = [f"{shown.name} is {width} wide on {room}"] if width > room else []
    wrong += [f"{shown.name}: {said}" for said in page.evaluate(STRUCTURE, least)]
    page.evaluate(AXE_SCRIPT)
    return wrong + _violations(page, shown, rules=rules)


def _violations(page, shown, **options):
    # Of what passed one example each: whole, that is megabytes a page.
    said = json.dumps({"resultTypes": ["violations"], **options})
    found = page.evaluate(f"axe.run({said})")["violations"]
    return [f"{shown.name}: {rule['id']} at {_where(rule)}" for rule in found]


def _where(rule):
    return "; ".join(f"{node['target'][0]} ({node['failureSummary'].splitlines()[-1].strip()})" for node in rule["nodes"][:3])


def _not_listed(client, pages):
    """The addresses that answer with a page and are not among these."""
    shown = {resolve(page.address.partition("?")[0]).route for page in pages if page.status != 404}
    ada = next(page.by for page in pages if page.by and page.by.username == "ada")
    client.force_login(ada)
    return [route for route in routes.routes() if _is_page(client, route, shown)]


def _is_page(client, route, shown):
    if route in shown or routes.kind_of(route) in ("api", "admin", "nothing") or route.startswith("admin/"):
        return False
    answer = client.get(routes.path_of(route, {}))
    return answer.status_code == 200 and not answer.streaming and b"<html" in answer.content


@pytest.mark.parametrize("width", [1280, 1080, 1000, 900, 800, 721])
def test_in_any_window_between_a_desk_and_a_phone_everything_is_inside(open_as, alice, team, width):
    """The bar above every page has what a phone has below it, and a table has its columns."""
    page = open_as(alice, f"/runs/{red_run(team).pk}/", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_role("button", name="Sign out").bounding_box()["x"] < width - 60
    assert page.get_by_role("link", name=str(alice)).is_visible()
    shoot(page, f"run-{width}")


def test_the_readme_shows_three_of_them(open_as, alice, team, settings):
    """Small enough to be kept beside the code."""
    settings.LATE_AFTER = 3600
    red, ticket = red_run(team), item_of(make_board(team, settings), "ticket")
    for name, address, screen in (
        ("run", f"/runs/{red.pk}/", DESK),
        ("item", ticket.get_absolute_url(), {**DESK, "color_scheme": "dark"}),
        ("phone", f"/runs/{red.pk}/", PHONE),
    ):
        page = open_as(alice, address, **screen)
        page.locator(".live").wait_for()
        assert len(page.screenshot()) < 150_000, name
        shoot(page, f"readme-{name}", full=False)


@pytest.mark.parametrize("screen", SCREENS)
def test_what_went_wrong_has_a_page_too(open_as, accessible, client, alice, screen, monkeypatch):
    """The server broke, and a form was too old."""
    monkeypatch.setattr("runs.views.lists.board", _broken)
    client.raise_request_exception = False
    client.force_login(alice)
    broken = client.get("/runs/")
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(alice)
    refused = careful.post("/runs/1/take/")
    page = open_as(alice, "/me/", **SCREENS[screen])
    for name, answer, status, says in (
        ("500", broken, 500, "may or may not have been done"),
        ("403-form", refused, 403, "Nothing was done"),
    ):
        assert answer.status_code == status
        page.set_content(answer.content.decode())
        expect(page.locator("main")).to_contain_text(says)
        accessible(page)
        shoot(page, f"{name}-{screen}")


def _broken(*given):
    raise RuntimeError("as if a table were gone")
