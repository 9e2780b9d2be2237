"""post_summary, its correction in the thread, and notes to people, against the world's chat."""

import dataclasses
import json

import pytest

from runs.capability import Message
from runs.connectors import slack
from runs.connectors.http import Unclear
from runs.connectors.slack import PostSummary
from runs.exceptions import NoEffect, TryLater, Unreadable

from .calls import OWNER, call_of, configured, done, posts, prepared

POST = PostSummary()
CORRECTION = Message(text="[Correction] It was premature.", key="correction-1", to=OWNER)


def post(text="Billing panel is done.", channel="#billing-dev", **given):
    return call_of(POST, channel=channel, text=text, **given)


def channel(world):
    return world.reading()["chat"]["channel"]


def test_a_message_is_posted_once_and_its_effect_says_where(world):
    call = done(POST, post())
    assert [m["text"] for m in channel(world)] == ["Billing panel is done."]
    assert call.effect["channel"] == "C0BILLING"
    assert call.effect["root"] == call.effect["ts"]
    assert call.effect["link"].startswith("https://acme.slack.example/archives/C0BILLING/p")
    assert POST.fill(POST.human_signal, call.effect) == "message in #billing-dev: Billing panel is done."
    assert POST.verify_done(call)
    assert not POST.verify_undone(call)
    assert len(posts(world)) == 1


def test_undoing_deletes_exactly_that_message(world):
    world.change("chat", say="Lunch?")
    call = done(POST, post())
    POST.undo(call)
    POST.undo(call)
    assert POST.verify_undone(call)
    assert [m["text"] for m in channel(world)] == ["Lunch?"]


def test_a_message_with_replies_leaves_a_tombstone_and_counts_as_undone(world):
    call = done(POST, post())
    world.change("chat", say="Nice!", thread=call.effect["ts"])
    POST.undo(call)
    assert POST.verify_undone(call)


def test_eng_14_a_message_that_a_person_deleted_counts_as_undone(world):
    call = done(POST, post())
    world.change("chat", ts=call.effect["ts"], delete=True)
    assert POST.verify_undone(call)
    assert not POST.verify_done(call)


def test_an_edited_message_is_drift(world):
    call = done(POST, post())
    world.change("chat", ts=call.effect["ts"], edit="Billing panel is not done.")
    assert not POST.verify_done(call)
    assert not POST.verify_undone(call)


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_a_look_without_a_definite_answer_is_unreadable(world, status):
    call = done(POST, post())
    world.fault("chat", times=0, status=status)
    for look in (POST.verify_undone, POST.verify_done, POST.probe):
        with pytest.raises(Unreadable):
            look(call)


@pytest.mark.parametrize("error", ["invalid_auth", "channel_not_found", "internal_error", "ratelimited"])
def test_a_refused_look_is_unreadable_not_gone(world, error):
    call = done(POST, post())
    world.fault("chat", times=0, status=200, data={"ok": False, "error": error})
    for look in (POST.verify_undone, POST.verify_done, POST.probe):
        with pytest.raises(Unreadable):
            look(call)


@pytest.mark.parametrize("fault", [{"answer": "drop"}, {"answer": "hang", "hang_for": 1}, {"status": 502}])
@pytest.mark.parametrize("in_thread", [False, True])
def test_out_02_a_message_whose_answer_was_lost_is_found_by_its_mark(world, fault, in_thread):
    thread = world.change("chat", say="Root")["ts"] if in_thread else ""
    call = prepared(POST, post(thread=thread, timeout=0.6))
    world.fault("chat", path="/api/chat.postMessage", **fault)
    with pytest.raises(Unclear):
        POST.do(call)
    found = POST.probe(call)
    assert found["text"] == "Billing panel is done."
    assert found["root"] == (thread or found["ts"])
    assert len(posts(world)) == 1


def test_a_message_that_never_arrived_is_not_found_nor_a_strangers_of_the_same_text(world):
    call = prepared(POST, post())
    world.change("chat", say="Billing panel is done.")
    done(POST, post(key="another"))
    assert POST.probe(call) is None


def test_a_message_is_found_below_more_than_one_page_of_others(world, monkeypatch):
    monkeypatch.setattr("runs.connectors.slack_api.PAGE", 2)
    call = done(POST, post())
    for number in range(5):
        world.change("chat", say=f"Later {number}")
    assert POST.probe(call) == call.effect


def test_a_search_that_would_have_to_go_on_says_so_instead_of_absent(world, monkeypatch):
    monkeypatch.setattr("runs.connectors.slack_api.PAGE", 2)
    monkeypatch.setattr("runs.connectors.slack_api.SEARCHED", 4)
    call = prepared(POST, post())
    for number in range(9):
        world.change("chat", say=f"Later {number}")
    with pytest.raises(Unreadable, match="a person has to look"):
        POST.probe(call)


def test_agents_text_becomes_no_mention_and_no_link(world):
    call = done(POST, post("<!channel> & <https://evil.example|click> *now*"))
    sent = json.loads(posts(world)[0]["body"])
    assert sent["text"] == "&lt;!channel&gt; &amp; &lt;https://evil.example|click&gt; *now*"
    assert sent["mrkdwn"] is False
    assert sent["link_names"] is False
    assert POST.verify_done(call)


def test_what_is_approved_is_what_is_sent_but_for_the_key(world):
    call = post("Hello")
    rendered = POST.render(call.args)
    assert rendered == POST.render(call.args)
    assert rendered.to["recipient"] == "#billing-dev"
    assert rendered.as_read == "Hello"
    done(POST, dataclasses.replace(post("Other"), payload=rendered))
    sent = json.loads(posts(world)[0]["body"])
    assert sent.pop("client_msg_id")
    assert sent["metadata"]["event_payload"] == {"key": "key-1"}
    approved = json.loads(rendered.body)
    assert {**sent, "metadata": None} == {**approved, "metadata": None}


def test_an_archived_and_a_missing_channel_are_refused_before_anything_is_said(world):
    with pytest.raises(NoEffect, match="no such channel"):
        POST.prepare(post(channel="#nowhere"))
    call = prepared(POST, post())
    world.change("chat", archive=True)
    with pytest.raises(NoEffect, match="the channel is archived"):
        POST.prepare(post())
    with pytest.raises(NoEffect, match="the channel is archived"):
        POST.do(call)
    assert not channel(world)


def test_a_wrong_token_and_a_dead_host_are_refusals_a_person_can_act_on(world, settings):
    configured(settings, "chat", token_file=None, token="xoxb-wr0ng")
    with pytest.raises(NoEffect, match=r"refused the credential \(invalid_auth\)") as caught:
        POST.prepare(post())
    assert "xoxb" not in caught.value.reason
    configured(settings, "chat", base_url="http://127.0.0.1:9/api")
    with pytest.raises(NoEffect, match="Nothing answers at"):
        POST.prepare(post())


@pytest.mark.parametrize(
    "fault",
    [{"status": 429, "headers": {"Retry-After": "30"}}, {"status": 200, "data": {"ok": False, "error": "ratelimited"}}],
)
def test_slow_down_is_try_later_and_asked_once(world, fault):
    call = prepared(POST, post())
    world.fault("chat", path="/api/chat.postMessage", effect=False, **fault)
    with pytest.raises(TryLater) as caught:
        POST.do(call)
    assert caught.value.after == 30
    assert len(posts(world)) == 1


def test_an_error_that_may_follow_the_post_is_unclear(world):
    call = prepared(POST, post())
    world.fault("chat", path="/api/chat.postMessage", status=200, data={"ok": False, "error": "fatal_error"})
    with pytest.raises(Unclear):
        POST.do(call)
    assert POST.probe(call)


def test_a_link_that_cant_be_had_leaves_the_message_posted(world):
    world.fault("chat", path="/api/chat.getPermalink", status=500)
    assert done(POST, post()).effect["link"] == ""


def test_cor_03_the_correction_of_a_message_is_a_reply_to_it(world):
    call = done(POST, post())
    posted = POST.correct(call, CORRECTION)
    assert channel(world)[1] == {"text": CORRECTION.text, "user": "U0SAGA", "thread": call.effect["ts"]}
    assert posted["channel"] == "C0BILLING"
    assert posted["id"]


def test_cor_03_the_correction_of_a_reply_is_in_the_thread_of_its_root(world):
    root = world.change("chat", say="How is it going?")["ts"]
    call = done(POST, post(thread=root))
    assert call.effect["root"] == root
    POST.correct(call, CORRECTION)
    assert channel(world)[-1]["thread"] == root


def test_a_correction_is_posted_once_for_its_key_also_when_its_answer_was_lost(world):
    call = done(POST, post())
    world.fault("chat", path="/api/chat.postMessage", answer="drop")
    with pytest.raises(Unclear):
        POST.correct(call, CORRECTION)
    found = POST.probe_correction(call, CORRECTION)
    assert POST.correct(call, CORRECTION) == found
    assert len(posts(world)) == 2
    assert POST.probe_correction(call, dataclasses.replace(CORRECTION, key="another")) is None


@pytest.mark.parametrize("with_replies", [False, True])
def test_cor_01_a_correction_of_a_message_that_is_gone_is_posted_nowhere(world, with_replies):
    call = done(POST, post())
    if with_replies:
        world.change("chat", say="Nice!", thread=call.effect["ts"])
    world.change("chat", ts=call.effect["ts"], delete=True)
    with pytest.raises(NoEffect, match="is gone from #billing-dev. Nothing was posted elsewhere"):
        POST.correct(call, CORRECTION)
    assert len(posts(world)) == 1


def test_cor_01_a_correction_in_an_archived_channel_says_so(world):
    call = done(POST, post())
    world.change("chat", archive=True)
    with pytest.raises(NoEffect, match="the channel is archived"):
        POST.correct(call, CORRECTION)


def test_cor_01_the_choice_to_post_in_the_channel_is_a_new_message_once(world):
    call = done(POST, post())
    world.change("chat", ts=call.effect["ts"], delete=True)
    (place,) = POST.elsewhere(call)
    assert place.quote == "The message this is about is no longer there. It said: “Billing panel is done.”"
    chosen = dataclasses.replace(CORRECTION, at=place.address)
    first, second = POST.correct(call, chosen), POST.correct(call, chosen)
    (posted,) = [m for m in channel(world) if m["text"] == CORRECTION.text]
    assert first == second
    assert posted["thread"] == ""
    assert POST.probe_correction(call, chosen) == first


def test_a_lost_answer_to_a_message_in_the_channel_is_unclear_not_refused(world):
    call = done(POST, post())
    chosen = dataclasses.replace(CORRECTION, at=POST.elsewhere(call)[0].address)
    world.fault("chat", path="/api/chat.postMessage", answer="drop")
    with pytest.raises(Unclear):
        POST.correct(call, chosen)
    assert POST.probe_correction(call, chosen)["channel"] == call.effect["channel"]


def test_answers_to_a_correction_are_counted_and_our_own_are_not(world):
    call = done(POST, post())
    world.change("chat", say="Before", thread=call.effect["ts"])
    where = POST.correct(call, CORRECTION)
    assert POST.replies(call, CORRECTION, where) == 0
    world.change("chat", say="Which one?", thread=call.effect["ts"])
    world.change("chat", say="Elsewhere")
    POST.correct(call, dataclasses.replace(CORRECTION, key="another"))
    assert POST.replies(call, CORRECTION, where) == 1


def test_two_messages_of_one_thread_are_corrected_in_one_place(world):
    root = world.change("chat", say="Root")["ts"]
    places = [POST.place(done(POST, post(text, key=text, thread=root))).key for text in ("one", "two")]
    assert places[0] == places[1]


def test_a_note_reaches_its_person_once_and_is_found_again_by_its_key(world):
    assert slack.find_note(CORRECTION, 5) is None
    posted = slack.note(CORRECTION, 5)
    assert slack.find_note(CORRECTION, 5) == posted
    assert slack.note(CORRECTION, 5) == posted
    assert world.reading()["chat"]["notes"] == [{"text": CORRECTION.text, "user": "U0SAGA", "thread": "", "to": "U0MEERA"}]
    assert not channel(world)


def test_answers_to_a_note_are_counted_below_it_and_beside_it(world):
    posted = slack.note(CORRECTION, 5)
    assert slack.replies_to(CORRECTION, posted, 5) == 0
    world.change("chat", say="Thanks", channel=posted["channel"])
    world.change("chat", say="Which panel?", channel=posted["channel"], thread=posted["id"])
    slack.note(dataclasses.replace(CORRECTION, key="another"), 5)
    assert slack.replies_to(CORRECTION, posted, 5) == 2


def test_a_note_whose_answer_was_lost_is_found(world):
    world.fault("chat", path="/api/chat.postMessage", answer="drop")
    with pytest.raises(Unclear):
        slack.note(CORRECTION, 5)
    assert slack.note(CORRECTION, 5)["id"]
    assert len(world.reading()["chat"]["notes"]) == 1


def test_a_note_to_someone_unknown_is_refused(world):
    with pytest.raises(NoEffect, match="user_not_found"):
        slack.note(dataclasses.replace(CORRECTION, to={"user": "U0NOBODY"}), 5)


@pytest.mark.parametrize("channel", ["billing dev", "#a b", "", "http://x"])
def test_a_channel_is_a_name_or_an_id(channel):
    with pytest.raises(ValueError, match="channel"):
        post(channel=channel)
