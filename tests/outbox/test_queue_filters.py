"""The queue narrowed, searched and counted: what is counted is what the rule for one item says of each."""

import datetime as dt
import random

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from guardian.shortcuts import assign_perm

from outbox import services
from outbox.models import Item
from outbox.policies import Approver
from runs.models import CapabilityRecord
from sagaboard.accounts.models import User
from sagaboard.web import counts_for
from tests.factories import make_team, make_token, make_user
from tests.outbox.scenes import CLIENTS, TEAM, item_of, make_released, set_policy
from tests.outbox.test_queue_page import group_of, page

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_count_is_the_rule_for_one_item_over_all_of_them(alice, bob, token, team):
    """People of every sort against items of every sort: one query finds what the rule, asked item by item, lets through."""
    carol, dora = make_user("carol", team=team), make_user("dora", roles=("reviewer",), team=team)
    granted, boss = make_user("granted"), make_user("boss", is_superuser=True)
    gone = make_user("gone", roles=("reviewer",), team=team, is_active=False)
    grouped = make_user("grouped")
    group = Group.objects.create(name="finance")
    grouped.groups.add(group)
    assign_perm("runs.decide_capability", granted, CapabilityRecord.objects.get(name="tell_client"))
    others = make_released(token=make_token(team=make_team("others")))
    assign_perm("accounts.decide_for_team", bob, others.team)
    named = set_policy("tell_client", "clients", quorum=2, editable=["*"])
    plain = make_released(token=token)
    named.people.set([carol])
    named.groups.set([group])
    loose = set_policy("tell_team", "people", four_eyes=False)
    team_run = make_released(token=token, plan=TEAM)
    dice = random.Random(7)
    for run in (plain, others, team_run):
        run.owner, run.opened_by = dice.choice([alice, dora, boss]), dice.choice([None, carol])
        run.save()
    services.approve(item_of(plain, "tell"), digest=item_of(plain, "tell").digest, by=boss if plain.owner != boss else carol)
    edited = item_of(plain, "also")
    services.edit(edited, digest=edited.digest, by=carol, fields={"value": "new words"})
    Item.objects.filter(pk=item_of(others, "also").pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    found = 0
    for person in (alice, bob, carol, dora, granted, boss, gone, grouped):
        person = User.objects.get(pk=person.pk)
        one_by_one = {item.pk for item in Item.objects.with_everything() if not item.has_lapsed and Approver(person).waits(item)}
        assert set(Item.objects.waiting_for(person).values_list("pk", flat=True)) == one_by_one, person
        found += len(one_by_one)
    assert found > 8
    assert loose


def test_more_than_a_page_is_counted_true_and_said(client, alice, token, monkeypatch):
    from outbox import inbox

    monkeypatch.setattr(inbox, "AT_MOST", 1)
    make_released(token=token)
    html = page(client, alice)
    assert "the first 1 of 2" in html
    assert counts_for(alice, {})["outbox"].number == 2
    assert len(group_of(html, "For you")) == 1


ASKED = [
    ({"q": "NEWS"}, ["tell"]),
    ({"q": "tell_client"}, ["tell", "also"]),
    ({"q": "nothing of the sort"}, []),
    ({"q": "\x00%"}, []),
    ({"audience": "clients"}, ["tell", "also"]),
    ({"audience": "people"}, []),
    ({"audience": "martians"}, ["tell", "also"]),
    ({"soon": "1"}, ["also"]),
    ({"soon": "1", "q": "news"}, []),
]


def test_the_queue_is_narrowed_by_what_is_asked_for(client, alice, token):
    run = make_released(token=token, plan=CLIENTS)
    Item.objects.filter(pk=item_of(run, "also").pk).update(expires_at=timezone.now() + dt.timedelta(minutes=3))
    for asked, found in ASKED:
        html = page(client, alice, "/outbox/", **asked)
        assert group_of(html, "For you") == [str(item_of(run, ref).pk) for ref in found], asked
        assert ("Nothing of this waits for you." in html) == (not found), asked


def test_a_run_and_a_digest_are_found_by_their_number_and_beginning(client, alice, token):
    first, run = make_released(token=token), make_released(token=token)
    item = item_of(run, "tell")
    assert {str(item_of(run, ref).pk) for ref in ("tell", "also")} <= set(group_of(page(client, alice, q=str(run.pk)), "For you"))
    # The same bytes to the same place have the same digest.
    same = [str(item_of(one, "tell").pk) for one in (first, run)]
    assert group_of(page(client, alice, q=item.digest[:10].upper()), "For you") == same
    assert group_of(page(client, alice, q=f"{item.digest[:4]} {item.digest[4:8]}"), "For you") == same


def test_a_narrowed_queue_stays_so_while_it_is_live(client, alice, token):
    import re

    make_released(token=token)
    html = page(client, alice, q="news")
    poll = re.search(r'hx-get="(/outbox/live/[^"]*)"', html)[1].replace("&amp;", "&")
    assert "q=news" in poll
    assert client.get(poll).status_code == 204
    assert "Tell the client about more" not in client.get(poll.replace("at=", "at=x")).content.decode()


def test_a_group_with_a_box_is_only_what_is_for_you_and_no_gate(client, alice, bob, token):
    make_released(token=token)
    assert page(client, alice).count('name="item"') == 2
    assert page(client, bob).count('name="item"') == 0
