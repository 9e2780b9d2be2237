"""Who owns which audience, and how messages are worded: rows with pages."""

import re

import pytest
from django.contrib.auth.models import Permission
from django.db import IntegrityError

from corrections import services, wording
from corrections.models import Audience, Correction, Template
from corrections.states import Kind
from corrections.wording_pages import wordings
from runs import plan
from runs.sections import sections
from tests.corrections.scenes import SHOWN, draft_of, make_failed, make_undone, own_audience
from tests.factories import make_user
from tests.helpers import forbidden, reread

pytestmark = pytest.mark.django_db(transaction=True)
GOOD = "[Sorry - run {run}]\n{seen}, at {at}. {status}\nDo: {what_to_do}\nBack: {back_when}\nAsk {questions_to}."


@pytest.fixture
def admin(client):
    found = make_user("root", roles=("admin",), first_name="Root")
    client.force_login(found)
    return found


def given(**fields):
    return {"name": "qa-cohort", "target": "chat", "user": "U7", "email": "", "send_after": "15", **fields}


def test_an_admin_names_the_owner_of_an_audience(client, admin):
    meera = make_user("meera", first_name="Meera")
    assert client.post("/audiences/new/", given(owner=meera.pk)).status_code == 302
    found = Audience.objects.get()
    assert (found.name, found.owner, found.address, found.send_after) == ("qa-cohort", meera, {"target": "chat", "user": "U7"}, 15)
    html = client.get("/audiences/").content.decode()
    assert "by themselves after 15 min, never to clients" in html
    assert forbidden(html) == []


def test_the_settings_of_corrections_are_one_link_away(client, admin):
    html = client.get("/corrections/").content.decode()
    assert '<a href="/audiences/">Audiences</a> <a href="/templates/">Wording</a>' in html


def test_an_audience_nobody_owns_is_loud_in_the_plan_the_preview_and_the_registry(client, token):
    run = make_failed(token=token)
    client.force_login(run.owner)
    loud = {
        f"/runs/{run.number}/compensate/": "Nobody owns “team”.",
        "/capabilities/": "One audience that agents reach has no owner:",
        "/capabilities/show_thing/": "nobody owns “team”",
    }
    for path, says in loud.items():
        html = client.get(path).content.decode()
        assert says in re.sub(r"<[^>]+>", "", html), path
        assert 'href="/audiences/new/?name=team"' in html, path
    (warning,) = plan.warnings(plan.read(SHOWN), sections.owned_audiences(), token.team_id)
    assert warning == "show: nobody owns the audience “team”; a correction would reach no one."
    # Whom the runs of others reach is no business of a stranger's.
    client.force_login(make_user("stranger"))
    assert "no owner" not in client.get("/capabilities/").content.decode()
    client.force_login(run.owner)
    own_audience()
    for path in loud:
        assert "obody owns" not in client.get(path).content.decode(), path
    assert "no owner" not in client.get("/capabilities/").content.decode()


def test_what_is_wrong_is_said_and_what_was_typed_stays(client, admin):
    own_audience("qa-cohort")
    response = client.post("/audiences/new/", given(owner="", user="", target=""))
    html = response.content.decode()
    assert response.status_code == 422
    for needed in ["is owned already", "Say who owns it", "Say how a note reaches", "by which configured target", 'value="15"']:
        assert needed in html, needed
    assert Audience.objects.count() == 1


def test_its_owner_says_how_and_when_but_not_whose_it_is(client):
    audience = own_audience()
    other = make_user("other")
    client.force_login(audience.owner)
    client.post(f"/audiences/{audience.pk}/", given(name="mine", owner=other.pk, user="", email="m@x.example", target="mail"))
    found = reread(audience)
    assert (found.name, found.owner, found.address) == ("team", audience.owner, {"target": "mail", "email": "m@x.example"})
    client.force_login(other)
    assert client.post(f"/audiences/{audience.pk}/", given()).status_code == 403
    assert client.post("/audiences/new/", given(owner=other.pk)).status_code == 403
    shown = client.get("/audiences/new/").content.decode()
    assert 'name="target"' not in shown
    assert "An admin changes this." in shown


def test_who_may_only_add_one_says_whose_it_is(client):

    person = make_user("adder")
    person.user_permissions.add(Permission.objects.get(codename="add_audience"))
    client.force_login(person)
    assert client.post("/audiences/new/", given(owner=person.pk)).status_code == 302
    assert Audience.objects.get().owner == person


def test_an_audience_that_saw_something_and_nobody_owns_is_loud(client, token):
    draft = draft_of(make_undone(token=token))
    client.force_login(draft.run.owner)
    html = client.get("/audiences/").content.decode()
    assert "Nobody owns these" in html
    own_audience()
    assert "Nobody owns these" not in client.get("/audiences/").content.decode()


def test_a_wording_is_a_row_and_a_message_keeps_the_one_it_was_drafted_with(client, admin, token):
    own_audience()
    before = draft_of(make_undone(token=token))
    assert client.post("/templates/correction/note/", {"body": GOOD.replace("\n", "\r\n")}).status_code == 302
    after = draft_of(make_undone(token=token))
    assert wording.render_text(reread(before)).startswith("[Automated correction")
    assert wording.render_text(Correction.objects.with_everything().get(pk=after.pk)).splitlines()[2] == "Do: Take panel off your list."
    assert Template.objects.newest(Kind.CORRECTION, "ticket") is None
    assert Template.objects.get().by == admin


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (GOOD.replace("{what_to_do}", "nothing"), "{what_to_do} must be in it"),
        (GOOD + "{nonsense}", "There is no field {nonsense}"),
        ("\n" + GOOD.replace("[", " ").splitlines()[1], "must be in it"),
        ("", "A message needs words."),
    ],
)
def test_a_wording_that_leaves_people_asking_is_refused_with_what_was_typed(client, admin, body, says):
    response = client.post("/templates/correction/any/", {"body": body})
    assert response.status_code == 422
    assert says in response.content.decode()
    assert not Template.objects.exists()


def test_the_database_refuses_a_wording_without_what_to_do(admin):
    with pytest.raises(IntegrityError, match="template_says_what_to_do"):
        Template.objects.create(kind=Kind.CORRECTION, body="{questions_to}", by=admin)


def test_a_wording_is_previewed_with_an_example_and_nothing_is_saved(client, admin):
    html = client.get("/templates/correction/thread/").content.decode()
    assert "What you need to do: " in html
    assert "Discard test cases written against billing panel v1." in html
    assert forbidden(html) == []
    shown = client.post("/templates/back/any/preview/", {"body": "<b>{seen}</b> {oops}"}).content.decode()
    assert "&lt;b&gt;" in shown
    assert "There is no field {oops}" in shown
    assert len(wordings()) == 14
    assert client.get("/templates/").status_code == 200
    assert client.get("/templates/correction/moon/").status_code == 404


def test_only_who_may_words_messages(client, bob):
    client.force_login(bob)
    assert "An admin changes how messages are worded" in client.get("/templates/correction/any/").content.decode()
    assert client.post("/templates/correction/any/", {"body": GOOD}).status_code == 403
    assert not Template.objects.exists()


def test_the_editor_saves_by_itself_and_shows_what_changed_and_who_else_sees_it(client, token):
    own_audience()
    draft = draft_of(make_undone(token=token))
    owner = draft.run.owner
    client.force_login(owner)
    typed = {
        "revision": 1,
        "page": "abc",
        "seen": "The panel",
        "reverted_to": draft.reverted_to,
        "do": "specific",
        "what_to_do": "Close it.",
    }
    typed |= {"back": draft.back_when, "back_at": "", "questions_to": owner.pk}
    answer = client.post(f"/corrections/{draft.pk}/save/", typed)
    assert (answer.status_code, reread(draft).seen, reread(draft).revision) == (200, "The panel", 2)
    assert 'name="revision" value="2"' in answer.content.decode()
    # The same page, whose answer is still under way, presses Send: its own save is no stranger's change.
    assert client.post(f"/corrections/{draft.pk}/", typed | {"then": "send"}).url.endswith("?confirm=send&tried=0")
    stale = client.post(f"/corrections/{draft.pk}/save/", typed | {"page": "other", "seen": "Mine"})
    assert (stale.status_code, reread(draft).seen) == (409, "The panel")
    assert "not saved" in stale.content.decode()
    html = client.get(f"/corrections/{draft.pk}/").content.decode()
    for needed in ["Changed against the draft", "<del>", "panel on the board", "Who else sees it", "nobody else"]:
        assert needed in html, needed
    assert client.get(f"/corrections/{draft.pk}/save/").status_code == 405


def test_the_second_to_open_it_sees_who_is_editing(client, token):
    meera = own_audience().owner
    draft = draft_of(make_undone(token=token))
    services.edit(draft, by=draft.run.owner, revision=1, seen="The panel")
    client.force_login(meera)
    html = client.get(f"/corrections/{draft.pk}/").content.decode()
    assert f"{draft.run.owner} is editing this" in html
    assert "/save/" not in html
