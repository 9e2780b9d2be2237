"""The admin site: what people govern there, and that no decision, run or log is changed from it."""

import pytest
from django.apps import apps
from django.urls import reverse

from corrections.models import Audience
from outbox.models import Decision, Item, Policy
from runs.models import CapabilityRecord, Run
from tests.factories import make_token, make_user
from tests.helpers import reread
from tests.outbox.scenes import item_of, make_released

pytestmark = pytest.mark.django_db

READ_ONLY = [
    "runs.run",
    "runs.step",
    "runs.check",
    "runs.logentry",
    "outbox.item",
    "outbox.version",
    "outbox.decision",
    "corrections.correction",
]


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


def at(name, *args):
    app, _, model = name.partition(".")
    return lambda page: reverse(f"admin:{app}_{model}_{page}", args=args)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", READ_ONLY)
def test_what_happened_is_only_looked_at(client, root, name):
    make_released(token=make_token())
    row = apps.get_model(name).objects.first()
    assert client.get(at(name)("changelist")).status_code == 200
    assert client.get(at(name)("add")).status_code == 403
    if row is not None:
        assert client.get(at(name, row.pk)("change")).status_code == 200
        assert client.post(at(name, row.pk)("change"), {"state": "approved"}).status_code == 403
        assert client.post(at(name, row.pk)("delete"), {"post": "yes"}).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_an_item_has_no_door_here(client, root):
    item = item_of(make_released(token=make_token()), "tell")
    client.post(at("outbox.item")("changelist"), {"action": "delete_selected", "_selected_action": [item.pk], "post": "yes"})
    assert Item.objects.filter(pk=item.pk).exists()
    assert not Decision.objects.exists()


def test_a_token_is_revoked_and_its_digest_never_shown(client, root):
    token = make_token()
    page = client.get(at("accounts.token", token.pk)("change")).content.decode()
    assert token.digest not in page
    client.post(at("accounts.token", token.pk)("change"), {"name": "renamed", "scope": "on_call"})
    client.post(at("accounts.token")("changelist"), {"action": "revoke", "_selected_action": [token.pk]})
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert (token.name, token.scope) == (token.name, "agent")
    assert token.name != "renamed"
    assert client.get(at("accounts.token")("add")).status_code == 403


def test_an_account_is_disabled_and_never_deleted(client, root):
    someone = make_user()
    assert client.post(at("accounts.user", someone.pk)("delete"), {"post": "yes"}).status_code == 403


def govern(client, record, **fields):
    return client.post(at("runs.capabilityrecord", record.pk)("change"), {"owner": "", "stricter_kind": "", "disabled_why": "", **fields})


def test_a_row_may_be_stricter_than_the_code_and_never_looser(client, root):
    record = CapabilityRecord.objects.get(name="show_thing")
    assert "may only be stricter" in govern(client, record, stricter_kind="reversible").content.decode()
    govern(client, record, stricter_kind="irreversible")
    record.refresh_from_db()
    assert record.stricter_kind == "irreversible"


def test_a_capability_is_disabled_with_a_reason_under_a_name(client, root):
    record = CapabilityRecord.objects.get(name="show_thing")
    assert "Say why it is disabled" in govern(client, record, disabled="on").content.decode()
    govern(client, record, disabled="on", disabled_why="it broke staging")
    record.refresh_from_db()
    assert (record.disabled_by, record.disabled_why) == ("root", "it broke staging")
    govern(client, record)
    record.refresh_from_db()
    assert (record.disabled_at, record.disabled_why) == (None, "")


def test_what_the_code_says_is_not_written_here(client, root):
    record = CapabilityRecord.objects.get(name="show_thing")
    govern(client, record, kind="reversible", version="x", proven_version="x", audience="machines")
    again = CapabilityRecord.objects.get(name="show_thing")
    assert (again.kind, again.version, again.proven_version, again.audience) == (record.kind, record.version, "", record.audience)


def test_who_may_decide_a_capability_is_granted_by_object(client, root):
    record = CapabilityRecord.objects.get(name="tell_client")
    someone = make_user()
    url = reverse("admin:runs_capabilityrecord_permissions_manage_user", args=[record.pk, someone.pk])
    client.post(url, {"permissions": ["decide_capability"]})
    assert someone.has_perm("runs.decide_capability", record)


def test_a_changed_policy_is_a_new_version(client, root):
    policy = Policy.objects.create(capability="tell_client", audience="people")
    fields = {"capability": "tell_client", "audience": "people", "needs_yes": "on", "quorum": 2, "four_eyes": "on", "open_for": 60}
    client.post(at("outbox.policy", policy.pk)("change"), {**fields, "version": 40})
    policy.refresh_from_db()
    assert (policy.version, policy.quorum) == (2, 2)
    named = {**fields, "people": [root.pk, make_user("other").pk]}
    client.post(at("outbox.policy", policy.pk)("change"), named)
    policy.refresh_from_db()
    assert (policy.version, policy.people.count()) == (3, 2)
    client.post(at("outbox.policy", policy.pk)("change"), named)
    policy.refresh_from_db()
    assert policy.version == 3
    assert [one.number for one in policy.versions.all()] == [3, 2]


@pytest.mark.django_db(transaction=True)
def test_a_policy_written_here_reaches_what_waits(client, root, token):
    item = item_of(make_released(token=token), "tell")
    fields = {"capability": "tell_client", "audience": "clients", "needs_yes": "on", "quorum": 2, "four_eyes": "on", "open_for": 60}
    assert client.post(at("outbox.policy")("add"), fields).status_code == 302
    assert (reread(item).policy.audience, reread(item).quorum) == ("clients", 2)


def test_an_audience_gets_an_owner_and_an_address(client, root):
    url = at("corrections.audience")("add")
    assert "An object is wanted" in client.post(url, {"name": "qa", "owner": root.pk, "address": "[1]"}).content.decode()
    client.post(url, {"name": "qa", "owner": root.pk, "address": '{"target": "chat", "user": "U1"}'})
    assert Audience.objects.get().address == {"target": "chat", "user": "U1"}


def test_the_admin_site_is_for_staff(client):
    client.force_login(make_user("someone"))
    assert client.get(at("runs.run")("changelist")).status_code == 302
    assert not Run.objects.exists()
