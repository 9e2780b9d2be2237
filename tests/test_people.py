"""Admins say who may do what; it counts from the next request, and who changed it stays readable."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group

from outbox import services
from outbox.exceptions import NotDecidable
from outbox.models import Item
from outbox.policies import approvers
from runs.models import CapabilityRecord, Run
from sagaboard.roles import ROLES
from tests.factories import make_team, make_token, make_user
from tests.helpers import forbidden
from tests.outbox.scenes import item_of, make_released

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(client, team):
    user = make_user("ada", roles=("admin",), team=team)
    client.force_login(user)
    return user


def save(client, person, *, active=True, **wanted):
    roles = [group.pk for group in Group.objects.filter(name__in=wanted.pop("roles", []))]
    return client.post(f"/people/{person.pk}/", {**wanted, "roles": roles, **({"is_active": "on"} if active else {})})


def test_every_role_is_a_group_with_its_rights():
    for name, rights in ROLES.items():
        held = {f"{one.content_type.app_label}.{one.codename}" for one in Group.objects.get(name=name).permissions.all()}
        assert held == set(rights), name


def test_a_role_given_counts_and_is_noted(client, admin, bob, team, token):
    item = item_of(make_released(token=token), "tell")
    assert not Item.objects.waiting_for(bob).exists()
    assert save(client, bob, teams=[team.pk], roles=["reviewer"]).status_code == 302
    bob = type(bob).objects.get(pk=bob.pk)
    assert item in Item.objects.waiting_for(bob)
    entry = LogEntry.objects.get()
    assert (entry.user, entry.change_message) == (admin, "roles: +reviewer")
    page = client.get(f"/people/{bob.pk}/").content.decode()
    assert "+reviewer" in page
    assert forbidden(page) == []


def test_one_capability_and_one_team_beyond_the_own(client, admin, bob):
    others = make_team("others")
    run = make_released(token=make_token(team=others))
    record = CapabilityRecord.objects.get(name="tell_client")
    save(client, bob, teams=[], decides=["tell_client"], watches=[others.pk])
    bob = type(bob).objects.get(pk=bob.pk)
    assert bob.has_perm("runs.decide_capability", record)
    assert list(Run.objects.visible_to(bob)) == [run]
    assert item_of(run, "tell") in Item.objects.waiting_for(bob)
    save(client, bob, teams=[])
    bob = type(bob).objects.get(pk=bob.pk)
    assert not Run.objects.visible_to(bob).exists()
    assert not Item.objects.waiting_for(bob).exists()


def test_a_reviewer_for_one_other_team_decides_there_and_nowhere_else(client, admin, bob):
    others, third = make_team("others"), make_team("third")
    theirs, elsewhere = make_released(token=make_token(team=others)), make_released(token=make_token(team=third))
    save(client, bob, teams=[], reviews=[others.pk])
    bob = type(bob).objects.get(pk=bob.pk)
    seen = {item_of(theirs, ref) for ref in ("tell", "also")}
    assert set(Item.objects.visible_to(bob)) == set(Item.objects.waiting_for(bob)) == seen
    assert not Run.objects.visible_to(bob).exists()
    item = item_of(theirs, "tell")
    assert bob in approvers(item)
    services.approve(item, digest=item.digest, by=bob)
    other = item_of(elsewhere, "tell")
    with pytest.raises(NotDecidable):
        services.approve(other, digest=other.digest, by=bob)


def test_a_disabled_account_is_out_at_once(client, admin, alice):
    from django.test import Client

    theirs = Client()
    theirs.force_login(alice)
    assert theirs.get("/outbox/").status_code == 200
    save(client, alice, active=False)
    assert theirs.get("/outbox/").status_code == 302


def test_nobody_takes_their_own_right_to_grant_away(client, admin, team):
    answer = save(client, admin, teams=[team.pk], roles=["reviewer"])
    assert answer.status_code == 422
    assert "another admin does it" in answer.content.decode()
    assert save(client, admin, teams=[team.pk], roles=["admin"], active=False).status_code == 422
    assert list(admin.groups.values_list("name", flat=True)) == ["admin"]


@pytest.mark.parametrize("role", ["reviewer", "on-call", "owner", "auditor", "read-only"])
def test_nobody_else_grants_anything(client, bob, team, role):
    client.force_login(make_user("eve", roles=(role,), team=team))
    assert client.get("/people/").status_code == 403
    assert save(client, bob, roles=["admin"]).status_code == 403
    assert not bob.groups.exists()
