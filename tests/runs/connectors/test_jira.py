"""transition_ticket against the world's tracker, whose webhook calls the client portal."""

import dataclasses
import json

import pytest

from runs.capability import Message
from runs.connectors.http import Unclear
from runs.connectors.jira import TransitionTicket, document
from runs.exceptions import NoEffect, TryLater, Unreadable
from runs.states import Audience, Kind

from .calls import call_of, configured, done, prepared, writes

MOVE = TransitionTicket()


def move(to="In Review", issue="BILL-318", **given):
    return call_of(MOVE, issue=issue, to=to, **given)


def status(world):
    return world.reading()["ticket"]["status"]


def test_a_ticket_moves_by_the_transitions_name_once_and_its_webhook_is_called_once(world):
    call = done(MOVE, move(comment="Ready to look at."))
    assert call.effect["before"] == "In Progress"
    assert call.effect["after"] == "In Review"
    assert world.reading()["ticket"] == {"status": "In Review", "comments": ["Ready to look at."]}
    assert [(p["from"], p["to"]) for p in world.reading()["portal"]] == [("In Progress", "In Review")]
    assert len(world.ledger("portal")) == 1
    assert MOVE.verify_done(call)
    assert not MOVE.verify_undone(call)


def test_a_transition_is_also_found_by_the_status_it_leads_to(world):
    assert done(MOVE, move("to do")).effect["after"] == "To Do"


def test_undoing_goes_back_by_the_way_that_leads_from_the_present_status(world):
    call = done(MOVE, move())
    MOVE.undo(call)
    assert MOVE.verify_undone(call)
    assert status(world) == "In Progress"
    assert [json.loads(e["body"])["transition"]["id"] for e in writes(world.ledger("tickets"))] == ["21", "32"]


def test_eng_17_a_ticket_that_is_back_already_is_not_called_again(world):
    call = done(MOVE, move())
    world.change("tickets", status="In Progress")
    heard = len(world.ledger("portal"))
    assert MOVE.verify_undone(call)
    MOVE.undo(call)
    assert len(writes(world.ledger("tickets"))) == 1
    assert len(world.ledger("portal")) == heard


def test_eng_17_a_ticket_that_a_person_moved_on_is_drift_and_goes_back_from_where_it_is_now(world):
    call = done(MOVE, move())
    world.change("tickets", status="Done")
    assert not MOVE.verify_done(call)
    assert not MOVE.verify_undone(call)
    MOVE.undo(call)
    assert json.loads(writes(world.ledger("tickets"))[-1]["body"])["transition"]["id"] == "41"
    assert MOVE.verify_undone(call)


def test_eng_17_no_way_back_names_what_is_on_offer_and_calls_nothing(world):
    call = done(MOVE, move())
    world.change("tickets", status="Closed")
    with pytest.raises(NoEffect, match="is in Closed, from where no transition leads to In Progress. On offer: nothing"):
        MOVE.undo(call)
    assert len(writes(world.ledger("tickets"))) == 1
    call = prepared_from_to_do(world)
    with pytest.raises(NoEffect, match="On offer: Closed, In Progress"):
        MOVE.undo(call)
    assert MOVE.place(call).label == "a comment on BILL-318"


def prepared_from_to_do(world):
    """A call whose ticket was in review before it, and is now to be begun, from where nothing leads there at once."""
    world.change("tickets", status="To Do")
    return dataclasses.replace(move(), prepared={"before": "In Review"}, effect={"after": "Done"})


def test_eng_17_moving_to_the_present_status_is_refused_without_a_call(world):
    with pytest.raises(NoEffect, match="is in In Progress already"):
        MOVE.prepare(move("In Progress"))
    assert not writes(world.ledger("tickets"))
    assert not world.ledger("portal")


def test_a_ticket_that_was_moved_since_prepare_is_left_alone(world):
    call = prepared(MOVE, move())
    world.change("tickets", status="Done")
    with pytest.raises(NoEffect, match="moved from In Progress to Done meanwhile"):
        MOVE.do(call)
    assert not writes(world.ledger("tickets"))


@pytest.mark.parametrize("fault", [{"answer": "drop"}, {"answer": "hang", "hang_for": 1}, {"status": 502}])
def test_out_02_a_transition_whose_answer_was_lost_is_found_by_its_mark(world, fault):
    call = prepared(MOVE, move(timeout=0.5))
    world.fault("tickets", method="POST", **fault)
    with pytest.raises(Unclear):
        MOVE.do(call)
    found = MOVE.probe(call)
    assert (found["before"], found["after"]) == ("In Progress", "In Review")
    assert len(world.ledger("portal")) == 1


def test_a_second_attempt_converges_on_the_first_ones_effect(world):
    call = done(MOVE, move())
    assert MOVE.do(call) == call.effect
    assert len(world.ledger("portal")) == 1


def test_a_transition_that_never_arrived_is_not_found(world):
    call = prepared(MOVE, move())
    world.fault("tickets", method="POST", effect=False, answer="drop")
    with pytest.raises(Unclear):
        MOVE.do(call)
    assert MOVE.probe(call) is None


def test_eng_18_a_persons_move_to_the_same_status_is_not_ours(world):
    call = prepared(MOVE, move())
    world.change("tickets", status="In Review")
    assert MOVE.probe(call) is None


def test_a_move_by_our_own_account_without_this_calls_mark_is_for_a_person(world):
    call = prepared(MOVE, move(key="lost"))
    done(MOVE, move(key="other"))
    with pytest.raises(Unreadable, match="a person has to look"):
        MOVE.probe(call)


def test_our_own_move_of_an_earlier_run_is_no_riddle(world):
    earlier = done(MOVE, move(key="earlier"))
    MOVE.undo(earlier)
    call = prepared(MOVE, move(key="later"))
    assert MOVE.probe(call) is None


def test_a_lie_is_seen_through(world):
    world.fault("tickets", method="POST", effect=False)
    call = done(MOVE, move())
    assert not MOVE.verify_done(call)
    assert MOVE.verify_undone(call)
    assert not world.reading()["portal"]


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_a_look_without_a_definite_answer_is_unreadable(world, status):
    call = done(MOVE, move())
    world.fault("tickets", times=0, status=status)
    for look in (MOVE.verify_undone, MOVE.verify_done, MOVE.probe):
        with pytest.raises(Unreadable):
            look(call)


def test_a_deleted_ticket_is_unreadable_not_undone(world):
    call = done(MOVE, move())
    world.change("tickets", delete=True)
    with pytest.raises(Unreadable, match="no ticket BILL-318"):
        MOVE.verify_undone(call)


def test_a_wrong_token_and_a_dead_host_are_refusals_a_person_can_act_on(world, settings):
    configured(settings, "tickets", token_file=None, token="wr0ng")
    with pytest.raises(NoEffect, match="refused the credential") as caught:
        MOVE.prepare(move())
    assert "wr0ng" not in caught.value.reason
    configured(settings, "tickets", base_url="http://127.0.0.1:9")
    with pytest.raises(NoEffect, match="Nothing answers at"):
        MOVE.prepare(move())


def test_slow_down_is_try_later_and_costs_no_transition(world):
    call = prepared(MOVE, move())
    world.fault("tickets", method="POST", effect=False, status=429, headers={"Retry-After": "30"})
    with pytest.raises(TryLater):
        MOVE.do(call)
    assert status(world) == "In Progress"
    assert len(writes(world.ledger("tickets"))) == 1


def test_what_is_approved_is_what_is_sent_but_for_the_id_of_the_name_and_the_mark(world):
    call = move(comment="Two\n\nparagraphs & <b>")
    rendered = MOVE.render(call.args)
    done(MOVE, dataclasses.replace(call, payload=rendered))
    sent = json.loads(writes(world.ledger("tickets"))[0]["body"])
    assert sent.pop("properties") == [
        {"key": "sagaboard.key-1", "value": {"key": "key-1", "before": "In Progress", "after": "In Review", "transition": "21"}}
    ]
    assert sent.pop("transition") == {"id": "21"}
    assert {**sent, "transition": {"name": "In Review"}} == json.loads(rendered.body)
    assert rendered.as_read == "BILL-318 → In Review\nTwo\n\nparagraphs & <b>"


def test_the_approved_comment_is_sent_even_if_the_arguments_say_otherwise(world):
    approved = MOVE.render(move(comment="approved").args)
    done(MOVE, dataclasses.replace(move(comment="other"), payload=approved))
    assert world.reading()["ticket"]["comments"] == ["approved"]


def test_a_move_that_a_webhook_may_hear_is_irreversible_and_read_by_clients(world, settings):
    for options in ({"webhook": True}, {"webhook": None}):
        configured(settings, "tickets", **options)
        reach = MOVE.classify(move().args)
        assert (reach.kind, reach.audience) == (Kind.IRREVERSIBLE, Audience.CLIENTS)
    reach = MOVE.classify(move(target="nowhere").args)
    assert (reach.kind, reach.audience) == (Kind.IRREVERSIBLE, Audience.CLIENTS)
    assert MOVE.classify(move(target="tickets-sandbox").args).kind is None
    assert MOVE.audience_name(move().args) == "client portal"


def test_the_sandbox_ticket_can_be_moved_and_moved_back_unheard(world):
    call = done(MOVE, move(issue="SAND-1", target="tickets-sandbox"))
    MOVE.undo(call)
    assert MOVE.verify_undone(call)
    assert not world.ledger("portal")


def test_the_correction_is_one_comment_on_the_ticket_found_again_by_its_key(world):
    call = done(MOVE, move(comment="Ready."))
    message = Message(text="[Correction]\nIt was premature.", key="correction-1")
    assert MOVE.place(call).key == "ticket:BILL-318"
    assert MOVE.probe_correction(call, message) is None
    posted = MOVE.correct(call, message)
    assert MOVE.correct(call, message) == posted
    assert posted["link"].endswith(f"/browse/BILL-318?focusedCommentId={posted['id']}")
    assert world.reading()["ticket"]["comments"] == ["Ready.", "[Correction]\nIt was premature."]
    assert MOVE.probe_correction(call, dataclasses.replace(message, key="another")) is None


def test_answers_to_a_correction_are_the_comments_after_it(world):
    call = done(MOVE, move(comment="Ready."))
    message = Message(text="It was premature.", key="correction-1")
    posted = MOVE.correct(call, message)
    MOVE.correct(call, dataclasses.replace(message, key="another"))
    assert MOVE.replies(call, message, posted) == 0
    assert MOVE.replies(call, message, {"id": "0"}) == 1
    assert MOVE.place(call).readers == "everybody who can see BILL-318, by webhook also client portal"


def test_a_correction_whose_answer_was_lost_is_found_by_its_key(world):
    call = done(MOVE, move())
    message = Message(text="It was premature.", key="correction-1")
    world.fault("tickets", method="POST", answer="drop")
    with pytest.raises(Unclear):
        MOVE.correct(call, message)
    assert MOVE.correct(call, message)["id"]
    assert len(world.reading()["ticket"]["comments"]) == 1


def test_a_correction_of_a_ticket_that_is_gone_says_so_and_posts_nothing(world):
    call = done(MOVE, move())
    world.change("tickets", delete=True)
    with pytest.raises(NoEffect, match="no ticket BILL-318|does not exist"):
        MOVE.correct(call, Message(text="x", key="c"))


def test_text_becomes_paragraphs_and_never_markup():
    assert document("a\n\n*b*")["content"] == [
        {"type": "paragraph", "content": [{"type": "text", "text": "a"}]},
        {"type": "paragraph", "content": []},
        {"type": "paragraph", "content": [{"type": "text", "text": "*b*"}]},
    ]


@pytest.mark.parametrize("issue", ["BILL-318/comment", "../3", "bill-1", ""])
def test_a_ticket_key_cant_lead_elsewhere(issue):
    with pytest.raises(ValueError, match="issue"):
        move(issue=issue)
