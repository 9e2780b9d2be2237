"""Other words before a yes: a new version with a new digest, decided anew, and exactly that one is sent."""

import pytest

from outbox import services
from outbox.exceptions import NotDecidable, WrongEdit
from outbox.models import Decision, Version
from outbox.states import ItemState
from tests.factories import ask, make_run, make_token, make_user
from tests.helpers import reread
from tests.outbox.scenes import CLIENTS, GATE, deliver, go_green, item_of, make_released, make_waiting, set_policy
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(token):
    set_policy(editable=["value"])
    return make_released(token=token)


@pytest.fixture
def item(run):
    return item_of(run, "tell")


@pytest.fixture
def carol(team):
    return make_user("carol", roles=("reviewer",), team=team)


def press(client, item, digest=None, **fields):
    fields = {f"arg-{name}": value for name, value in fields.items()}
    return client.post(f"/outbox/{item.pk}/edit/", {"digest": item.digest if digest is None else digest, **fields})


def edit(item, by, digest=None, **fields):
    return services.edit(item, digest=digest or item.digest, by=by, fields=fields)


def test_an_edit_is_a_new_version_that_waits_and_exactly_it_is_sent(client, alice, carol, run, item):
    client.force_login(alice)
    page = client.get(press(client, item, value="nearly ready").url).content.decode()
    assert "What changed" in page
    assert "version 2" in page
    item = reread(item)
    assert item.state == ItemState.AWAITING
    assert [bytes(one.body) for one in item.versions.order_by("number")] == [b'{"say":"ready"}', b'{"say":"nearly ready"}']
    services.approve(item, digest=item.digest, by=carol)
    other = item_of(run, "also")
    services.approve(other, digest=other.digest, by=carol)
    assert deliver(run) == ["news", "more"]
    assert run.steps.get(ref="tell").effect["sent"] == '{"say":"nearly ready"}'


def test_the_log_says_who_changed_what_from_what_to_what(alice, item):
    made = edit(item, alice, value="nearly")
    entry = item.step.run.entries.get(event="item.edited")
    assert entry.actor == "person:Alice Ahn"
    assert (entry.data["was"], entry.data["now"]) == ({"value": "ready"}, {"value": "nearly"})
    assert (entry.data["before"], entry.data["digest"]) == (item.digest, made.digest)
    assert (made.edited_by, made.made_by, made.number) == (alice, "person:Alice Ahn", 2)


def test_an_edit_voids_the_yeses_to_the_old_version(alice, carol, token):
    set_policy(editable=["value"], quorum=2)
    item = item_of(make_released(token=token), "tell")
    services.approve(item, digest=item.digest, by=carol)
    edit(item, alice, value="nearly")
    assert Decision.objects.get().voided_at is not None
    assert reread(item).standing() == []


def test_back_to_the_first_words_the_first_yes_counts_no_more(alice, carol, token):
    set_policy(editable=["value"], quorum=2, four_eyes=False)
    item = item_of(make_released(token=token), "tell")
    services.approve(item, digest=item.digest, by=carol)
    edit(item, alice, value="nearly")
    edit(reread(item), alice, value="ready")
    item = reread(item)
    assert item.versions.count() == 3
    services.approve(item, digest=item.digest, by=alice)
    assert reread(item).state == ItemState.AWAITING


@pytest.mark.parametrize(("fields", "says"), [({"name": "other"}, "can't be edited"), ({"colour": "red"}, "no such field")])
def test_only_what_the_policy_names_is_editable(alice, item, fields, says):
    with pytest.raises(NotDecidable, match=says):
        edit(item, alice, **fields)
    assert item.versions.count() == 1


def test_without_a_policy_for_it_nothing_is_editable_and_no_button_is_shown(client, alice, token):
    item = item_of(make_released(token=token), "tell")
    client.force_login(alice)
    page = client.get(f"/outbox/{item.pk}/").content.decode()
    assert "Edit…" not in page
    assert press(client, item, value="nearly").status_code == 422
    assert item.versions.count() == 1


def test_what_the_capability_would_refuse_is_refused_and_what_was_typed_stays(client, alice, item, monkeypatch):
    from tests.tools import TellClient

    with pytest.raises(WrongEdit) as caught:
        edit(item, alice, value=7)
    assert set(caught.value.problems) == {"value"}

    def unknown(self, args):
        from runs.exceptions import NoEffect

        raise NoEffect("no such client is configured")

    monkeypatch.setattr(TellClient, "classify", unknown)
    client.force_login(alice)
    response = press(client, item, value="nearly")
    page = response.content.decode()
    assert response.status_code == 422
    assert "no such client is configured" in page
    assert 'value="nearly"' in page
    assert item.versions.count() == 1


def test_nothing_changed_makes_no_version(client, alice, item):
    client.force_login(alice)
    response = press(client, item, value="ready")
    assert response.status_code == 422
    assert "Nothing was changed" in response.content.decode()
    assert item.versions.count() == 1


def test_an_edit_that_reaches_further_is_another_call(alice, token, monkeypatch):
    from runs.capability import Reading
    from runs.states import Audience
    from tests.tools import TellTeam

    set_policy("tell_team", editable=["*"])
    run = make_released(token=token, plan=[{"ref": "team", "capability": "tell_team", "args": {"name": "summary"}}])
    item = item_of(run, "team")
    monkeypatch.setattr(TellTeam, "classify", lambda self, args: Reading(audience=Audience.CLIENTS if args.value == "out" else None))
    with pytest.raises(WrongEdit, match="another call"):
        edit(item, run.owner if False else alice, value="out")


def test_an_edit_of_what_changed_meanwhile_changes_nothing(client, alice, carol, item):
    edit(item, carol, value="carols words")
    client.force_login(alice)
    response = press(client, item, value="alices words")
    assert response.status_code == 409
    page = response.content.decode()
    assert "It changed while you read" in page
    assert "What changed" in page
    assert item.versions.count() == 2


def test_who_may_not_decide_may_not_edit(client, bob, item):
    client.force_login(bob)
    assert press(client, item, value="nearly").status_code == 409
    client.force_login(make_user("stranger"))
    assert press(client, item, value="nearly").status_code == 404
    assert item.versions.count() == 1


def test_the_agent_that_repeats_its_call_still_meets_the_step(alice, token):
    set_policy(editable=["value"])
    run = make_waiting(token=token)
    services_run = item_of(run, "tell")
    go_green(run)
    edit(reread(services_run), alice, value="nearly")
    again = ask(run, "tell_client", args={"name": "news", "value": "ready"}, ref="tell")
    assert (again.new, again.step.args) == (False, {"name": "news", "value": "nearly"})


def test_an_edited_call_has_a_key_of_its_own_at_the_target(alice, item):
    before = item.step.call_key
    edit(item, alice, value="nearly")
    item.step.refresh_from_db()
    assert item.step.call_key not in ("", before)
    assert item.step.key == reread(item).step.key


def test_a_gate_may_be_edited_too(alice, carol, token):
    set_policy(editable=["value"])
    run = make_waiting(token=token, plan=GATE)
    item = item_of(run, "gate")
    edit(item, alice, value="other")
    item = reread(item)
    services.approve(item, digest=item.digest, by=carol)
    deliver(run)
    assert world.things["gate"]["value"] == "other"


def test_a_version_names_the_token_that_asked(token, alice):
    run = make_run(token=token, plan=CLIENTS)
    narrow = make_token(team=run.team, person=alice)
    type(narrow).objects.filter(pk=narrow.pk).update(run_number=run.pk)
    ask(run, "tell_client", token=narrow, args=run.steps.get(ref="tell").args, ref="tell")
    assert Version.objects.get().made_by == f"token:{narrow.name}"


def test_old_versions_stay_readable_and_only_to_those_who_see_the_item(client, alice, item):
    edit(item, alice, value="nearly")
    client.force_login(alice)
    page = client.get(f"/outbox/{item.pk}/versions/1/").content.decode()
    assert "Replaced by version 2; this one is never sent." in page
    assert "ready" in page
    assert client.get(f"/outbox/{item.pk}/versions/9/").status_code == 404
    client.force_login(make_user("stranger"))
    assert client.get(f"/outbox/{item.pk}/versions/1/").status_code == 404


def test_line_breaks_are_kept_as_they_were_meant(client, alice, item):
    client.force_login(alice)
    press(client, item, value="one\r\ntwo")
    assert item.versions.get(number=2).args["value"] == "one\ntwo"


LONG = "\n".join(f"line {number} of a long letter" for number in range(4000))


def test_a_long_payload_is_decided_on_only_after_it_was_shown_whole(client, alice, carol, token, run):
    item = item_of(run, "tell")
    edit(item, carol, value=LONG)
    item = reread(item)
    client.force_login(alice)
    page = client.get(f"/outbox/{item.pk}/").content.decode()
    assert "Show all of it first" in page
    assert "Approve and send" not in page
    with pytest.raises(NotDecidable, match="not seen all of it"):
        services.approve(item, digest=item.digest, by=alice)
    page = client.get(client.post(f"/outbox/{item.pk}/show-all/", {"digest": item.digest}).url).content.decode()
    assert "line 3999 of a long letter" in page
    assert "Approve and send" in page
    with pytest.raises(NotDecidable, match="not seen all of it"):
        services.approve(item, digest=item.digest, by=make_user("dora", roles=("reviewer",), team=run.team))
    services.approve(item, digest=item.digest, by=alice)


def test_only_the_version_that_was_on_the_page_counts_as_shown(client, alice, carol, run):
    item = item_of(run, "tell")
    edit(item, carol, value=LONG)
    shown = reread(item).digest
    edit(reread(item), carol, value=LONG + "!")
    client.force_login(alice)
    client.post(f"/outbox/{item.pk}/show-all/", {"digest": shown})
    with pytest.raises(NotDecidable, match="not seen all of it"):
        services.approve(reread(item), digest=reread(item).digest, by=alice)
