"""The reviewer's whole path in a real browser: an item read, edited, approved, rejected, several decided; in three ways."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from outbox.models import Decision, Policy
from outbox.states import ItemState, Verdict
from tests.browser.scenes import make_board, make_letters
from tests.helpers import reread
from tests.outbox.scenes import item_of, set_policy

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
# A button that appears where another was ignores presses for this long.
GUARD = 800


class Keyboard:
    """Tab until it has the focus, then the key that presses such a thing. No pointer."""

    options: dict = {}

    def __init__(self, page):
        self.page = page

    def reach(self, target):
        expect(target).to_be_attached()
        for _ in range(200):
            if target.evaluate("el => el === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"No Tab leads to {target}")

    def press(self, target):
        self.page.wait_for_timeout(GUARD)
        self.reach(target)
        self.page.keyboard.press("Enter")

    def tick(self, target):
        self.reach(target)
        self.page.keyboard.press("Space")
        expect(target).to_be_checked()

    def type(self, target, text):
        self.reach(target)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)


class Finger:
    """Taps, on a screen 390 pixels wide that never scrolls sideways."""

    options = PHONE

    def __init__(self, page):
        self.page = page

    def press(self, target):
        expect(target).to_be_visible()
        self._fits()
        self.page.wait_for_timeout(GUARD)
        target.tap()

    def tick(self, target):
        self._fits()
        target.tap()
        expect(target).to_be_checked()

    def type(self, target, text):
        self._fits()
        target.tap()
        target.fill(text)

    def _fits(self):
        self.page.wait_for_function("document.documentElement.scrollWidth <= 390")


class NoScripts:
    """Plain links and forms."""

    options = {"java_script_enabled": False}

    def __init__(self, page):
        self.page = page

    def press(self, target):
        target.click()

    def tick(self, target):
        target.check()

    def type(self, target, text):
        target.fill(text)


WAYS = {"keyboard": Keyboard, "phone": Finger, "no scripts": NoScripts}


@pytest.fixture
def board(team, settings):
    Policy.objects.exclude(capability="").delete()
    set_policy("tell_client", editable=["value"])
    return make_board(team, settings)


@pytest.fixture(params=WAYS)
def hand(request, open_as, alice, board):
    """Alice in the queue, in one of the three ways."""
    way = WAYS[request.param]
    return way(open_as(alice, "/outbox/", **way.options))


def test_a_call_is_read_and_approved(hand, board):
    page, item = hand.page, item_of(board, "ticket")
    hand.press(page.get_by_role("link", name="Move BILL-318 to In Review"))
    expect(page.get_by_role("heading", name="Move BILL-318 to In Review")).to_be_visible()
    expect(page.get_by_role("region", name="Payload, all of it")).to_contain_text("ready for review")
    hand.press(page.get_by_role("button", name="Approve and send to client"))
    assert not Decision.objects.exists()
    hand.press(page.get_by_role("button", name="Yes, send"))
    expect(page.locator("#result")).to_contain_text("Approved by you.")
    assert reread(item).state == ItemState.APPROVED


def test_words_are_changed_and_somebody_else_must_approve_them(hand, board):
    page, item = hand.page, item_of(board, "tell")
    hand.press(page.locator(f'.q a[href="{item.get_absolute_url()}"]'))
    hand.press(page.get_by_role("button", name="Edit…"))
    hand.type(page.get_by_label("value"), "field v2")
    hand.press(page.get_by_role("button", name="Save as version 2, send nothing"))
    expect(page.get_by_role("region", name="What changed", exact=True)).to_contain_text("field v2")
    expect(page.locator("#decide")).to_contain_text("You edited it last, so someone else must approve it.")
    assert page.get_by_role("button", name="Approve and send to client").count() == 0
    assert reread(item).current.args["value"] == "field v2"


def test_a_call_is_rejected_with_a_reason(hand, board):
    page, item = hand.page, item_of(board, "ticket")
    hand.press(page.get_by_role("link", name="Move BILL-318 to In Review"))
    hand.press(page.get_by_role("button", name="Reject…"))
    hand.type(page.get_by_label("Why", exact=False).first, "Not before Friday.")
    hand.press(page.get_by_role("button", name="Reject, send nothing"))
    expect(page.locator("#result")).to_contain_text("Nothing was sent. You rejected this.")
    said = item.decisions.get()
    assert (said.verdict, said.reason, reread(item).state) == (Verdict.REJECT, "Not before Friday.", ItemState.REJECTED)


def test_several_are_read_and_those_ticked_are_sent(hand, token):
    letters, page = make_letters(token), hand.page
    page.goto("/outbox/?q=Tell+the+client+about+")
    for item in letters[:2]:
        hand.tick(page.locator(f'input[name="item"][value="{item.pk}"]'))
    hand.press(page.locator("[data-review]"))
    expect(page.get_by_role("heading", name="Review 2 calls, one by one")).to_be_visible()
    expect(page.locator("#bulk")).to_contain_text("Dear Rui Tavares")
    boxes = page.locator('input[name="yes"]')
    assert not any(box.is_checked() for box in boxes.all())
    hand.tick(boxes.nth(1))
    hand.press(page.locator("[data-several]"))
    expect(page.get_by_role("heading", name="1 yes given, 0 refused")).to_be_visible()
    assert [reread(item).state for item in letters[:2]] == [ItemState.AWAITING, ItemState.APPROVED]
