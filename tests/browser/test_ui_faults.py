"""Fault UI-03 in a real browser: news that come while a hand writes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from corrections import services as corrections
from outbox import services as outbox
from outbox.models import Decision, Policy
from outbox.policies import policy_for
from tests.browser.scenes import make_board, make_note
from tests.factories import make_token, make_user
from tests.outbox.scenes import item_of, make_released, set_policy

pytestmark = pytest.mark.django_db(transaction=True)
LOW = {"viewport": {"width": 1280, "height": 500}}
# A button that appears where another was ignores presses for this long.
GUARD = 800
# What a hand has in the page: the field it writes in, the text, where the cursor stands, and what is in view.
HAND = """() => {
  const el = document.activeElement;
  return [el.id || el.name, el.value, el.selectionStart, el.selectionEnd, Math.round(el.getBoundingClientRect().top)];
}"""


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


def half_typed(page, label, text):
    """The cursor stands in the middle of what was typed."""
    field = page.get_by_label(label, exact=False).first
    field.fill(text)
    field.evaluate("(el) => { el.focus(); el.setSelectionRange(3, 5); }")
    return page.evaluate(HAND)


def test_ui_03_what_an_owner_types_stays_as_it_is_and_saving_over_news_is_refused(open_as, team):
    note = make_note(team)
    page = open_as(note.run.owner, note.get_absolute_url(), **LOW)
    hand = half_typed(page, "What they may have seen", "Mine, half")
    corrections.edit(note, by=note.run.owner, revision=1, seen="Theirs")
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    page.wait_for_timeout(2 * GUARD)
    assert page.evaluate(HAND)[:4] == hand[:4]
    page.get_by_role("button", name="Save the draft").click()
    expect(page.get_by_role("alert")).to_contain_text("What you may have seen: Theirs")
    expect(page.get_by_label("What they may have seen")).to_have_value("Mine, half")


def test_ui_03_a_reason_half_typed_stays_and_a_decision_on_what_changed_is_refused_with_the_difference(open_as, alice, team, settings):
    set_policy("tell_client", editable=["value"])
    item = item_of(make_board(team, settings), "tell")
    item.policy = policy_for("tell_client", "clients")
    item.save()
    page = open_as(alice, f"{item.get_absolute_url()}?confirm=reject", **LOW)
    hand = half_typed(page, "Why", "Not bef")
    priya = make_user(first_name="Priya", last_name="Nair", roles=("reviewer",), team=team)
    outbox.edit(item, digest=item.digest, by=priya, fields={"value": "other words"})
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    page.wait_for_timeout(2 * GUARD)
    assert page.evaluate(HAND)[:4] == hand[:4]
    page.get_by_role("button", name="Reject, send nothing").click()
    expect(page.get_by_role("alert").first).to_contain_text("It changed while you read")
    expect(page.get_by_role("region", name="What changed", exact=True)).to_contain_text("other words")
    assert not Decision.objects.exists()


def test_ui_03_rows_that_are_ticked_stay_ticked_and_in_place(open_as, alice, team):
    token = make_token(team=team)
    plan = [{"ref": f"c{n}", "capability": "tell_client", "args": {"name": f"client {n}", "value": "x"}} for n in range(3)]
    make_released(token=token, plan=plan)
    page = open_as(alice, "/outbox/", **LOW)
    boxes = page.locator('#several input[name="item"]')
    boxes.nth(1).check()
    boxes.nth(1).focus()
    ticked, stood = boxes.nth(1).get_attribute("value"), boxes.nth(1).bounding_box()
    with page.expect_response(lambda answer: "/outbox/live/" in answer.url and answer.status == 200):
        make_released(
            token=make_token(team=team), plan=[{"ref": "new", "capability": "tell_client", "args": {"name": "new", "value": "x"}}]
        )
    page.wait_for_timeout(2 * GUARD)
    box = page.locator(f'#several input[value="{ticked}"]')
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    assert box.bounding_box()["y"] == pytest.approx(stood["y"], abs=2)
