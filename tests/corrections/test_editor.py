"""The editor: what is typed is never lost, what is previewed is what goes, and nothing goes by looking."""

import re

import pytest

from corrections import delivery, services, wording
from corrections.models import Correction
from corrections.states import CorrectionState
from runs.capability import Place
from runs.exceptions import NoEffect
from sagaboard.web import counts_for
from tests.checker import forged
from tests.corrections.scenes import SHOWN_TWICE, draft_of, make_undone, own_audience
from tests.factories import make_user
from tests.helpers import forbidden, reread
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def meera(db):
    return own_audience().owner


@pytest.fixture
def draft(token, meera):
    return draft_of(make_undone(token=token))


@pytest.fixture
def owner(client, draft):
    client.force_login(draft.run.owner)
    return draft.run.owner


def typed(draft, **fields):
    return {
        "revision": draft.revision,
        "seen": draft.seen,
        "reverted_to": draft.reverted_to,
        "do": "specific",
        "what_to_do": "Close the bugs you filed.",
        "back": draft.back_when,
        "back_at": "",
        "questions_to": draft.questions_to_id,
        **fields,
    }


def save(client, draft, **fields):
    return client.post(f"/corrections/{draft.pk}/", typed(draft, **fields))


def page(client, path):
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_editor_shows_the_fields_the_message_and_what_it_rests_on(client, draft, owner):
    html = page(client, f"/corrections/{draft.pk}/")
    for needed in [
        "panel on the board",
        "Take panel off your list.",
        "Send to Meera Joshi",
        "Direct note to Meera Joshi",
        "From the log",
        "undone",
        "The undo was verified, by the log",
    ]:
        assert needed in html, needed


def test_the_preview_is_the_text_that_would_be_sent_and_saves_nothing(client, draft, owner):
    response = client.post(f"/corrections/{draft.pk}/preview/", typed(draft, seen="a <b>panel</b>"))
    said = re.sub(r"<[^>]+>", "", response.content.decode())
    assert "What you may have seen: a &lt;b&gt;panel&lt;/b&gt;, at" in said
    assert "Close the bugs you filed." in said
    assert reread(draft).seen == "panel on the board"
    services.edit(draft, by=owner, revision=1, seen="a panel", what_to_do="Close the bugs you filed.")
    assert "What you need to do: Close the bugs you filed." in wording.render_text(reread(draft))


def test_the_preview_names_what_stands_against_it(client, draft, owner):
    response = client.post(f"/corrections/{draft.pk}/preview/", typed(draft, what_to_do="please ignore"))
    assert "can’t be acted on" in response.content.decode()


def test_what_is_saved_is_in_the_log_with_what_it_was(client, draft, owner):
    assert save(client, draft, seen="The panel").status_code == 302
    entry = draft.run.entries.get(event="correction.edited")
    assert entry.data["changed"]["seen"] == {"was": "panel on the board", "is": "The panel"}
    assert reread(draft).revision == 2


def test_saving_what_is_there_changes_nothing(client, draft, owner):
    save(client, draft, what_to_do=draft.what_to_do)
    assert reread(draft).revision == 1


def test_nothing_to_do_is_said_in_so_many_words(client, draft, owner):
    save(client, draft, do="nothing", what_to_do="typed and then not meant")
    assert reread(draft).what_to_do == "Nothing."


def test_what_to_do_is_never_blank(client, draft, owner):
    response = save(client, draft, what_to_do=" ", seen="typed")
    assert response.status_code == 422
    html = response.content.decode()
    assert "Say what they need to do, or choose “Nothing”." in html
    assert 'value="typed"' in html
    assert reread(draft).seen == "panel on the board"


def test_a_time_of_its_own(client, draft, owner):
    assert save(client, draft, back="at").status_code == 422
    save(client, draft, back="at", back_at="on Thursday")
    assert reread(draft).back_when == "on Thursday"


def test_questions_go_to_a_person_of_the_team(client, draft, owner):
    assert save(client, draft, questions_to=make_user("stranger").pk).status_code == 422
    assert save(client, draft, questions_to=make_user("gone", team=draft.run.team, is_active=False).pk).status_code == 422


def test_the_second_of_two_editors_loses_nothing(client, draft, owner, meera):
    services.edit(draft, by=meera, revision=1, seen="Meera's words")
    response = save(client, draft, seen="The owner's words")
    assert response.status_code == 409
    html = response.content.decode()
    assert "Meera Joshi changed this draft while you wrote." in html
    assert 'value="The owner&#x27;s words"' in html
    assert "What you may have seen: Meera&#x27;s words" in html
    assert reread(draft).seen == "Meera's words"
    revision = re.search(r'name="revision" value="(\d+)"', html)[1]
    assert save(client, draft, seen="Both", revision=revision).status_code == 302
    assert reread(draft).seen == "Both"


def test_the_first_press_saves_and_leads_to_the_line_with_the_second(client, draft, owner):
    response = save(client, draft, seen="The panel", then="send")
    assert response.url.endswith("?confirm=send&tried=0")
    html = page(client, response.url)
    assert "Yes, send" in html
    assert 'name="revision" value="2"' in html
    assert '<fieldset class="form" disabled>' in html
    assert reread(draft).state == CorrectionState.DRAFT


def test_the_second_press_sends_what_was_on_the_page(client, draft, owner):
    save(client, draft, seen="The panel")
    response = client.post(f"/corrections/{draft.pk}/send/", {"revision": 2})
    assert response.status_code == 302
    delivery.deliver(draft.run_id, draft.pk)
    assert len(world.calls("correct")) == 1
    assert "What you may have seen: The panel, at" in world.calls("correct")[0]
    html = page(client, f"/corrections/{draft.pk}/")
    assert "Delivered" in html
    assert "Yes, send" not in html
    assert reread(draft).text in re.sub(r"<[^>]+>|\n", "", html) or "The panel" in html


def test_a_page_that_is_old_sends_nothing(client, draft, owner, meera):
    services.edit(draft, by=meera, revision=1, seen="changed")
    response = client.post(f"/corrections/{draft.pk}/send/", {"revision": 1})
    assert response.status_code == 409
    assert reread(draft).state == CorrectionState.DRAFT


def test_what_must_be_put_right_is_said_and_nothing_goes(client, draft, owner):
    Correction.objects.filter(pk=draft.pk).update(what_to_do="")
    response = client.post(f"/corrections/{draft.pk}/send/", {"revision": 1})
    assert response.status_code == 409
    assert "Nothing was sent. Say what they need to do" in response.content.decode()


@pytest.mark.parametrize("door", ["send", "dismiss", "hold", "preview"])
@pytest.mark.parametrize("method", ["get", "head", "options"])
def test_nothing_but_a_post_acts(client, draft, owner, door, method):
    assert getattr(client, method)(f"/corrections/{draft.pk}/{door}/?revision=1&reason=x").status_code == 405
    assert reread(draft).state == CorrectionState.DRAFT


def test_the_team_reads_and_does_not_send(client, draft, bob):
    client.force_login(bob)
    html = page(client, f"/corrections/{draft.pk}/")
    assert "You may read this." in html
    assert 'id="words"' not in html
    assert client.post(f"/corrections/{draft.pk}/send/", {"revision": 1}).status_code == 403
    assert save(client, draft, seen="mine").status_code == 403
    assert client.post(f"/corrections/{draft.pk}/dismiss/", {"reason": "x"}).status_code == 403
    assert client.post(f"/corrections/{draft.pk}/hold/").status_code == 403
    assert reread(draft).seen == "panel on the board"
    assert counts_for(bob, {})["corrections"].number == 0


def test_the_owner_of_the_audience_sees_and_sends_without_being_in_the_team(client, draft, meera):
    client.force_login(meera)
    assert "Draft, yours to send" in page(client, f"/corrections/{draft.pk}/")
    assert client.post(f"/corrections/{draft.pk}/send/", {"revision": 1}).status_code == 302
    assert counts_for(draft.run.owner, {})["corrections"].number == 0


def test_to_a_stranger_it_does_not_exist(client, draft):
    client.force_login(make_user("stranger"))
    for path in (f"/corrections/{draft.pk}/", f"/corrections/live/?id={draft.pk}"):
        assert client.get(path).status_code == 404
    assert client.post(f"/corrections/{draft.pk}/send/", {"revision": 1}).status_code == 404
    assert "panel" not in page(client, "/corrections/")


def test_a_dismissal_wants_a_reason(client, draft, owner):
    response = client.post(f"/corrections/{draft.pk}/dismiss/", {"reason": " "})
    assert response.status_code == 422
    assert "Say why nobody needs to be told." in response.content.decode()
    client.post(f"/corrections/{draft.pk}/dismiss/", {"reason": "nobody was in"})
    html = page(client, f"/corrections/{draft.pk}/")
    assert "dismissed this" in html
    assert "nobody was in" in html


def test_held_back_it_waits_for_a_person(client, draft, owner):
    client.post(f"/corrections/{draft.pk}/hold/")
    assert reread(draft).state == CorrectionState.HELD_BACK
    assert "Held back" in page(client, f"/corrections/{draft.pk}/")


def test_an_audience_nobody_owns_is_loud(client, token):
    draft = draft_of(make_undone(token=token))
    client.force_login(draft.run.owner)
    assert "One draft has nobody to go to" in page(client, "/corrections/")
    html = page(client, f"/corrections/{draft.pk}/")
    assert "Nobody owns the audience “" in html
    assert "There is nobody to tell" in html


def test_the_list_has_what_was_not_told_first(client, token, meera):
    first, second = make_undone(token=token), make_undone(token=token, plan=SHOWN_TWICE)
    first.owner = second.owner
    first.save()
    client.force_login(second.owner)
    services.dismiss(draft_of(first), by=second.owner, reason="nobody was in")
    html = page(client, "/corrections/")
    assert html.index("panel on the board, and 1 more") < html.index("Sent or dismissed") < html.rindex("panel on the board")
    assert counts_for(second.owner, {})["corrections"].number == 1


def test_not_delivered_shows_the_answer_and_offers_another_try(client, draft, owner):
    forged(draft.run, "as if the channel had refused it")
    Correction.objects.filter(pk=draft.pk).update(state=CorrectionState.NOT_DELIVERED, error="the channel is archived", text="x")
    html = page(client, f"/corrections/{draft.pk}/")
    for needed in ["Not delivered.", "channel is archived", "Try again", "Nothing was posted."]:
        assert needed in html, needed
    Correction.objects.filter(pk=draft.pk).update(error="The message is gone. Nothing was posted elsewhere: choose where it should go.")
    assert page(client, f"/corrections/{draft.pk}/").count("Nothing was posted") == 1


def test_the_page_of_the_second_press_shows_what_became_of_it_when_it_is_loaded_again(client, draft, owner):
    pressed = save(client, draft, then="send").url
    client.post(f"/corrections/{draft.pk}/send/", {"revision": 2})
    world.before["correct"] = refused
    delivery.deliver(draft.run_id, draft.pk)
    html = page(client, pressed)
    assert "Not delivered." in html
    assert "Yes, send" not in html
    assert "Yes, send" in page(client, save(client, reread(draft), then="send").url)


def refused(call):
    raise NoEffect("The channel is archived.")


def test_what_the_target_said_is_shown_as_text_and_not_as_markup(client, draft, owner):
    services.send(draft, by=owner, revision=1)
    world.before["correct"] = refused
    delivery.deliver(draft.run_id, draft.pk)
    html = page(client, draft.get_absolute_url())
    assert '<bdi dir="auto">The channel is archived.</bdi>' in html


def test_only_what_is_typed_and_not_stored_is_called_not_saved(client, draft, owner):
    path, stored = f"/corrections/{draft.pk}/preview/", {"do": "specific", "what_to_do": draft.what_to_do}
    assert "not saved yet" not in client.post(path, typed(draft, **stored)).content.decode()
    assert "not saved yet" in client.post(path, typed(draft, **stored, seen="other")).content.decode()
    assert (
        '<p class="hint" id="unsaved" hx-swap-oob="true"></p>'
        in client.post(f"/corrections/{draft.pk}/save/", typed(draft)).content.decode()
    )


def test_a_reply_stands_below_the_message_it_answers(client, draft, owner, monkeypatch):
    place = Place("thread:1", "a reply in the thread", "thread", above="The <b>panel</b> is on.")
    monkeypatch.setattr(ShowThing, "place", lambda self, call: place)
    assert "The &lt;b&gt;panel" not in page(client, draft.get_absolute_url())
    Correction.objects.filter(pk=draft.pk).update(place_key=place.key, place_kind="thread")
    html = page(client, draft.get_absolute_url())
    assert html.index("The &lt;b&gt;panel&lt;/b&gt; is on.") < html.index("[Automated correction")


def test_of_several_signals_each_has_its_line_and_its_time(client, token, meera):
    draft = draft_of(make_undone(token=token, plan=SHOWN_TWICE))
    client.force_login(draft.run.owner)
    html = page(client, draft.get_absolute_url())
    assert re.search(r'<textarea[^>]* id="seen"[^>]*>panel on the board\nbanner on the board</textarea>', html)
    assert 'Correct: <bdi dir="auto">panel on the board, and 1 more</bdi>' in html
    save(client, draft, seen="The panel\r\n\r\nThe banner ")
    assert reread(draft).seen == "The panel\nThe banner"
    save(client, reread(draft), seen="The panel\nThe banner\nThe wall")
    response = client.post(f"/corrections/{draft.pk}/send/", {"revision": 3})
    assert "Write a line for each of the 2 signals, in their order, or one for all." in response.content.decode()


def test_nothing_changed_is_204_and_a_change_never_replaces_what_is_typed(client, draft, owner, meera):
    poll = re.search(r'hx-get="(/corrections/live/[^"]*)"', page(client, f"/corrections/{draft.pk}/"))[1].replace("&amp;", "&")
    assert client.get(poll).status_code == 204
    services.edit(draft, by=meera, revision=1, seen="changed")
    answer = client.get(poll).content.decode()
    assert 'id="changed"' in answer
    assert 'id="correction"' not in answer
    assert 'id="correction"' in client.get(poll.replace("&editing", "")).content.decode()


@pytest.mark.parametrize("path", ["/corrections/", "/corrections/1/", "/corrections/1/?confirm=send", "/corrections/1/?confirm=dismiss"])
def test_no_page_carries_what_the_policy_forbids(client, draft, owner, path):
    Correction.objects.filter(pk=draft.pk).update(seen='<img src=x onerror="alert(1)">')
    html = page(client, path)
    assert forbidden(html) == []
    assert "<img" not in html


def test_what_stands_against_sending_can_be_put_right_where_it_is_said(client, draft, owner):
    client.force_login(owner)
    draft.what_to_do = "please ignore"
    draft.save()
    page = client.get(f"/corrections/{draft.pk}/?confirm=send").content.decode()
    assert "must be met first" in page
    assert 'class="form" disabled' not in page
    assert "Save" in page
