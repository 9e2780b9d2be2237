"""Roles come with their rights once; what an admin changed in them stays."""

import pytest
from django.contrib.auth.models import Group, Permission

from sagaboard import roles
from sagaboard.accounts.models import ShippedRight

pytestmark = pytest.mark.django_db


def rights_of(name):
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


def test_a_right_that_a_role_gains_later_reaches_installations_that_have_the_role(monkeypatch):
    monkeypatch.setitem(roles.ROLES, "auditor", [*roles.ROLES["auditor"], "accounts.view_user"])
    roles.make_after_migrate()
    assert rights_of("auditor") == {"view_run", "view_logentry", "view_user"}


def test_what_an_admin_took_or_gave_stays_through_every_migration(monkeypatch):
    on_call = Group.objects.get(name="on-call")
    on_call.permissions.remove(Permission.objects.get(codename="settle_step"))
    on_call.permissions.add(Permission.objects.get(codename="drill_capability"))
    monkeypatch.setitem(roles.ROLES, "on-call", [*roles.ROLES["on-call"], "runs.view_run"])
    for _ in range(2):
        roles.make_after_migrate()
        assert rights_of("on-call") == {"take_run", "compensate_run", "drill_capability", "view_run"}


def test_a_role_that_is_missing_is_made_with_all_it_comes_with():
    Group.objects.get(name="owner").delete()
    assert not ShippedRight.objects.filter(role__name="owner").exists()
    roles.make_after_migrate()
    assert rights_of("owner") == {"take_run", "send_correction"}
