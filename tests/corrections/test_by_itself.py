"""A policy sends after a delay, never to clients, and never what is not so any more."""

import datetime as dt

import pytest
from django.db import IntegrityError
from django.utils import timezone

from corrections import by_itself, delivery, services
from corrections.models import Audience, Correction
from corrections.receivers import send_what_is_due
from corrections.states import CorrectionState
from runs.models import Page
from tests.corrections.scenes import draft_of, make_undone, own_audience
from tests.helpers import reread
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def draft(token):
    own_audience()
    Audience.objects.update(send_after=10)
    return draft_of(make_undone(token=token))


def when_due(draft):
    Correction.objects.filter(pk=draft.pk, goes_at__isnull=False).update(goes_at=timezone.now() - dt.timedelta(seconds=1))
    by_itself.send_by_itself(draft.run_id, draft.pk)
    return reread(draft)


def test_it_goes_by_itself_when_its_time_has_come_and_not_before(draft, monkeypatch):
    assert dt.timedelta(minutes=9) < draft.goes_at - timezone.now() < dt.timedelta(minutes=10)
    by_itself.send_by_itself(draft.run_id, draft.pk)
    assert reread(draft).state == CorrectionState.DRAFT
    rung = []
    monkeypatch.setattr("runs.bell.ring", lambda task, *ids: rung.append((task, ids)))
    Correction.objects.filter(pk=draft.pk).update(goes_at=timezone.now())
    send_what_is_due(None)
    assert ("corrections.tasks.send_by_itself", (draft.run_id, draft.pk)) in rung
    assert when_due(draft).state == CorrectionState.SENDING
    delivery.deliver(draft.run_id, draft.pk)
    assert len(world.calls("correct")) == 1
    sent = draft.run.entries.get(event="correction.sent")
    assert (sent.actor, reread(draft).sent_by) == ("engine", "sagaboard, by itself")


def test_what_is_there_again_is_not_said_to_be_gone(draft):
    world.things["panel"] = {"value": "on", "key": "somebody else"}
    waiting = when_due(draft)
    assert (waiting.state, waiting.goes_at, waiting.error) == (CorrectionState.DRAFT, None, "The effect of step 2 is there again.")
    assert Page.objects.filter(person=draft.run.owner, subject__contains="did not go by itself").exists()
    assert world.calls("correct") == []


def test_what_cannot_be_looked_at_waits_for_the_owner(draft):
    def down(call):
        raise OSError("down")

    world.before["verify_undone"] = down
    waiting = when_due(draft)
    assert waiting.state == CorrectionState.DRAFT
    assert "could not be looked at" in waiting.error


def test_a_draft_with_an_empty_field_waits_for_the_owner(draft):
    Correction.objects.filter(pk=draft.pk).update(what_to_do="")
    assert "Say what they need to do" in when_due(draft).error


def test_held_back_or_being_edited_it_does_not_go(draft):
    services.edit(draft, by=draft.run.owner, revision=1, seen="The panel")
    assert reread(draft).goes_at > draft.goes_at
    services.hold_back(draft, by=draft.run.owner)
    assert reread(draft).goes_at is None
    assert when_due(draft).state == CorrectionState.HELD_BACK


def test_what_clients_read_never_goes_by_itself(draft):
    with pytest.raises(IntegrityError, match="correction_to_clients_by_a_person"):
        Correction.objects.filter(pk=draft.pk).update(for_clients=True)
