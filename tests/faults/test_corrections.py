"""People who saw a signal that was premature are told where they saw it, of what is so, once; and nobody is forgotten."""

from __future__ import annotations

import re

import pytest

from corrections import by_itself, delivery, places, services, wording
from corrections.exceptions import NotSendable, StaleEdit
from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs import services as runs
from runs.engine import compensate
from runs.models import Run
from runs.run_list import Wanted, board
from runs.states import RunState, StepState
from tests.checker import forged
from tests.corrections.real import PLACES, SAID, Told
from tests.corrections.scenes import SHOWN, draft_of, leave_in_doubt, make_failed, make_undone, own_audience
from tests.factories import make_user
from tests.helpers import reread
from tests.tools import world as shelf

pytestmark = pytest.mark.django_db(transaction=True)


# COR-01


def make_gone(told: Told, ref: str) -> None:
    if ref == "summary":
        told.world.change("chat", ts=told.run.steps.get(ref="summary").effect["ts"], delete=True)
    elif ref == "ticket":
        told.world.change("tickets", issue="BILL-318", delete=True)
    else:
        told.mails.fault = {"rcpt sam@halden.example": "550 no such mailbox"}


@pytest.mark.parametrize("ref", ["summary", "ticket", "mail"])
def test_cor_01_a_place_that_is_gone_is_found_gone_and_the_owner_chooses_the_next(told, client, ref):
    audience = Audience.objects.create(
        name=told.drafts[ref].audience, owner=make_user("meera"), address={"target": "chat", "user": "U0MEERA"}
    )
    make_gone(told, ref)
    before = (told.channel(), told.world.reading()["chat"]["notes"], len(told.mails.taken))
    failed = told.send(ref)
    assert (failed.state, failed.in_doubt) == (CorrectionState.NOT_DELIVERED, False)
    assert (told.channel(), told.world.reading()["chat"]["notes"], len(told.mails.taken)) == before
    client.force_login(told.run.owner)
    html = re.sub(r"<[^>]+>", "", client.get(failed.get_absolute_url()).content.decode())
    for needed in ["Not delivered.", "Send elsewhere", f"a note to {audience.owner}, who owns", "Dismiss with a reason"]:
        assert needed in html, needed
    chosen = places.left(failed)[0]
    assert chosen.kind == ("channel" if ref == "summary" else "note")
    client.post(f"{failed.get_absolute_url()}elsewhere/", {"to": chosen.key})
    entry = told.run.entries.filter(event="correction.edited", data__handed_over__is=chosen.label).get()
    assert entry.actor == f"person:{told.run.owner}"
    assert told.channel() == before[0]
    sent = told.send(ref)
    assert sent.state == CorrectionState.SENT
    posted = told.channel()[-1] if ref == "summary" else told.world.reading()["chat"]["notes"][-1]
    assert posted["text"] == sent.text
    if ref == "summary":
        assert posted["thread"] == ""
        assert f"It said: “{SAID}”" in posted["text"]
    else:
        assert posted["to"] == "U0MEERA"


def archive(told: Told) -> None:
    told.world.change("chat", archive=True)


def close(told: Told) -> None:
    """As a workflow closes it: nothing of it can be changed any more, and it takes no comments."""
    told.world.fault("tickets", method="POST", path="/rest/api/3/issue/BILL-318/comment", status=400, effect=False, times=0)


@pytest.mark.parametrize(("ref", "happens", "says"), [("summary", archive, "the channel is archived"), ("ticket", close, "400")])
def test_cor_01_a_place_that_takes_nothing_any_more_is_named_and_nothing_goes_elsewhere_by_itself(told, ref, happens, says):
    own = {"owner": make_user("meera"), "address": {"target": "chat", "user": "U0MEERA"}}
    Audience.objects.create(name=told.drafts[ref].audience, **own)
    happens(told)
    before = (told.channel(), told.world.reading()["chat"]["notes"], told.world.reading()["ticket"])
    failed = told.send(ref)
    assert (failed.state, failed.in_doubt) == (CorrectionState.NOT_DELIVERED, False)
    assert says in failed.error
    assert (told.channel(), told.world.reading()["chat"]["notes"], told.world.reading()["ticket"]) == before
    note = next(place for place in places.left(failed) if place.kind == "note")
    services.hand_over(failed, by=told.run.owner, to=note.key)
    assert told.send(ref).state == CorrectionState.SENT
    assert told.world.reading()["chat"]["notes"][-1]["to"] == "U0MEERA"


# COR-02


def test_cor_02_the_second_of_two_owners_sees_both_texts_and_loses_nothing(token, client):
    meera = own_audience().owner
    draft = draft_of(make_undone(token=token))
    services.edit(draft, by=meera, revision=1, seen="What Meera wrote")
    client.force_login(draft.run.owner)
    typed = {"revision": 1, "seen": "What Ana wrote yesterday", "reverted_to": "", "do": "nothing", "what_to_do": ""}
    typed |= {"back": draft.back_when, "back_at": "", "questions_to": draft.questions_to_id}
    response = client.post(draft.get_absolute_url(), typed)
    html = response.content.decode()
    assert response.status_code == 409
    assert "What Meera wrote" in html
    assert 'value="What Ana wrote yesterday"' in html
    assert reread(draft).seen == "What Meera wrote"


def test_cor_02_a_page_that_does_not_show_what_is_stored_sends_nothing(token):
    meera = own_audience().owner
    draft = draft_of(make_undone(token=token))
    services.edit(draft, by=meera, revision=1, seen="What Meera wrote")
    with pytest.raises(StaleEdit):
        services.send(draft, by=draft.run.owner, revision=1)
    assert reread(draft).state == CorrectionState.DRAFT


# COR-03


def test_cor_03_each_correction_stands_directly_under_its_signal(told):
    """Looked up in the targets: the ticket, the thread's root, the e-mail that it answers, the notice."""
    assert {ref: one.place_kind for ref, one in told.drafts.items()} == PLACES
    sent = {ref: told.send(ref) for ref in PLACES}
    assert {one.state for one in sent.values()} == {CorrectionState.SENT}
    assert told.world.reading()["ticket"]["comments"] == [sent["ticket"].text]
    message, reply = told.channel()
    assert (message["thread"], reply["thread"]) == ("", told.run.steps.get(ref="summary").effect["ts"])
    assert reply["text"] == sent["summary"].text
    first, answer = told.mails.taken
    assert (answer["In-Reply-To"], answer["References"]) == (first["Message-ID"], first["Message-ID"])
    assert answer.get_content().splitlines() == sent["mail"].text.splitlines()
    assert sent["partner"].delivered["notice"] == told.run.steps.get(ref="partner").effect["id"]
    for ref in ("ticket", "summary"):
        assert sent[ref].delivered["link"]


# COR-04


def stuck(token) -> Run:
    """Of two effects that people see, the later is undone and verified and the earlier is not."""
    plan = [*SHOWN, {"ref": "wall", "capability": "show_thing", "args": {"name": "wall"}}]
    run = make_failed(token=token, plan=plan)
    shelf.before["undo panel"] = lambda call: (_ for _ in ()).throw(RuntimeError("500"))
    runs.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    shelf.before.clear()
    run.refresh_from_db()
    return run


def test_cor_04_only_a_verified_undo_is_said_to_be_one(token, monkeypatch):
    own_audience()
    monkeypatch.setattr("tests.tools.ShowThing.place", lambda self, call: places.Place(call.args.name, call.args.name, "note"))
    run = stuck(token)
    assert run.state == RunState.STUCK
    by_place = {one.place_key: one for one in run.corrections.all()}
    assert "It has been reverted to nothing on the board" in wording.render_text(by_place["wall"])
    said = wording.render_text(by_place["panel"])
    assert "Taking it back is not confirmed yet." in said
    assert "reverted to" not in said
    step = run.steps.get(ref="wall")
    assert by_place["wall"].signals[0]["from"] == step.done_at.isoformat()
    assert by_place["wall"].signals[0]["to"] == step.undone_at.isoformat()


def test_cor_04_words_may_be_edited_and_a_fact_may_not(token):
    own_audience()
    run = stuck(token)
    draft = draft_of(run)
    draft = services.edit(draft, by=run.owner, revision=draft.revision, reverted_to="off, as before", what_to_do="Close your bugs.")
    run.steps.filter(ref="wall").update(state=StepState.DRIFTED)
    forged(run, "what a late look would find")
    with pytest.raises(NotSendable, match="Step 3 is drifted now"):
        services.send(draft, by=run.owner, revision=draft.revision)
    services.edit(draft, by=run.owner, revision=draft.revision, what_to_do=" ")
    with pytest.raises(NotSendable, match="Say what they need to do"):
        services.send(draft, by=run.owner, revision=reread(draft).revision)


def test_cor_04_nothing_is_reverted_where_the_log_knows_of_no_undo(token):
    own_audience()
    run = make_failed(token=token)
    shelf.before["undo panel"] = lambda call: (_ for _ in ()).throw(RuntimeError("500"))
    runs.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    shelf.before.clear()
    draft = services.edit(draft_of(run), by=run.owner, revision=1, reverted_to="off")
    with pytest.raises(NotSendable, match="says that it was reverted, and the log does not"):
        services.send(draft, by=run.owner, revision=draft.revision)


def test_cor_04_what_goes_by_itself_is_looked_at_once_more(token):
    own_audience()
    Audience.objects.update(send_after=1)
    draft = draft_of(make_undone(token=token))
    Correction.objects.update(goes_at=draft.drafted_at)
    shelf.things["panel"] = {"value": "on", "key": "somebody else"}
    by_itself.send_by_itself(draft.run_id, draft.pk)
    assert reread(draft).state == CorrectionState.DRAFT
    assert reread(draft).error == "The effect of step 2 is there again."


def test_cor_04_the_log_holds_the_words_that_were_posted(token, monkeypatch):
    """The answer to the first attempt is lost, the owner rewords, and the look finds the first one's message."""
    own_audience()
    draft = draft_of(make_undone(token=token))
    leave_in_doubt(draft, monkeypatch, posted=True)
    services.edit(draft, by=draft.run.owner, revision=1, seen="Other words")
    services.send(draft, by=draft.run.owner, revision=2)
    delivery.deliver(draft.run_id, draft.pk)
    (posted,) = shelf.calls("correct")
    assert draft.run.entries.get(event="correction.sent").data["text"] == posted == reread(draft).text
    assert Correction.objects.get(follows=draft).seen == "Other words"


# COR-05


def test_cor_05_each_visible_effect_has_one_draft_where_it_was_seen_and_stays_open_until_somebody_acts(token, monkeypatch):
    own_audience()
    monkeypatch.setattr("tests.tools.ShowThing.place", lambda self, call: places.Place(call.args.name, call.args.name, "note"))
    run = make_undone(token=token, plan=[*SHOWN, {"ref": "wall", "capability": "show_thing", "args": {"name": "wall"}}])
    assert sorted(run.corrections.values_list("place_key", "recipient")) == [("panel", "Meera Joshi"), ("wall", "Meera Joshi")]
    owner, now = run.owner, run.ended_at
    assert [line.label for line in board(owner, Wanted(), now).needs] == ["Compensated, 2 to tell"]
    first, second = run.corrections.all()
    services.send(first, by=owner, revision=1)
    delivery.deliver(run.pk, first.pk)
    with pytest.raises(NotSendable, match="reason is required"):
        services.dismiss(second, by=owner, reason="")
    assert [line.label for line in board(owner, Wanted(), now).needs] == ["Compensated, 1 to tell"]
    services.dismiss(second, by=owner, reason="Nobody was in.")
    assert board(owner, Wanted(), now).needs == []


def test_cor_05_past_the_pivot_every_effect_left_behind_is_corrected(told):
    assert told.run.state == RunState.COMPENSATED
    assert set(told.drafts) == set(PLACES)
    assert {one.signals[0]["how"] for one in told.drafts.values()} == {"left_standing"}
    # The sentence goes on after the words that were posted.
    assert told.drafts["summary"].seen == f"message in #billing-dev: {SAID.removesuffix('.')}"
    assert all("it is still as you saw it" in wording.render_text(one) for one in told.drafts.values())
    assert all(one.what_to_do and one.questions_to == told.run.owner for one in told.drafts.values())
    assert all(one.for_clients == (one.steps.get().audience == "clients") for one in told.drafts.values())
