"""A page that follows: nothing moves under a hand, and it says since when it could not look."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from corrections import services as corrections
from runs import services
from tests.browser.scenes import make_note
from tests.corrections.scenes import draft_of, make_undone
from tests.factories import make_token
from tests.outbox.scenes import make_released
from tests.runs.pages.helpers import failed_run
from tests.runs.pages.scenes import red_run

pytestmark = pytest.mark.django_db(transaction=True)
LOW = {"viewport": {"width": 1280, "height": 500}}


def tell(name):
    return {"ref": "tell", "capability": "tell_client", "args": {"name": name, "value": "x"}}


def test_focus_and_scroll_stay_where_they_are(open_as, alice, team):
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/", **LOW)
    page.locator("#step-3").focus()
    page.evaluate("scrollTo(0, 400)")
    stood = page.locator("#step-3").bounding_box()["y"]
    services.take_run(run, by=alice)
    expect(page.locator("#actions")).to_contain_text("You are on it", timeout=8000)
    expect(page.locator("#step-3")).to_be_focused()
    page.wait_for_timeout(300)
    assert abs(page.locator("#step-3").bounding_box()["y"] - stood) < 2


def test_no_row_moves_under_the_pointer(open_as, alice, team):
    older, newer = failed_run(team), failed_run(team)
    page = open_as(alice, "/runs/")
    page.locator("tr.row").first.hover()
    services.open_run(token=make_token(team=team), title="Opened meanwhile", plan=[])
    expect(page.locator("#news")).to_contain_text("1 new. Show it", timeout=8000)
    first = page.locator("tr.row a.ttl").first.get_attribute("href")
    services.leave_standing(older if first == f"/runs/{older.pk}/" else newer, by=alice, reason="kept")
    expect(page.locator("#news")).to_contain_text("1 new, 1 moved. Show it", timeout=8000)
    expect(page.locator("#runs")).not_to_contain_text("Opened meanwhile")
    page.mouse.move(5, 5)
    expect(page.locator("#runs")).to_contain_text("Opened meanwhile", timeout=8000)
    expect(page.locator("#news")).to_be_hidden()


def test_no_item_moves_under_the_pointer(open_as, alice, team):
    """The looks go on meanwhile, and what was kept back comes as soon as the pointer is elsewhere."""
    make_released(token=make_token(team=team), plan=[tell("first")])
    page = open_as(alice, "/outbox/")
    page.locator("#queue a.ttl").first.hover()
    make_released(token=make_token(team=team), plan=[tell("second")])
    expect(page.locator("#news")).to_contain_text("1 new. Show it", timeout=8000)
    page.wait_for_timeout(4000)
    expect(page.locator("#queue")).not_to_contain_text("second")
    page.mouse.move(5, 5)
    expect(page.locator("#queue")).to_contain_text("second", timeout=8000)
    expect(page.locator("#news")).to_be_hidden()


def test_no_correction_moves_under_the_pointer(open_as, alice, team):
    note = make_note(team)
    page = open_as(alice, "/corrections/")
    page.locator("#shelf a.ttl").first.hover()
    draft_of(make_undone(token=make_token(team=team)))
    expect(page.locator("#news")).to_contain_text("1 new. Show it", timeout=8000)
    expect(page.locator("#shelf a.ttl")).to_have_count(1)
    page.mouse.move(5, 5)
    expect(page.locator("#shelf a.ttl")).to_have_count(2, timeout=8000)
    corrections.dismiss(note, by=note.run.owner, reason="nobody saw it")
    expect(page.locator("#shelf")).to_contain_text("Dismissed", timeout=8000)
    expect(page.locator("#news")).to_be_hidden()


@pytest.mark.parametrize("address", ["run", "list"])
def test_a_server_that_is_gone_is_said_with_the_time_and_so_is_its_return(open_as, alice, team, address):
    open_as.excused += ["net::ERR_CONNECTION_REFUSED", "htmx:"]
    run = red_run(team)
    page = open_as(alice, f"/runs/{run.pk}/" if address == "run" else "/runs/")
    mark = page.locator("#live-mark")
    expect(mark).to_contain_text("Live · checked", timeout=4000)
    asked = "**/live/**" if address == "run" else "**/runs/?at=*"
    page.route(asked, lambda route: route.abort("connectionrefused"))
    expect(mark).to_contain_text("Not live since", timeout=20_000)
    said = mark.inner_text()
    page.evaluate("const now = Date.now; Date.now = () => now() + 40000")
    expect(page.locator("#old")).to_contain_text("What you see is", timeout=4000)
    expect(mark).to_have_text(said)
    page.unroute(asked)
    expect(mark).to_contain_text("Live · checked", timeout=15_000)
    expect(page.locator("#old")).to_be_hidden()


def test_the_answer_to_a_look_that_a_press_has_overtaken_changes_nothing(open_as, team):
    note = make_note(team)
    page = open_as(note.run.owner, f"{note.get_absolute_url()}?confirm=send&tried=0")
    looks = []
    with page.expect_request("**/corrections/live/**", timeout=8000):
        page.route("**/corrections/live/**", lambda route: looks.append(route))
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("sent this")
    with page.expect_response("**/corrections/live/**editing"):
        looks[0].continue_()
    page.unroute("**/corrections/live/**")
    page.wait_for_timeout(300)
    expect(page.locator("#changed")).to_be_hidden()
    expect(page.locator("#result")).to_contain_text("sent this")


def test_a_press_without_an_answer_says_that_it_may_have_been_done_and_the_page_looks(open_as, alice, team):
    open_as.excused += ["net::ERR_CONNECTION_RESET", "htmx:"]
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    page.route("**/take/", _answer_lost)
    page.get_by_role("button", name="I’m on it").first.click()
    said = page.locator("#unanswered")
    expect(said).to_contain_text("The server did not answer. It may have been done.")
    expect(page.locator("#actions")).to_contain_text("You are on it", timeout=8000)
    expect(said).to_contain_text("What the server knows stands below.")
    page.locator("#actions").get_by_role("button", name="step back").click()
    expect(page.locator("#actions")).not_to_contain_text("You are on it")
    expect(said).to_be_hidden()


def test_what_could_not_be_looked_at_changed_nothing_and_in_a_dialog_that_is_said_there(open_as, accessible, alice, team):
    open_as.excused += ["net::ERR_CONNECTION_RESET", "htmx:", "503"]
    run = failed_run(team)
    page = open_as(alice, f"/runs/{run.pk}/")
    said = page.locator("#unanswered")
    page.route("**/compensate/?look=later", lambda route: route.abort("connectionreset"))
    page.locator("#actions").get_by_role("link", name="Preview compensation…").click()
    expect(said).to_contain_text("The server did not answer. Nothing was changed.")
    page.unroute("**/compensate/?look=later")
    page.locator("#actions").get_by_role("link", name="Preview compensation…").click()
    dialog = page.locator("dialog:modal")
    expect(dialog.get_by_text("all three are still exactly as the run left them")).to_be_visible()
    expect(said).to_be_hidden()
    page.wait_for_timeout(800)
    page.route("**/compensate/", lambda route: route.fulfill(status=503, body="busy"))
    dialog.get_by_role("button", name="Undo 3 effects").click()
    expect(dialog.locator("#unanswered")).to_contain_text("The server is busy. Nothing was done; try again in a few seconds.")
    accessible(page)
    expect(dialog.get_by_role("button", name="Undo 3 effects")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("main > #unanswered")).to_be_visible()


def _answer_lost(route):
    route.fetch()
    route.abort("connectionreset")
