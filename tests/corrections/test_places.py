"""A correction goes where the signal was; where that is gone, a person chooses the next place, and it is there once."""

import re

import pytest

from corrections import delivery, places, services
from corrections.exceptions import NotSendable
from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs.capability import Place
from runs.exceptions import NoEffect
from tests.corrections.scenes import draft_of, leave_in_doubt, make_undone, own_audience
from tests.helpers import reread
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)
WALL = Place("wall", "the wall", "channel", {"wall": 1}, limit=4000, readers="everybody", quote="The note is gone. It said: “panel”")


@pytest.fixture
def draft(token, monkeypatch):
    """A reply in a thread, whose message was deleted."""
    own_audience()
    monkeypatch.setattr(ShowThing, "place", lambda self, call: Place("thread:1", "a reply in the thread", "thread", limit=4000))
    monkeypatch.setattr(ShowThing, "elsewhere", lambda self, call: [WALL])
    return draft_of(make_undone(token=token))


def fail_to_send(draft):
    def gone(call):
        raise NoEffect("The message is gone. Nothing was posted elsewhere: choose where it should go.")

    world.before["correct"] = gone
    services.send(draft, by=draft.run.owner, revision=reread(draft).revision)
    delivery.deliver(draft.run_id, draft.pk)
    world.before.clear()
    return reread(draft)


def test_the_owner_is_shown_the_next_places_and_nothing_goes_there_by_itself(draft, client):
    failed = fail_to_send(draft)
    assert failed.state == CorrectionState.NOT_DELIVERED
    assert [place.key for place in places.left(failed)] == ["wall", f"owner:{Audience.objects.get().pk}"]
    client.force_login(draft.run.owner)
    html = re.sub(r"<[^>]+>", "", client.get(f"/corrections/{draft.pk}/").content.decode())
    for needed in ["Send elsewhere", "the wall", "Seen by everybody", "a note to Meera Joshi, who owns team", "Dismiss with a reason"]:
        assert needed in html, needed
    assert world.calls("correct") == []


def test_the_choice_is_logged_and_the_message_quotes_what_is_gone(draft, client):
    fail_to_send(draft)
    client.force_login(draft.run.owner)
    assert client.post(f"/corrections/{draft.pk}/elsewhere/", {"to": "wall"}).status_code == 302
    moved = reread(draft)
    assert (moved.state, moved.place_label, moved.readers) == (CorrectionState.HELD_BACK, "the wall", "everybody")
    chosen = draft.run.entries.filter(event="correction.edited").order_by("seq").last()
    assert chosen.data["handed_over"] == {"was": "a reply in the thread", "is": "the wall"}
    assert chosen.actor == f"person:{draft.run.owner}"
    assert "It said: “panel”" in client.get(f"/corrections/{draft.pk}/").content.decode()
    services.send(moved, by=draft.run.owner, revision=moved.revision)
    delivery.deliver(draft.run_id, draft.pk)
    (posted,) = world.calls("correct")
    assert posted.splitlines()[1] == WALL.quote


def test_handed_to_the_owner_of_the_audience_it_is_a_note_to_that_person(draft, monkeypatch):
    noted = []
    monkeypatch.setattr("runs.connectors.notes.note", lambda message, timeout: noted.append(message) or {"id": "1"})
    fail_to_send(draft)
    moved = services.hand_over(draft, by=draft.run.owner, to=places.left(draft)[1].key)
    services.send(moved, by=draft.run.owner, revision=moved.revision)
    delivery.deliver(draft.run_id, draft.pk)
    assert reread(draft).state == CorrectionState.SENT
    assert [one.to for one in noted] == [{"target": "chat", "user": "U1"}]
    assert "You get this because you own “team”" in noted[0].text
    assert world.calls("correct") == []


def test_a_place_of_its_own_has_a_key_of_its_own(draft):
    before = fail_to_send(draft).key
    assert services.hand_over(draft, by=draft.run.owner, to="wall").key != before


@pytest.mark.parametrize("to", ["", "thread:1", "the moon"])
def test_it_goes_only_where_it_may(draft, to):
    fail_to_send(draft)
    with pytest.raises(NotSendable, match="can’t go there"):
        services.hand_over(draft, by=draft.run.owner, to=to)


def test_what_a_place_does_not_take_is_said_before_it_is_sent(draft):
    Correction.objects.filter(pk=draft.pk).update(limit=20)
    with pytest.raises(NotSendable, match="characters too long for this place, which takes 20"):
        services.send(draft, by=draft.run.owner, revision=1)


@pytest.mark.parametrize("found", [True, False])
def test_what_was_reworded_while_in_doubt_is_never_taken_for_what_was_posted(draft, monkeypatch, found):
    """The lost attempt posted the old words, or nothing; the log never claims the new ones for it."""
    old = leave_in_doubt(draft, monkeypatch, posted=found).text
    services.edit(draft, by=draft.run.owner, revision=reread(draft).revision, seen="Other words")
    services.send(draft, by=draft.run.owner, revision=reread(draft).revision)
    delivery.deliver(draft.run_id, draft.pk)
    sent = reread(draft)
    assert sent.state == CorrectionState.SENT
    assert world.calls("correct") == [sent.text]
    second = Correction.objects.filter(follows=draft)
    if found:
        assert sent.text == old
        assert second.get().seen == "Other words"
    else:
        assert "Other words" in sent.text
        assert not second.exists()
