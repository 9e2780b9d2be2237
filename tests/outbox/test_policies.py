"""Who must approve what: rows that people edit on a page, each change a version of its own."""

import pytest

from outbox import services
from outbox.exceptions import NotDecidable
from outbox.models import Decision, Policy
from outbox.policies import policy_for
from outbox.states import ItemState
from tests.factories import make_user
from tests.helpers import forbidden, reread
from tests.outbox.scenes import TEAM, deliver, item_of, make_released, set_policy

pytestmark = pytest.mark.django_db(transaction=True)

RULES = {
    "capability": "tell_client",
    "audience": "",
    "needs_yes": "on",
    "quorum": 2,
    "four_eyes": "on",
    "open_for": 3600,
    "editable": "value",
}


@pytest.fixture
def admin(client, team):
    user = make_user("ada", roles=("admin",), team=team)
    client.force_login(user)
    return user


def test_an_admin_writes_a_policy_and_it_counts(client, admin, alice, token):
    assert client.post("/policies/new/", {**RULES, "people": [alice.pk]}).status_code == 422
    assert (
        client.post("/policies/new/", {**RULES, "people": [alice.pk, admin.pk], "domains": "acme.example, halden.example"}).status_code
        == 302
    )
    policy = Policy.objects.get(capability="tell_client")
    assert (policy.quorum, policy.editable, policy.domains) == (2, ["value"], ["acme.example", "halden.example"])
    item = item_of(make_released(token=token), "tell")
    services.approve(item, digest=item.digest, by=alice)
    assert reread(item).state == ItemState.AWAITING
    assert Decision.objects.get().policy_version == f"{policy.pk}@1"
    services.approve(item, digest=item.digest, by=admin)
    assert reread(item).state == ItemState.APPROVED


def test_a_changed_policy_is_a_new_version_and_the_old_one_can_be_read(client, admin):
    client.post("/policies/new/", RULES)
    policy = Policy.objects.get(capability="tell_client")
    client.post(f"/policies/{policy.pk}/", {**RULES, "quorum": 3})
    assert reread(policy).version == 2
    assert [(one.number, one.rules["quorum"], one.made_by) for one in policy.versions.all()] == [(2, 3, "ada"), (1, 2, "ada")]
    page = client.get(f"/policies/{policy.pk}/").content.decode()
    assert "version 1" in page
    assert forbidden(page) == []
    assert "3 yeses" in client.get("/policies/").content.decode()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"quorum": 0}, "At least one"),
        ({"open_for": 5}, "Between a minute and 90 days"),
        ({"editable": "colour"}, "tell_client has no argument colour. It has name, value."),
        ({"capability": "no_such"}, "Select a valid choice"),
        ({"audience": "clients", "needs_yes": ""}, "always needs a person"),
    ],
)
def test_what_makes_no_sense_is_refused_and_what_was_typed_stays(client, admin, wrong, says):
    response = client.post("/policies/new/", {**RULES, **wrong, "domains": "typed.example"})
    page = response.content.decode()
    assert response.status_code == 422
    assert says in page.replace("&#x27;", "'")
    assert "typed.example" in page
    assert not Policy.objects.filter(capability="tell_client").exists()


def test_two_policies_for_the_same_calls_are_refused(client, admin):
    client.post("/policies/new/", RULES)
    assert client.post("/policies/new/", RULES).status_code == 422
    assert Policy.objects.filter(capability="tell_client").count() == 1


def test_only_those_who_may_change_policies_see_the_pages(client, alice):
    client.force_login(alice)
    for path in ("/policies/", "/policies/new/", f"/policies/{Policy.objects.first().pk}/"):
        assert client.get(path).status_code == 403
        assert client.post(path, RULES).status_code in (403, 405)
    assert not Policy.objects.filter(capability="tell_client").exists()


def test_the_most_specific_policy_counts():
    by_name, both = set_policy("tell_client"), set_policy("tell_client", "clients")
    assert policy_for("tell_client", "clients") == both
    assert policy_for("tell_client", "people") == by_name
    assert policy_for("other", "clients") == Policy.objects.get(capability="", audience="clients")
    assert policy_for("other", "machines") == Policy.objects.get(capability="", audience="")


def test_clients_need_a_person_whatever_a_policy_says(token, alice):
    set_policy("tell_client", needs_yes=False)
    set_policy("tell_team", needs_yes=False)
    run = make_released(token=token, plan=TEAM)
    assert (item_of(run, "team").state, item_of(run, "tell").state) == (ItemState.APPROVED, ItemState.AWAITING)
    assert deliver(run) == []


def test_a_stricter_policy_counts_at_once_also_at_sending(token, alice):
    policy = set_policy()
    run = make_released(token=token)
    for ref in ("tell", "also"):
        services.approve(item_of(run, ref), digest=item_of(run, ref).digest, by=alice)
    policy.quorum = 2
    policy.save()
    assert deliver(run) == []
    assert item_of(run, "tell").state == ItemState.AWAITING


def test_those_a_policy_names_decide_and_nobody_else(token, alice, team):
    carol = make_user("carol", team=team)
    set_policy(people=[carol])
    item = item_of(make_released(token=token), "tell")
    with pytest.raises(NotDecidable, match="may not decide"):
        services.approve(item, digest=item.digest, by=alice)
    services.approve(item, digest=item.digest, by=carol)
    assert reread(item).state == ItemState.APPROVED


def waiting_under(token, **rules):
    """An item that was queued under these rules, and their row."""
    policy = set_policy(**rules)
    return item_of(make_released(token=token), "tell"), policy


def change(client, policy, **rules):
    told = {**RULES, "quorum": policy.quorum, **rules}
    assert client.post(f"/policies/{policy.pk}/", {name: value for name, value in told.items() if value != ""}).status_code == 302


def test_a_looser_policy_takes_nothing_from_what_was_queued_under_the_stricter_one(client, admin, token, alice, team):
    item, policy = waiting_under(token, quorum=2)
    change(client, policy, quorum=1, four_eyes="")
    services.approve(item, digest=item.digest, by=alice)
    assert reread(item).state == ItemState.AWAITING
    owner = item.step.run.owner
    owner.groups.set(alice.groups.all())
    with pytest.raises(NotDecidable, match="someone else must approve it"):
        services.approve(item, digest=item.digest, by=owner)
    services.approve(item, digest=item.digest, by=make_user("carol", roles=("reviewer",), team=team))
    assert reread(item).state == ItemState.APPROVED
    later = item_of(make_released(token=token), "tell")
    services.approve(later, digest=later.digest, by=alice)
    assert reread(later).state == ItemState.APPROVED


def test_a_stricter_version_counts_for_what_waits_and_the_decision_names_it(client, admin, token, alice):
    item, policy = waiting_under(token)
    change(client, policy, quorum=2)
    services.approve(item, digest=item.digest, by=alice)
    assert reread(item).state == ItemState.AWAITING
    assert Decision.objects.get().policy_version == f"{policy.pk}@2"


def test_a_new_policy_that_is_more_specific_reaches_what_waits_and_keeps_what_it_was_queued_under(client, admin, token, alice, bob):
    item, policy = waiting_under(token, quorum=2)
    stricter = {**RULES, "audience": "clients", "quorum": 1, "people": [bob.pk]}
    assert client.post("/policies/new/", stricter).status_code == 302
    item = reread(item)
    assert (item.policy.audience, item.quorum) == ("clients", 2)
    with pytest.raises(NotDecidable, match="may not decide"):
        services.approve(item, digest=item.digest, by=alice)
    services.approve(item, digest=item.digest, by=bob)
    assert reread(item).state == ItemState.AWAITING
