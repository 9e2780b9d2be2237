"""A draft says what the log says: one for each place where people saw something, and none where nobody did."""

import datetime as dt
import re

import pytest

from corrections import delivery, drafting, wording
from corrections import services as corrections
from corrections.models import Correction
from corrections.states import CorrectionState
from outbox import services as outbox
from runs import preview, services
from runs.capability import Place
from runs.engine import compensate
from runs.sections import sections
from runs.states import RunState, StepState
from tests.checker import forged
from tests.corrections.scenes import SHOWN_TWICE, draft_of, make_failed, make_undone, own_audience
from tests.factories import make_run, make_user
from tests.helpers import reread
from tests.outbox.scenes import deliver, item_of, make_released
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)
SPAN = r"\d\d:\d\d(:\d\d)? to \d\d:\d\d(:\d\d)? UTC"


def test_every_field_is_filled_from_the_log(token):
    own_audience()
    run = make_undone(token=token)
    draft = draft_of(run)
    step = run.steps.get(ref="show")
    assert draft.seen == "panel on the board"
    assert draft.what_to_do == "Take panel off your list."
    assert draft.reverted_to == f"nothing on the board, as before {step.done_at:%H:%M} UTC"
    assert (draft.recipient, draft.address) == ("Meera Joshi", {"target": "chat", "user": "U1"})
    assert draft.questions_to == run.owner
    assert draft.signals[0]["from"] == step.done_at.isoformat()
    assert draft.signals[0]["to"] == step.undone_at.isoformat()
    assert not wording.problems(draft)


def test_the_message_is_the_template(token):
    own_audience()
    run = make_undone(token=token)
    lines = wording.render_text(draft_of(run)).splitlines()
    assert lines[0] == f"[Automated correction - run {run.number}]"
    assert re.fullmatch(r"What you may have seen: panel on the board, at \d\d:\d\d(:\d\d)? to \d\d:\d\d(:\d\d)? UTC\.", lines[1])
    assert re.fullmatch(r"Status: this was premature\. It has been reverted to nothing on the board, as before \d\d:\d\d UTC\.", lines[2])
    assert lines[3:] == [
        "What you need to do: Take panel off your list.",
        "When it will come back: unknown, the owner will update.",
        f"Questions: {run.owner}, not this bot.",
    ]


def test_the_preview_is_the_very_text(token):
    draft = draft_of(make_undone(token=token))
    assert "\n".join("".join(part.text for part in line) for line in wording.message(draft)) == wording.render_text(draft)


def test_two_signals_in_one_place_are_one_message(token):
    own_audience()
    run = make_undone(token=token, plan=SHOWN_TWICE)
    draft = draft_of(run)
    assert draft.steps.count() == 2
    lines = wording.render_text(draft).splitlines()
    assert lines[1] == "What you may have seen:"
    assert re.fullmatch(rf"- panel on the board, at {SPAN}\.", lines[2])
    assert re.fullmatch(rf"- banner on the board, at {SPAN}\.", lines[3])
    assert re.fullmatch(
        r"Status: this was premature\. It has been reverted to nothing on the board, as before( \d\d:\d\d UTC)?\.", lines[4]
    )
    assert lines[5] == "What you need to do: Take panel off your list. Take banner off your list."
    assert run.entries.filter(event="correction.drafted").count() == 2


def test_cor_04_of_two_signals_in_one_place_only_what_is_gone_is_said_to_be(token):
    own_audience()
    run = make_failed(token=token, plan=SHOWN_TWICE)
    world.before["undo panel"] = lambda call: (_ for _ in ()).throw(RuntimeError("500"))
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    world.before.clear()
    said = wording.render_text(draft_of(run))
    assert re.search(r"- panel on the board, at \d\d:\d\d UTC, and it still is\.", said)
    assert re.search(rf"- banner on the board, at {SPAN}\.", said)
    assert re.search(
        r"What has an end above has been reverted to nothing on the board, as before \d\d:\d\d UTC\. Taking back the rest", said
    )


def test_one_line_for_all_signals_has_the_time_of_all(token):
    own_audience()
    draft = draft_of(make_undone(token=token, plan=SHOWN_TWICE))
    draft.seen = "two notes on the board"
    assert re.search(rf"What you may have seen: two notes on the board, at {SPAN}\.", wording.render_text(draft))


def test_how_several_are_again_is_said_once():
    same = [{"reverted_to": "off, as before 10:00 UTC"}, {"reverted_to": "off, as before 10:02 UTC"}, {"reverted_to": ""}]
    assert drafting.reverted_to(same) == "off, as before"
    assert drafting.reverted_to(same[1:]) == "off, as before 10:02 UTC"
    assert drafting.reverted_to([*same, {"reverted_to": "To Do, as before 10:02 UTC"}]) == "off and To Do, as before"


def test_what_only_machines_read_needs_no_correction(token):
    run = make_undone(token=token, plan=[{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}])
    assert not run.corrections.exists()


def test_a_run_undone_before_anyone_could_see_it_has_none(token):
    run = make_run(token=token)
    services.fail_run(run, token=token, reason="at once")
    assert not Correction.objects.exists()


def test_one_signal_has_one_correction_however_often_it_is_undone(token):
    run = make_undone(token=token)
    drafting.draft(_locked(run), run.steps.get(ref="show"), "undone")
    assert run.corrections.count() == 1


def _locked(run):
    run.__dict__["clock"] = dt.datetime.now(dt.UTC)
    return run


def test_found_gone_is_corrected_too(token):
    run = make_failed(token=token)
    world.things.pop("panel")
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    assert draft_of(run).signals[0]["how"] == "gone"


def test_what_stays_is_not_said_to_be_reverted(token, alice):
    own_audience()
    run = make_failed(token=token)
    services.leave_standing(run, by=alice, reason="we keep it")
    text = wording.render_text(draft_of(run))
    assert "it is still as you saw it" in text
    assert "reverted" not in text
    assert "UTC, and it still is" in text


def test_what_a_person_settled_is_said_to_be_their_word(token, alice):
    run = make_failed(token=token)
    world.before["undo panel"] = lambda call: (_ for _ in ()).throw(RuntimeError("500"))
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.STUCK
    step = run.steps.get(ref="show")
    assert step.state == StepState.UNDO_FAILED
    assert "Taking it back is not confirmed yet." in wording.render_text(draft_of(run))
    services.settle_step(step, by=alice, how="undone_by_hand", reason="I took it down")
    draft = draft_of(run)
    assert (draft.reverted_to, draft.revision) == ("how it was, says Alice Ahn", 2)


def make_stuck(token):
    run = make_failed(token=token)
    world.before["undo panel"] = lambda call: (_ for _ in ()).throw(RuntimeError("500"))
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    world.before.clear()
    return run


def test_a_draft_takes_up_what_became_of_the_undo_and_keeps_the_owners_words(token):
    run = make_stuck(token)
    corrections.edit(draft_of(run), by=run.owner, revision=1, seen="The panel on the wall")
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    draft = draft_of(run)
    assert (draft.seen, draft.signals[0]["how"], draft.revision) == ("The panel on the wall", "undone", 3)
    assert "It has been reverted to nothing on the board" in wording.render_text(draft)


def test_a_draft_that_says_reverted_before_the_log_does_is_not_sent(token):
    own_audience()
    run = make_stuck(token)
    draft = corrections.edit(draft_of(run), by=run.owner, revision=1, reverted_to="off")
    assert wording.problems(draft) == ["It says that it was reverted, and the log does not. Leave that field empty."]


def test_what_went_out_and_still_holds_is_not_followed_by_another(token):
    own_audience()
    run = make_undone(token=token)
    corrections.send(draft_of(run), by=run.owner, revision=1)
    delivery.deliver(run.pk, draft_of(run).pk)
    assert drafting.draft(_locked(run), run.steps.get(ref="show"), "gone") is None
    assert run.corrections.count() == 1


def test_what_went_out_is_followed_by_a_second_one_when_it_is_no_longer_so(token):
    own_audience()
    run = make_stuck(token)
    first = draft_of(run)
    corrections.send(first, by=run.owner, revision=1)
    delivery.deliver(run.pk, first.pk)
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    second = run.corrections.exclude(pk=first.pk).get()
    assert second.signals[0]["how"] == "undone"
    assert not wording.problems(second)
    corrections.send(second, by=run.owner, revision=1)
    delivery.deliver(run.pk, second.pk)
    assert len(world.calls("correct")) == 2


def test_an_effect_left_behind_past_the_pivot_is_corrected(token, alice):
    admin = make_user("root", roles=("admin",), team=token.team)
    run = make_released(token=token)
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        outbox.approve(item, digest=item.digest, by=alice)
    deliver(run)
    services.compensate_run(run, actor="person:root", by=admin, override=True)
    compensate.compensate(run.pk)
    assert {one.signals[0]["how"] for one in run.corrections.all()} == {"left_standing"}
    assert run.corrections.count() == 2


def test_a_capability_that_breaks_while_drafting_does_not_stop_the_undo(token, monkeypatch):
    monkeypatch.setattr(ShowThing, "place", lambda self, call: call.effect["channel"])
    run = make_undone(token=token)
    assert run.state == RunState.COMPENSATED
    assert draft_of(run).place_label == "whoever read show_thing"


def test_a_dismissed_signal_that_is_undone_again_is_drafted_again(token):
    run = make_undone(token=token)
    draft = draft_of(run)
    forged(run, "only that it was dismissed matters")
    Correction.objects.filter(pk=draft.pk).update(state=CorrectionState.DISMISSED, dismissed_by="x", dismissed_why="y")
    drafting.draft(_locked(run), run.steps.get(ref="show"), "undone")
    assert run.corrections.count() == 2


def test_the_preview_of_an_undo_names_who_would_be_told(token, monkeypatch):
    own_audience()
    run = make_failed(token=token)
    told = sections.would_tell(run, list(run.steps.all()))
    assert [(one.who, one.what, one.how, one.owned) for one in told] == [("Meera Joshi", "panel on the board", "the board", True)]
    monkeypatch.setattr(ShowThing, "place", lambda self, call: call.effect["channel"])
    assert [one.how for one in sections.would_tell(run, list(run.steps.all()))] == ["whoever read show_thing"]


def test_the_preview_of_an_undo_promises_to_tell_nobody_where_nobody_owns_the_audience(token, monkeypatch):
    run = make_failed(token=token)
    assert preview.of(run, look=False).tells == "nobody"
    monkeypatch.setattr(ShowThing, "place", lambda self, call: Place("thread:1", "a reply in the thread", "thread"))
    assert preview.of(run, look=False).tells == "1 place"
    own_audience()
    monkeypatch.undo()
    assert preview.of(run, look=False).tells == "1 person"


def test_times_are_in_the_readers_zone_too(token):
    own_audience(time_zone="Asia/Kolkata")
    assert re.search(r"UTC \(\d\d:\d\d(:\d\d)? to \d\d:\d\d(:\d\d)? in Kolkata\)", wording.render_text(draft_of(make_undone(token=token))))


PROBLEMS = [
    ({"what_to_do": " "}, "Say what they need to do"),
    ({"what_to_do": "Please ignore this."}, "can’t be acted on"),
    ({"what_to_do": "Close {ticket}."}, "A slot in braces is not filled"),
    ({"seen": ""}, "Say what they may have seen"),
]


@pytest.mark.parametrize(("fields", "says"), PROBLEMS)
def test_what_must_be_put_right_first(token, fields, says):
    own_audience()
    draft = draft_of(make_undone(token=token))
    for name, text in fields.items():
        setattr(draft, name, text)
    found = wording.problems(draft)
    assert len(found) == 1
    assert says in found[0]


def test_questions_go_to_somebody_who_can_sign_in(token):
    own_audience()
    draft = draft_of(make_undone(token=token))
    draft.questions_to = make_user(is_active=False)
    assert wording.problems(draft) == ["Questions must go to a person who can sign in."]


def test_a_note_for_an_audience_nobody_owns_has_nobody_to_go_to(token):
    draft = draft_of(make_undone(token=token))
    assert draft.recipient == ""
    assert any("Nobody owns the audience “team”" in one for one in wording.problems(draft))
    own_audience()
    assert not wording.problems(reread(draft))


def test_a_fact_that_changed_stands_against_sending(token):
    own_audience()
    run = make_undone(token=token)
    forged(run, "a fact that changed behind the draft")
    run.steps.filter(ref="show").update(state=StepState.DRIFTED)
    assert any("Step 2 is drifted now" in one for one in wording.problems(draft_of(run)))
