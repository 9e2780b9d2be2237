"""The owner's path in a real browser: edit with the message beside it, send, see where it went."""

import pytest
from playwright.sync_api import expect

from corrections import delivery, services
from corrections.states import CorrectionState
from runs.exceptions import NoEffect
from tests.browser.scenes import make_note
from tests.browser.shots import shoot
from tests.helpers import reread
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
GUARD = 800


@pytest.fixture
def note(team):
    return make_note(team)


def test_edited_with_a_live_preview_and_sent(open_as, note):
    page = open_as(note.run.owner, "/corrections/")
    shoot(page, "corrections")
    page.get_by_role("link", name="panel on the board").click()
    shoot(page, "correction")
    preview = page.locator("#preview")
    page.get_by_label("What they may have seen").fill("The new billing panel on QA test accounts")
    page.get_by_label("What exactly they need to do").fill("Discard test cases written against billing panel v1.")
    expect(preview).to_contain_text("What you may have seen: The new billing panel on QA test accounts, at")
    expect(preview).to_contain_text("Discard test cases written against billing panel v1.")
    expect(preview).to_contain_text("not saved yet")
    page.get_by_label("After CI passes on the retry").check()
    expect(preview).to_contain_text("after CI passes on the retry")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("link", name="Back")).to_be_focused()
    expect(page.get_by_label("What they may have seen")).to_be_disabled()
    assert reread(note).state == CorrectionState.DRAFT
    shoot(page, "correction-confirm")
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("sent this")
    delivery.deliver(note.run_id, note.pk)
    expect(page.locator("#result")).to_contain_text("Delivered", timeout=8000)
    shoot(page, "correction-sent")
    assert len(world.calls("correct")) == 1
    assert "What you may have seen: The new billing panel on QA test accounts, at" in world.calls("correct")[0]


def test_what_saved_itself_is_not_called_unsaved_and_back_gives_the_fields_back(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url())
    page.get_by_label("What they may have seen").fill("The panel")
    expect(page.locator("#unsaved")).to_contain_text("not saved yet")
    expect(page.locator("#saved")).to_contain_text("saved", timeout=20_000)
    expect(page.locator("#unsaved")).to_have_text("")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("What they may have seen")).to_be_disabled()
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_label("What they may have seen")).to_be_enabled()
    expect(page.get_by_label("What they may have seen")).to_have_value("The panel")
    assert reread(note).state == CorrectionState.DRAFT


def test_what_cannot_be_sent_says_why_while_typing(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url())
    page.get_by_label("What exactly they need to do").fill("please ignore")
    expect(page.locator("#preview .no")).to_contain_text("can’t be acted on")
    page.get_by_role("button", name="Send to Meera Joshi").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    assert reread(note).state == CorrectionState.DRAFT


def test_sent_without_scripts(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url(), java_script_enabled=False)
    page.get_by_label("What they may have seen").fill("The panel")
    page.get_by_role("button", name="Send to Meera Joshi").click()
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("sent this")
    assert "The panel" in reread(note).text


def test_dismissed_with_a_reason(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url())
    page.get_by_role("button", name="Dismiss with a reason…").click()
    page.get_by_label("Why nobody needs to be told", exact=False).fill("Nobody was in.")
    page.get_by_role("button", name="Dismiss, send nothing").click()
    expect(page.locator("#result")).to_contain_text("Nobody was in.")
    assert reread(note).state == CorrectionState.DISMISSED


def test_what_is_typed_survives_somebody_elses_save(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url())
    page.get_by_label("What they may have seen").fill("Mine")
    services.edit(note, by=note.run.owner, revision=1, seen="Theirs")
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    expect(page.get_by_label("What they may have seen")).to_have_value("Mine")
    page.get_by_role("button", name="Save the draft").click()
    expect(page.get_by_role("alert")).to_contain_text("What you may have seen: Theirs")
    expect(page.get_by_label("What they may have seen")).to_have_value("Mine")
    shoot(page, "correction-stale")


def test_what_could_not_be_delivered_is_copied_to_be_told_by_hand(open_as, note):
    def refused(call):
        raise NoEffect("the channel is archived")

    world.before["correct"] = refused
    services.send(note, by=note.run.owner, revision=note.revision)
    delivery.deliver(note.run_id, note.pk)
    page = open_as(note.run.owner, note.get_absolute_url(), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the text").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == reread(note).text


def test_on_a_phone(open_as, note):
    page = open_as(note.run.owner, note.get_absolute_url(), **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # Two lines: the bar is always there, and the message must be read above it.
    assert page.locator("#decide").bounding_box()["height"] < 125
    shoot(page, "correction-phone")
    page.get_by_role("button", name="Send to Meera Joshi").tap()
    page.get_by_role("button", name="Yes, send").tap()
    expect(page.locator("#result")).to_contain_text("sent this")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_pages_are_accessible(open_as, accessible, note, scheme, size):
    page = open_as(note.run.owner, "/corrections/", color_scheme=scheme, **(PHONE if size == "phone" else {}))
    accessible(page)
    for path in ("", "?confirm=send", "?confirm=dismiss"):
        page.goto(f"{note.get_absolute_url()}{path}")
        accessible(page)
    shoot(page, f"correction-{scheme}-{size}")
    services.dismiss(note, by=note.run.owner, reason="Nobody was in.")
    page.goto(note.get_absolute_url())
    accessible(page)
