"""Edited in the browser and sent for real: the note of the story that fails, a ticket, a thread that is gone, an e-mail."""

import pytest
from playwright.sync_api import expect

from corrections import delivery
from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs import services
from runs.engine import compensate, invoke
from tests.browser.shots import shoot
from tests.factories import make_run, make_token, make_user, prove
from tests.helpers import reread
from tests.runs.connectors.calls import OWNER

pytestmark = pytest.mark.django_db(transaction=True)
FLAG = [{"ref": "flag", "capability": "set_flag", "args": {"flag": "billing_panel_v1", "segment": "qa-cohort", "value": True}}]


def edit_and_send(page, correction, words):
    """What the owner does: words, a look at the preview, send, yes; then a worker delivers it."""
    page.goto(correction.get_absolute_url())
    page.get_by_label("What exactly they need to do").fill(words)
    expect(page.locator("#preview")).to_contain_text(words, timeout=20_000)
    expect(page.locator("#saved")).to_contain_text("saved", timeout=20_000)
    shoot(page, f"correction-{correction.place_kind}")
    page.locator("#decide > button").first.click()
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("sent this", timeout=20_000)
    delivery.deliver(correction.run_id, correction.pk)
    page.goto(correction.get_absolute_url())
    return reread(correction)


def test_the_note_of_the_run_that_failed_is_edited_and_stands_in_the_chat(open_as, world, team):
    meera = make_user("meera", first_name="Meera", last_name="Joshi", time_zone="Asia/Kolkata")
    Audience.objects.create(name="qa-cohort", owner=meera, address=OWNER)
    prove("set_flag")
    token = make_token(team=team, person=make_user(first_name="Ana", last_name="Ruiz", team=team))
    run = make_run(token=token, plan=FLAG)
    step = run.steps.get()
    services.request_step(run, token=token, capability="set_flag", args=step.args, ref="flag")
    invoke.invoke(run.pk, step.pk)
    services.fail_run(run, token=token, reason="CI died")
    services.compensate_run(run, actor="person:Tomas Lindqvist")
    compensate.compensate(run.pk)
    draft = Correction.objects.get()
    page = open_as(run.owner, "/corrections/")
    words = "Discard test cases written against billing panel v1."
    sent = edit_and_send(page, draft, words)
    assert sent.state == CorrectionState.SENT
    (note,) = world.reading()["chat"]["notes"]
    assert (note["to"], note["text"]) == (OWNER["user"], sent.text)
    assert words in note["text"]
    expect(page.locator("#result")).to_contain_text("Delivered")
    shoot(page, "correction-note-sent")
    page.goto(f"/runs/{run.pk}/report/")
    shoot(page, "report")


def test_a_ticket_a_thread_that_is_gone_and_an_email_are_corrected_where_they_are(open_as, told, world):
    Audience.objects.create(name=told.drafts["summary"].audience, owner=make_user("meera", first_name="Meera"), address=OWNER)
    world.change("chat", ts=told.run.steps.get(ref="summary").effect["ts"], delete=True)
    page = open_as(told.run.owner, "/corrections/")
    shoot(page, "corrections-past-pivot")
    for ref in ("ticket", "mail", "partner"):
        assert edit_and_send(page, told.drafts[ref], f"Nothing for {ref}: we will write again.").state == CorrectionState.SENT
    assert world.reading()["ticket"]["comments"] == [reread(told.drafts["ticket"]).text]
    assert told.mails.taken[1]["In-Reply-To"] == told.mails.taken[0]["Message-ID"]
    thread = told.drafts["summary"]
    assert edit_and_send(page, thread, "Please forget the review.").state == CorrectionState.NOT_DELIVERED
    expect(page.locator("#result")).to_contain_text("is gone from #billing-dev")
    shoot(page, "correction-not-delivered")
    page.get_by_role("button", name="Show how it looks there").click()
    expect(page.locator("#preview")).to_contain_text("It said:")
    shoot(page, "correction-elsewhere")
    page.locator("#decide > button").first.click()
    page.get_by_role("button", name="Yes, send").click()
    expect(page.locator("#result")).to_contain_text("sent this", timeout=20_000)
    delivery.deliver(thread.run_id, thread.pk)
    assert world.reading()["chat"]["channel"][-1]["text"] == reread(thread).text
    page.goto(f"/runs/{told.run.pk}/report/")
    shoot(page, "report-past-pivot")
