"""Whether a tool may be called at all: said by a person in two presses, with a reason, and who said what when stays on its page."""

import re
from functools import partial

import pytest
from django.contrib.auth.models import Permission

from outbox.models import Policy
from runs.exceptions import Invalid
from runs.models import CapabilityRecord
from runs.services import governing
from sagaboard.accounts import changes
from tests.factories import ask, do, make_run, make_team, make_token, make_user
from tests.helpers import forbidden, run_meeting

pytestmark = pytest.mark.django_db(transaction=True)
PLAN = [{"ref": "one", "capability": "put_thing", "args": {"name": "other"}}]
DISABLE, ENABLE, PAGE = "/capabilities/put_thing/disable/", "/capabilities/put_thing/enable/", "/capabilities/put_thing/"


@pytest.fixture
def ada(team):
    return make_user("ada", first_name="Ada", last_name="Adler", roles=("admin",), team=team)


@pytest.fixture
def record():
    return CapabilityRecord.objects.get(name="put_thing")


def words(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.content.decode()))


def test_two_presses_and_a_reason_disable_it_and_agents_are_told_why(client, ada, record, token):
    run = make_run(token=token)
    client.force_login(ada)
    page = client.get(PAGE)
    assert DISABLE in page.content.decode() and ENABLE not in page.content.decode()
    asked = client.get(DISABLE)
    assert "Disable put_thing?" in words(asked)
    assert f"Run {run.pk}" in words(asked)
    record.refresh_from_db()
    assert record.disabled_at is None
    assert client.post(DISABLE, {"reason": "It broke staging."}).url == PAGE
    record.refresh_from_db()
    assert (record.disabled_by, record.disabled_why) == ("Ada Adler", "It broke staging.")
    with pytest.raises(Invalid, match="put_thing is disabled: It broke staging"):
        ask(run, "put_thing", ref="one", args={"name": "one"})
    shown = client.get(PAGE)
    assert "by Ada Adler: It broke staging." in words(shown)
    assert ENABLE in shown.content.decode() and DISABLE not in shown.content.decode()
    assert [forbidden(page.content.decode()) for page in (asked, shown)] == [[], []]


def test_it_is_enabled_with_a_reason_too_and_its_history_says_who_when_and_why(client, ada, record, token):
    client.force_login(ada)
    client.post(DISABLE, {"reason": "It broke \u202estaging."})
    assert "It broke ⟨U+202E⟩staging." in words(client.get(ENABLE))
    assert client.post(ENABLE, {"reason": "Mended in 7f3a."}).url == PAGE
    record.refresh_from_db()
    assert (record.disabled_at, record.disabled_by, record.disabled_why) == (None, "", "")
    shown = words(client.get(PAGE))
    enabled, disabled = (shown.index(text) for text in ("enabled: Mended in 7f3a.", "disabled: It broke ⟨U+202E⟩staging."))
    assert shown.index("History of its governance") < enabled < disabled
    assert [str(one.user) for one in changes.history(record)] == ["Ada Adler"] * 2
    ask(make_run(token=token), "put_thing", ref="one", args={"name": "one"})


def test_without_a_reason_nothing_is_done(client, ada, record):
    client.force_login(ada)
    answer = client.post(DISABLE, {"reason": "  "})
    assert (answer.status_code, "A reason is required." in words(answer)) == (422, True)
    record.refresh_from_db()
    assert record.disabled_at is None


def test_without_the_right_there_is_no_button_and_no_way(client, bob, record):
    client.force_login(bob)
    assert DISABLE not in client.get(PAGE).content.decode()
    for answer in (client.get(DISABLE), client.post(DISABLE, {"reason": "I say so."})):
        assert answer.status_code == 403
        assert 'name="reason"' not in answer.content.decode()
    record.refresh_from_db()
    assert record.disabled_at is None
    assert not changes.history(record).exists()


def test_whoever_comes_second_reads_who_was_first_and_keeps_their_words(client, ada, record, team):
    governing.disable(record, by=make_user("eve", first_name="Eve", last_name="Ebner", is_superuser=True), reason="Incident 7.")
    client.force_login(ada)
    answer = client.post(DISABLE, {"reason": "It broke staging."})
    assert answer.status_code == 422
    assert "put_thing is disabled already, by Eve Ebner: Incident 7." in words(answer)
    assert ">It broke staging.</textarea>" in answer.content.decode()
    client.post(ENABLE, {"reason": "Over."})
    assert client.post(ENABLE, {"reason": "Over."}).status_code == 422


def test_of_two_who_press_at_once_one_is_told(ada, record):
    presses = [partial(governing.disable, record, by=ada, reason=reason) for reason in ("first", "second")]
    ends = run_meeting(*presses)
    assert sum(isinstance(end, Invalid) for end in ends) == 1
    assert changes.history(record).count() == 1


def test_the_runs_that_it_stops_are_those_that_one_sees_and_that_still_want_it(client, team, token, record):
    wants, did = make_run(token=token), make_run(token=token, plan=PLAN)
    make_run(token=make_token(team=make_team()))
    do(did, "one")
    governor = make_user("gil", team=team)
    governor.user_permissions.add(Permission.objects.get(codename="change_capabilityrecord"))
    client.force_login(governor)
    assert re.findall(r'href="/runs/(\d+)/">Run', client.get(DISABLE).content.decode()) == [str(wants.pk)]


def test_what_the_admin_site_changes_is_in_the_same_history(client, admin_user, record):
    client.force_login(admin_user)
    address = f"/admin/runs/capabilityrecord/{record.pk}/change/"
    client.post(address, {"owner": admin_user.pk, "stricter_kind": "irreversible", "disabled": "on", "disabled_why": "Incident 7."})
    client.post(address, {"owner": "", "stricter_kind": "", "disabled_why": ""})
    said = [one.change_message for one in changes.history(record)]
    assert said == [
        "enabled; treated as its code says; owned by nobody",
        f"disabled: Incident 7.; treated as irreversible, stricter than its code; owned by {admin_user}",
    ]
    assert "disabled: Incident 7." in words(client.get(PAGE))


def test_the_page_says_what_would_be_said_to_people_and_how_many_yeses_it_takes(client, alice):
    Policy.objects.exclude(capability="").delete()
    Policy.objects.create(capability="tell_client", audience="clients", quorum=2)
    client.force_login(alice)
    assert "What they may have seen" in words(client.get("/capabilities/show_thing/"))
    assert "No words are written for it." in words(client.get("/capabilities/blind_thing/"))
    assert "Goes out2 approvals" in words(client.get("/capabilities/tell_client/"))
    assert "2 approvals" in words(client.get("/capabilities/"))
