"""The reviewer's path in a real browser: by keyboard, without scripts, on a phone, and while others decide."""

import pytest
from playwright.sync_api import expect

from outbox import services
from outbox.models import Decision, Policy
from outbox.policies import policy_for
from outbox.states import ItemState
from tests.browser.scenes import make_board, make_letters
from tests.browser.shots import shoot
from tests.factories import make_user
from tests.helpers import reread
from tests.outbox.scenes import item_of, set_policy

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# A button that appears where another was ignores presses for this long.
GUARD = 800


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


@pytest.fixture
def run(team, settings):
    return make_board(team, settings)


@pytest.fixture
def ticket(run):
    return item_of(run, "ticket")


def test_approve_by_keyboard_alone(open_as, alice, ticket):
    page = open_as(alice, "/outbox/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Move BILL-318 to In Review")).to_be_visible()
    shoot(page, "outbox")
    page.keyboard.press("a")
    assert reread(ticket).state == ItemState.AWAITING
    expect(page.get_by_role("button", name="Approve and send to client")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Back")).to_be_focused()
    shoot(page, "outbox-confirm", full=False)
    assert reread(ticket).state == ItemState.AWAITING
    page.wait_for_timeout(GUARD)
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Yes, send")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#result")).to_contain_text("Approved by you.")
    expect(page.get_by_role("link", name="Next item")).to_be_focused()
    assert reread(ticket).state == ItemState.APPROVED
    expect(page.locator("#queue")).to_contain_text("Approved, not sent yet")
    shoot(page, "outbox-approved")


def test_escape_always_changes_nothing(open_as, alice, ticket):
    page = open_as(alice, ticket.get_absolute_url())
    page.keyboard.press("a")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Back")).to_be_focused()
    page.wait_for_timeout(GUARD)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Approve and send to client")).to_be_visible()
    page.wait_for_timeout(GUARD)
    page.keyboard.press("x")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why", exact=False).first).to_be_focused()
    assert not Decision.objects.exists()


def test_approve_without_scripts(open_as, alice, ticket):
    page = open_as(alice, "/outbox/", java_script_enabled=False)
    page.get_by_role("link", name="Move BILL-318 to In Review").click()
    page.get_by_role("button", name="Approve and send to client").click()
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("Approved by you.")
    assert reread(ticket).state == ItemState.APPROVED


def test_reject_without_scripts(open_as, alice, ticket):
    page = open_as(alice, ticket.get_absolute_url(), java_script_enabled=False)
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Why", exact=False).fill("Not before Friday.")
    page.get_by_role("button", name="Reject, send nothing").click()
    expect(page.locator("#result")).to_contain_text("Nothing was sent. You rejected this.")
    assert reread(ticket).state == ItemState.REJECTED


def test_a_reason_of_blanks_comes_back_with_what_was_chosen(open_as, alice, ticket):
    page = open_as(alice, ticket.get_absolute_url())
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Why", exact=False).fill("   ")
    page.get_by_label("Compensate the run").check()
    page.wait_for_timeout(GUARD)
    page.get_by_role("button", name="Reject, send nothing").click()
    expect(page.get_by_text("Say why. The agent and the owner get this.")).to_be_visible()
    expect(page.get_by_label("Compensate the run")).to_be_checked()
    shoot(page, "outbox-reject")
    page.get_by_label("Why", exact=False).fill("Not before Friday.")
    page.wait_for_timeout(GUARD)
    page.get_by_role("button", name="Reject, send nothing").click()
    expect(page.locator("#result")).to_contain_text("You rejected this.")


def test_on_a_phone_the_queue_leads_to_a_page_of_its_own(open_as, alice, ticket):
    page = open_as(alice, "/outbox/", **PHONE)
    shoot(page, "outbox-phone-queue")
    page.get_by_role("link", name="Move BILL-318 to In Review").tap()
    expect(page.locator("#queue")).to_be_hidden()
    shoot(page, "outbox-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    approve = page.get_by_role("button", name="Approve and send to client")
    expect(approve).to_be_in_viewport()
    assert approve.bounding_box()["height"] >= 44
    approve.tap()
    expect(page.get_by_role("link", name="Back")).to_be_focused()
    shoot(page, "outbox-phone-confirm", full=False)
    page.wait_for_timeout(GUARD)
    page.get_by_role("button", name="Yes, send").tap()
    expect(page.locator("#result")).to_contain_text("Approved by you.")
    assert reread(ticket).state == ItemState.APPROVED


def test_what_somebody_else_decides_is_told_and_nothing_moves_under_a_hand(open_as, alice, team, ticket):
    page = open_as(alice, ticket.get_absolute_url())
    page.get_by_role("button", name="Approve and send to client").click()
    expect(page.get_by_role("button", name="Yes, send")).to_be_visible()
    priya = make_user(first_name="Priya", last_name="Nair", roles=("reviewer",), team=team)
    services.approve(ticket, digest=ticket.digest, by=priya)
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    expect(page.locator("#queue")).to_contain_text("Approved, not sent yet")
    expect(page.get_by_role("button", name="Yes, send")).to_be_visible()
    page.get_by_role("button", name="Yes, send").click()
    expect(page.get_by_role("alert").filter(has_text="Priya Nair approved this")).to_be_visible()
    shoot(page, "outbox-decided-by-another")
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_pages_are_accessible(open_as, accessible, alice, ticket, scheme, size):
    page = open_as(alice, "/outbox/", color_scheme=scheme, **(PHONE if size == "phone" else {}))
    accessible(page)
    for path in ("", "?confirm=approve", "?confirm=reject"):
        page.goto(f"{ticket.get_absolute_url()}{path}")
        accessible(page)
    shoot(page, f"outbox-reject-{scheme}-{size}")
    services.reject(ticket, digest=ticket.digest, by=alice, reason="Not before Friday.")
    for path in (ticket.get_absolute_url(), "/outbox/?decided"):
        page.goto(path)
        accessible(page)


def test_e_goes_to_edit_and_changes_nothing(open_as, alice, run):
    set_policy("tell_client", editable=["value"])
    item = item_of(run, "tell")
    item.policy = policy_for("tell_client", "clients")
    item.save()
    page = open_as(alice, item.get_absolute_url())
    page.keyboard.press("e")
    expect(page.get_by_role("button", name="Edit…")).to_be_focused()
    assert reread(item).current.number == 1


def test_words_are_edited_on_a_phone_without_scripts(open_as, alice, run):
    set_policy("tell_client", editable=["value"])
    item = item_of(run, "tell")
    item.policy = policy_for("tell_client", "clients")
    item.save()
    page = open_as(alice, item.get_absolute_url(), java_script_enabled=False, **PHONE)
    page.get_by_role("button", name="Edit…").click()
    page.get_by_label("value").fill("field v2")
    shoot(page, "outbox-edit-phone")
    page.get_by_role("button", name="Save as version 2, send nothing").click()
    expect(page.get_by_role("region", name="What changed", exact=True)).to_contain_text("field v2")
    expect(page.locator("#decide")).to_contain_text("You edited it last, so someone else must approve it.")
    shoot(page, "outbox-edited-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert reread(item).current.args["value"] == "field v2"


@pytest.fixture
def letters(token):
    return make_letters(token)


def test_several_are_reviewed_and_sent_by_keyboard_alone(open_as, accessible, alice, letters):
    page = open_as(alice, "/outbox/")
    for _ in range(3):
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.get_by_role("button", name="Review 3…")).to_be_visible()
    shoot(page, "outbox-selected")
    accessible(page)
    page.get_by_role("button", name="Review 3…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Review 3 calls, one by one")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("button", name="Tick what may go")).to_be_disabled()
    assert not Decision.objects.exists()
    boxes = page.locator('input[name="yes"]')
    assert not any(boxes.nth(n).is_checked() for n in range(3))
    for n in (0, 2):
        boxes.nth(n).focus()
        page.keyboard.press("Space")
    shoot(page, "outbox-bulk")
    accessible(page)
    send = page.get_by_role("button", name="Send 2 to 1 person")
    send.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="2 yeses given, 0 refused")).to_be_visible(timeout=20_000)
    shoot(page, "outbox-bulk-done")
    assert [reread(item).state for item in letters[:3]] == [ItemState.APPROVED, ItemState.AWAITING, ItemState.APPROVED]


def test_several_are_sent_on_a_phone_without_scripts(open_as, alice, letters):
    page = open_as(alice, "/outbox/", java_script_enabled=False, **PHONE)
    for n in range(2):
        page.locator('input[name="item"]').nth(n).check()
    page.get_by_role("button", name="Review those selected…").click()
    page.locator('input[name="yes"]').first.check()
    shoot(page, "outbox-bulk-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Send what is ticked").click()
    expect(page.get_by_role("heading", name="1 yes given, 0 refused")).to_be_visible()
    assert reread(letters[0]).state == ItemState.APPROVED


def test_what_was_typed_survives_a_login(open_as, alice, ticket, client):
    page = open_as(alice, ticket.get_absolute_url())
    page.get_by_role("button", name="Reject…").click()
    page.get_by_label("Why", exact=False).fill("Not before Friday.")
    page.context.clear_cookies()
    page.wait_for_timeout(GUARD)
    page.get_by_role("button", name="Reject, send nothing").click()
    page.get_by_label("Name").fill("alice")
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Move BILL-318 to In Review")).to_be_visible()
    assert not Decision.objects.exists()
    page.get_by_role("button", name="Reject…").click()
    expect(page.get_by_label("Why", exact=False)).to_have_value("Not before Friday.")


def test_the_pages_of_admins_are_accessible(open_as, accessible, team, run):
    admin = make_user("ada", roles=("admin",), team=team, first_name="Ada", last_name="Adler")
    page = open_as(admin, "/policies/")
    for path in ("/policies/", "/policies/new/", "/people/", f"/people/{admin.pk}/", "/me/"):
        page.goto(path)
        accessible(page)
        shoot(page, "admin" + path.replace("/", "-").strip("-"))
