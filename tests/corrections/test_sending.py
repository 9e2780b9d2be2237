"""A correction is posted exactly once, whatever dies meanwhile, and says where it is."""

import pytest
from django.utils import timezone

from corrections import delivery, services
from corrections.exceptions import NotSendable, StaleEdit
from corrections.models import Correction
from corrections.receivers import send_what_is_due
from corrections.states import CorrectionState
from runs.capability import Args
from runs.exceptions import NoEffect, NotAllowed, TryLater
from runs.models import Page
from tests.corrections.scenes import draft_of, make_undone, own_audience
from tests.factories import make_user
from tests.helpers import reread, run_together
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def meera(db):
    return own_audience().owner


@pytest.fixture
def draft(token, meera):
    return draft_of(make_undone(token=token))


def send(draft, by):
    services.send(draft, by=by, revision=reread(draft).revision)


def deliver(draft):
    Correction.objects.filter(pk=draft.pk).update(due_at=None)
    delivery.deliver(draft.run_id, draft.pk)
    return reread(draft)


def test_what_the_owner_sends_is_posted_once_and_its_place_is_kept(draft, meera):
    send(draft, meera)
    sent = deliver(draft)
    assert (sent.state, sent.sent_by, sent.delivered) == (CorrectionState.SENT, "Meera Joshi", {"id": draft.key})
    assert world.calls("correct") == [sent.text]
    assert sent.text.startswith("[Automated correction - run ")
    entry = draft.run.entries.get(event="correction.sent")
    assert (entry.actor, entry.data["text"]) == ("person:Meera Joshi", sent.text)


def test_what_was_called_by_code_that_was_changed_since_is_posted_by_hand(draft, meera, monkeypatch):
    class Stricter(Args):
        name: str
        room: str

    monkeypatch.setattr(ShowThing, "Args", Stricter)
    send(draft, meera)
    left = deliver(draft)
    assert (left.state, world.calls("correct")) == (CorrectionState.NOT_DELIVERED, [])
    assert "post it by hand" in left.error


def test_a_second_delivery_posts_nothing(draft, meera):
    send(draft, meera)
    deliver(draft)
    deliver(draft)
    assert len(world.calls("correct")) == 1


def test_of_many_deliveries_at_once_one_posts(draft, meera):
    send(draft, meera)
    run_together(*[lambda: delivery.deliver(draft.run_id, draft.pk)] * 4)
    assert len(world.calls("correct")) == 1
    assert reread(draft).state == CorrectionState.SENT


class Killed(BaseException):
    """As if the process ended here: nothing after it runs."""


def killed(call):
    raise Killed


def lose_lease(draft):
    Correction.objects.filter(pk=draft.pk).update(lease_until=timezone.now())


def test_killed_after_the_post_the_next_attempt_finds_it(draft, meera):
    send(draft, meera)
    world.after["correct"] = killed
    with pytest.raises(Killed):
        deliver(draft)
    assert reread(draft).state == CorrectionState.SENDING
    world.after.clear()
    lose_lease(draft)
    assert deliver(draft).state == CorrectionState.SENT
    assert len(world.calls("correct")) == 1


def test_killed_before_the_post_the_next_attempt_posts(draft, meera):
    send(draft, meera)
    world.before["correct"] = killed
    with pytest.raises(Killed):
        deliver(draft)
    world.before.clear()
    lose_lease(draft)
    assert deliver(draft).state == CorrectionState.SENT
    assert len(world.calls("correct")) == 1


def test_a_lease_that_is_held_keeps_others_out(draft, meera):
    send(draft, meera)
    world.before["correct"] = killed
    with pytest.raises(Killed):
        deliver(draft)
    world.before.clear()
    deliver(draft)
    assert world.calls("correct") == []


def raise_(exc):
    def hook(call):
        raise exc

    return hook


def test_no_answer_is_looked_into_and_then_repeated(draft, meera):
    send(draft, meera)
    world.after["correct"] = raise_(TimeoutError("no answer"))
    waiting = deliver(draft)
    assert (waiting.state, waiting.in_doubt) == (CorrectionState.SENDING, True)
    assert deliver(draft).state == CorrectionState.SENT
    assert len(world.calls("correct")) == 1


def test_a_refusal_is_not_delivered_and_the_owner_is_paged(draft, meera):
    send(draft, meera)
    world.before["correct"] = raise_(NoEffect("the channel is archived"))
    failed = deliver(draft)
    assert (failed.state, failed.error, failed.in_doubt) == (CorrectionState.NOT_DELIVERED, "the channel is archived", False)
    assert Page.objects.filter(person=draft.run.owner, subject__contains="not delivered").exists()
    world.before.clear()
    send(draft, meera)
    assert deliver(draft).state == CorrectionState.SENT


def test_slow_down_waits_and_tries_again(draft, meera):
    send(draft, meera)
    world.before["correct"] = raise_(TryLater("429", 30))
    waiting = deliver(draft)
    assert waiting.state == CorrectionState.SENDING
    assert waiting.due_at > timezone.now()
    delivery.deliver(draft.run_id, draft.pk)
    world.before.clear()
    assert deliver(draft).state == CorrectionState.SENT


def test_where_nothing_can_look_a_refused_post_may_be_repeated(draft, meera, monkeypatch):
    from runs.capability import Capability

    monkeypatch.setattr(ShowThing, "probe_correction", Capability.probe_correction)
    send(draft, meera)
    world.before["correct"] = raise_(TryLater("429", 0))
    deliver(draft)
    world.before.clear()
    assert deliver(draft).state == CorrectionState.SENT


def test_where_nothing_can_look_the_machine_never_repeats_and_a_person_decides(draft, meera, monkeypatch):
    from runs.capability import Capability

    monkeypatch.setattr(ShowThing, "probe_correction", Capability.probe_correction)
    send(draft, meera)
    world.after["correct"] = raise_(TimeoutError("no answer"))
    deliver(draft)
    stopped = deliver(draft)
    assert (stopped.state, stopped.in_doubt) == (CorrectionState.NOT_DELIVERED, True)
    assert len(world.calls("correct")) == 1
    world.after.clear()
    send(draft, meera)
    assert deliver(draft).state == CorrectionState.SENT
    assert len(world.calls("correct")) == 2


def test_a_look_that_fails_posts_nothing(draft, meera, monkeypatch):
    send(draft, meera)
    world.after["correct"] = raise_(TimeoutError("no answer"))
    deliver(draft)
    monkeypatch.setattr(ShowThing, "probe_correction", lambda self, call, message: raise_(OSError("down"))(call))
    for _ in range(6):
        deliver(draft)
    assert (reread(draft).state, reread(draft).in_doubt) == (CorrectionState.NOT_DELIVERED, True)
    assert len(world.calls("correct")) == 1


def test_the_sweep_finds_a_lost_message(draft, meera, monkeypatch):
    rung = []
    monkeypatch.setattr("runs.bell.ring", lambda task, *ids: rung.append((task, ids)))
    send(draft, meera)
    rung.clear()
    send_what_is_due(None)
    assert ("corrections.tasks.deliver_correction", (draft.run_id, draft.pk)) in rung


def test_an_owner_named_since_the_draft_gets_the_note(token):
    draft = draft_of(make_undone(token=token))
    with pytest.raises(NotSendable, match="Nobody owns the audience"):
        send(draft, draft.run.owner)
    own_audience()
    send(draft, draft.run.owner)
    assert (reread(draft).recipient, reread(draft).address["user"]) == ("Meera Joshi", "U1")


def test_what_was_not_on_the_page_is_not_sent(draft, meera):
    services.edit(draft, by=meera, revision=1, seen="something else")
    with pytest.raises(StaleEdit):
        services.send(draft, by=meera, revision=1)
    assert reread(draft).state == CorrectionState.DRAFT


def test_two_presses_send_one(draft, meera):
    send(draft, meera)
    with pytest.raises(NotSendable, match="is sending this"):
        send(draft, meera)


def test_only_who_may_sends(draft, bob):
    with pytest.raises(NotAllowed):
        send(draft, bob)
    with pytest.raises(NotAllowed):
        services.dismiss(draft, by=make_user(), reason="x")
    assert reread(draft).state == CorrectionState.DRAFT


def test_a_disabled_owner_sends_nothing(draft, meera):
    meera.is_active = False
    meera.save()
    with pytest.raises(NotAllowed):
        send(draft, meera)


def test_a_dismissal_wants_a_reason_and_stands_under_a_name(draft, meera):
    with pytest.raises(NotSendable, match="reason is required"):
        services.dismiss(draft, by=meera, reason=" ")
    services.dismiss(draft, by=meera, reason="nobody was in the office")
    assert (reread(draft).state, reread(draft).dismissed_by) == (CorrectionState.DISMISSED, "Meera Joshi")
    assert draft.run.entries.get(event="correction.dismissed").data["why"] == "nobody was in the office"


def test_without_code_that_posts_it_is_for_a_person(draft, meera, monkeypatch):
    monkeypatch.setattr("runs.registry.find", lambda name: None)
    send(draft, meera)
    failed = deliver(draft)
    assert failed.state == CorrectionState.NOT_DELIVERED
    assert "post it by hand" in failed.error
