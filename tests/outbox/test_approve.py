"""One decision, bound to what was on the screen, by a person who may: by every door, however often and however concurrently."""

import re
from functools import partial

import pytest
from django.utils import timezone

from outbox import services
from outbox.exceptions import NotDecidable
from outbox.models import Decision, Item
from outbox.states import ItemState
from runs import services as run_services
from runs.models import CapabilityRecord
from sagaboard.accounts.models import Token
from tests.factories import ask, do, make_run, make_token, make_user
from tests.helpers import meet_after, reread, run_together
from tests.outbox.scenes import CLIENTS, deliver, go_green, item_of, make_released

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(token):
    return make_released(token=token)


@pytest.fixture
def item(run):
    return item_of(run, "tell")


@pytest.fixture
def carol(team):
    return make_user("carol", roles=("reviewer",), team=team)


def press(client, item, digest=None, **headers):
    return client.post(f"/outbox/{item.pk}/approve/", {"digest": item.digest if digest is None else digest}, **headers)


def test_a_reviewer_approves_and_the_card_says_so(client, alice, item):
    client.force_login(alice)
    response = client.get(press(client, item).url)
    assert reread(item).state == ItemState.APPROVED
    assert "Approved by you." in response.content.decode()
    decision = Decision.objects.get()
    assert (decision.by, decision.digest, decision.role) == (alice, item.digest, "on-call, owner, reviewer")


def test_the_first_press_changes_nothing_and_leads_to_the_line_with_the_second(client, alice, item):
    client.force_login(alice)
    page = client.get(f"/outbox/{item.pk}/", {"confirm": "approve"}).content.decode()
    assert "Yes, send" in page
    assert f'name="digest" value="{item.digest}"' in page
    assert reread(item).state == ItemState.AWAITING


def test_by_htmx_the_answer_is_the_page_whose_part_is_taken(client, alice, item):
    client.force_login(alice)
    response = client.post(f"/outbox/{item.pk}/approve/", {"digest": item.digest}, headers={"HX-Request": "true"}, follow=True)
    assert 'id="item"' in response.content.decode()
    assert reread(item).state == ItemState.APPROVED


def test_the_wrong_person_is_refused_on_the_card_and_in_the_log(client, bob, item):
    client.force_login(bob)
    response = press(client, item)
    assert response.status_code == 409
    assert "Nothing was sent" in response.content.decode()
    assert reread(item).state == ItemState.AWAITING
    refused = item.step.run.entries.get(event="item.refused")
    assert refused.actor == f"person:{bob}"


def test_to_a_stranger_the_item_does_not_exist(client, item):
    client.force_login(make_user("stranger"))
    assert client.get(f"/outbox/{item.pk}/").status_code == 404
    assert press(client, item).status_code == 404
    assert not Decision.objects.exists()
    assert not item.step.run.entries.filter(event="item.refused").exists()


def test_nobody_decides_without_signing_in(client, item):
    assert press(client, item).url.startswith("/login/")
    assert reread(item).state == ItemState.AWAITING


@pytest.mark.parametrize("method", ["get", "head", "options", "put", "delete"])
def test_nothing_but_a_post_decides(client, alice, item, method):
    client.force_login(alice)
    for door in ("approve", "reject", "ask-again", "drop"):
        response = getattr(client, method)(f"/outbox/{item.pk}/{door}/?digest={item.digest}&reason=x&fate=drop")
        assert response.status_code == 405
    assert not Decision.objects.exists()
    assert reread(item).state == ItemState.AWAITING


def test_a_post_without_the_forms_token_decides_nothing(alice, item):
    from django.test import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert press(client, item).status_code == 403
    assert not Decision.objects.exists()


def test_approving_what_changed_meanwhile_sends_nothing(client, alice, item):
    client.force_login(alice)
    response = press(client, item, digest="0" * 64)
    assert response.status_code == 409
    assert "It changed while you read. Nothing was sent" in response.content.decode()
    assert not Decision.objects.exists()


def test_the_second_of_two_reviewers_reads_who_decided(client, alice, carol, item):
    services.approve(item, digest=item.digest, by=alice)
    client.force_login(carol)
    response = press(client, item)
    assert response.status_code == 409
    assert "Alice Ahn approved this" in response.content.decode()


def test_a_double_click_is_one_decision_and_no_refusal(client, alice, item):
    client.force_login(alice)
    assert [press(client, item).status_code for _ in range(3)] == [302, 302, 302]
    assert Decision.objects.count() == 1
    assert not item.step.run.entries.filter(event="item.refused").exists()


def test_a_run_that_failed_meanwhile_sends_nothing_and_the_card_says_why(client, alice, item, run):
    run_services.report_check(run, token=run.token, name="ci", state="failure")
    client.force_login(alice)
    response = press(client, item)
    assert response.status_code == 409
    page = response.content.decode()
    assert re.search(r"The run failed at \d\d:\d\d:\d\d UTC; this was withdrawn, unsent\.", page)
    assert "Yes, send" not in page


def test_a_capability_disabled_meanwhile_is_not_approved(client, alice, item):
    CapabilityRecord.objects.filter(name="tell_client").update(disabled_at=timezone.now(), disabled_why="incident 7")
    client.force_login(alice)
    response = press(client, item)
    assert response.status_code == 409
    assert "tell_client is disabled: incident 7. Nothing was sent." in response.content.decode()
    assert reread(item).state == ItemState.AWAITING


def test_who_answers_for_a_narrower_token_that_asked_does_not_approve_what_it_asked_for(alice, carol, token):
    run = make_run(token=token, plan=CLIENTS)
    narrow = make_token(team=run.team, person=alice)
    Token.objects.filter(pk=narrow.pk).update(run_number=run.pk)
    do(run, "one")
    for ref, asks in (("tell", narrow), ("also", token)):
        ask(run, "tell_client", token=asks, args=run.steps.get(ref=ref).args, ref=ref)
    go_green(run)
    tell, also = item_of(run, "tell"), item_of(run, "also")
    with pytest.raises(NotDecidable, match="You answer for the agent that asked, so someone else must approve it"):
        services.approve(tell, digest=tell.digest, by=alice)
    services.approve(also, digest=also.digest, by=alice)
    services.approve(tell, digest=tell.digest, by=carol)
    assert deliver(run) == ["news", "more"]


def test_a_right_taken_away_counts_from_the_next_request(client, alice, item):
    client.force_login(alice)
    assert "Approve and send to client" in client.get(f"/outbox/{item.pk}/").content.decode()
    alice.groups.clear()
    page = client.get(f"/outbox/{item.pk}/").content.decode()
    assert "Approve and send to client" not in page
    assert press(client, item).status_code == 409


def test_the_owner_sees_why_the_yes_is_not_theirs_and_whose_it_is(client, alice, carol, item, run):
    run.owner = alice
    run.save()
    client.force_login(alice)
    page = client.get(f"/outbox/{item.pk}/").content.decode()
    assert "Approve and send" not in page
    assert "You own the run, so someone else must approve it." in page
    assert "Reject…" in page


def test_of_two_reviewers_exactly_one_decides(alice, carol, item, monkeypatch):
    meet_after(monkeypatch, services, "check_decidable")
    calls = [partial(services.approve, reread(item), digest=item.digest, by=by) for by in (alice, carol)]
    assert sorted(type(result).__name__ for result in run_together(*calls)) == ["NoneType", "NotDecidable"]
    assert Decision.objects.count() == 1


def test_of_approve_and_reject_at_once_exactly_one_counts(alice, carol, item, monkeypatch):
    meet_after(monkeypatch, services, "check_decidable")
    yes = partial(services.approve, reread(item), digest=item.digest, by=alice)
    no = partial(services.reject, reread(item), digest=item.digest, by=carol, reason="no")
    assert sorted(type(result).__name__ for result in run_together(yes, no)) == ["NoneType", "NotDecidable"]
    assert Decision.objects.count() == 1


def test_one_persons_two_tabs_make_one_decision(alice, item, monkeypatch):
    meet_after(monkeypatch, services, "check_decidable")
    calls = [partial(services.approve, reread(item), digest=item.digest, by=alice) for _ in range(4)]
    assert run_together(*calls) == [None] * 4
    assert Decision.objects.count() == 1


def test_approve_and_the_end_of_the_run_never_both_win(alice, run, item, monkeypatch):
    other = item_of(run, "also")
    services.approve(other, digest=other.digest, by=alice)
    meet_after(monkeypatch, services, "check_decidable")
    approve = partial(services.approve, reread(item), digest=item.digest, by=alice)
    fail = partial(run_services.report_check, run, token=run.token, name="ci", state="failure")
    run_together(approve, fail)
    deliver(run)
    assert run.state == "failed"
    assert set(Item.objects.values_list("state", flat=True)) == {ItemState.WITHDRAWN}


def test_without_the_lock_two_reviewers_do_decide_twice(alice, carol, item, monkeypatch):
    """The race is real: the same presses with the lock taken out make two decisions."""
    from contextlib import contextmanager

    from django.db import transaction

    from runs.clock import Clock
    from runs.models import Run

    @contextmanager
    def unlocked(run_id):
        with transaction.atomic():
            yield Run.objects.annotate(clock=Clock()).get(pk=run_id)

    monkeypatch.setattr(services, "locked_run", unlocked)
    meet_after(monkeypatch, services, "check_decidable")
    calls = [partial(services.approve, reread(item), digest=item.digest, by=by) for by in (alice, carol)]
    run_together(*calls)
    assert Decision.objects.count() == 2
