"""SEC-01 as a matrix: every route, by every method, as every role of the own and of another team, and by every scope of token.

The routes come from the URL list, what is expected from the table in tests/routes.py.
"""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client

from outbox.models import Item, Policy
from sagaboard.accounts.models import Scope
from sagaboard.roles import ROLES
from tests.corrections.scenes import draft_of, make_undone, own_audience
from tests.factories import make_team, make_token, make_user
from tests.faults.test_security import bearer, signed_in, state_of_everything
from tests.outbox.scenes import item_of, make_released
from tests.routes import ROWS, kind_of, path_of, routes

pytestmark = pytest.mark.django_db(transaction=True)

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
OBJECTS = ("run", "item", "correction")
# What is said to somebody who sees the object and lacks the right. An item's card and several items together say it in words.
LACKS_IT = {"item": {409}, "outbox/bulk/": {200}}
# Said to anybody who may see it, whoever they are.
FOR_NOBODY = {"capabilities/<str:name>/drills/<int:number>/": {404}}

BODIES = {
    "runs": {"title": "Another", "plan": []},
    "steps": {"capability": "put_thing", "args": {"name": "one"}},
    "skip": {"ref": "one", "reason": "not needed"},
    "fail": {"reason": "given up"},
    "<name>": {"state": "success"},
}


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


class Scene:
    """A green run with a waiting item, and a correction of another run, both of one team."""

    def __init__(self, team):
        self.team, self.token = team, make_token(team=team)
        self.run = make_released(token=self.token)
        self.item = item_of(self.run, "tell")
        self.correction = draft_of(make_undone(token=self.token))
        self.ids = {
            "run": self.run.pk,
            "item": self.item.pk,
            "correction": self.correction.pk,
            "policy": Policy.objects.first().pk,
            "person": make_user(team=team).pk,
            "audience": own_audience().pk,
            "kind": "correction",
            "place_kind": "any",
        }
        self.typed = {
            "digest": self.item.digest,
            "yes": f"{self.item.pk}:{self.item.digest}",
            "reason": "because",
            "fate": "drop",
            "how": "undone_by_hand",
            "revision": self.correction.revision,
            "seen": "the panel",
            "do": "nothing",
            "back": "unknown",
            "questions_to": self.run.owner_id,
            "seq": "0",
        }


def call(client, method, route, ids, typed):
    """The same address by any method, with what a form of it would hold."""
    path = path_of(route, ids)
    if method in ("GET", "HEAD"):
        return client.generic(method, path, QUERY_STRING="seq=0")
    return getattr(client, method.lower())(path, typed) if method == "POST" else client.generic(method, path)


def allowed(route):
    """Where a page can be looked at, a HEAD is answered like the GET."""
    found = set(ROWS[route].methods.split())
    return found | {"HEAD"} if "GET" in found else found


def pages():
    return [route for route in routes() if kind_of(route) in ("own", "govern", *OBJECTS)]


def may(role, route):
    """Whether the role comes with the right that a change there wants."""
    who = ROWS[route].who
    return who == "anybody" or any(right.partition(".")[2] == who for right in ROLES[role])


def expected(route, method, role):
    """The statuses for a member of the team, in this role."""
    row = ROWS[route]
    if method not in allowed(route):
        return {405}
    if route in FOR_NOBODY:
        return FOR_NOBODY[route]
    lacks = LACKS_IT.get(route) or LACKS_IT.get(row.kind, {403})
    if row.kind == "govern" and not may(role, route):
        return {403}
    if method == "POST" and not may(role, route):
        # 422: what was typed is said to be wrong before anything else; nothing is changed either way.
        return lacks | {422}
    return {200, 204, 302, 409, 422}


@pytest.mark.parametrize("role", ROLES)
def test_sec_01_in_the_own_team_each_role_does_what_it_may_and_nothing_else(role):
    scene = Scene(make_team())
    client = signed_in(make_user(roles=(role,), team=scene.team))
    preview = client.get(path_of("runs/<int:number>/compensate/", scene.ids)).content.decode()
    typed = scene.typed | {"token": found[1] if (found := re.search(r'name="token" value="([^"]+)"', preview)) else ""}
    calls = [(method, route) for route in pages() for method in METHODS]
    before, wrong = state_of_everything(), []
    # What may change nothing comes first.
    changes = [(method, route) for method, route in calls if method == "POST" and may(role, route)]
    for method, route in [one for one in calls if one not in changes]:
        answer = call(client, method, route, scene.ids, typed)
        if answer.status_code not in expected(route, method, role):
            wrong.append((method, route, answer.status_code))
    assert state_of_everything() == before
    for method, route in changes:
        answer = call(client, method, route, scene.ids, typed)
        if answer.status_code not in expected(route, method, role):
            wrong.append((method, route, answer.status_code))
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
def test_sec_01_of_another_team_each_role_meets_nothing(role):
    scene = Scene(make_team())
    # An auditor's and an admin's right to look is for all teams; to act it is for their own.
    sees_all = "runs.view_run" in ROLES[role]
    client = signed_in(make_user(roles=(role,), team=make_team()))
    before, wrong = state_of_everything(), []
    for route in pages():
        if kind_of(route) not in OBJECTS:
            continue
        for method in METHODS:
            answer = call(client, method, route, scene.ids, scene.typed)
            if method not in allowed(route):
                wanted = {405}
            elif not sees_all:
                wanted = {404}
            elif method == "POST" and ROWS[route].who != "anybody":
                wanted = {403, 409, 422}
            else:
                wanted = {200, 204, 302, 409, 422}
            if answer.status_code not in wanted:
                wrong.append((method, route, answer.status_code))
    assert wrong == []
    assert state_of_everything() == before


def test_sec_01_who_is_not_signed_in_is_led_to_the_login():
    scene = Scene(make_team())
    before, wrong = state_of_everything(), []
    for route in pages():
        for method in METHODS:
            answer = call(Client(), method, route, scene.ids, scene.typed)
            to_login = answer.status_code == 302 and answer.url.startswith("/login/")
            # Before or after the question who it is, as the page sees it.
            if not (to_login or (answer.status_code == 405 and method not in allowed(route))):
                wrong.append((method, route, answer.status_code))
    assert wrong == []
    assert state_of_everything() == before


@pytest.mark.parametrize("role", [*ROLES, "staff"])
def test_sec_01_the_admin_site_opens_to_staff_with_the_right_alone(role):
    person = make_user(is_staff=True) if role == "staff" else make_user(roles=(role,), team=make_team())
    client, wrong = signed_in(person), []
    for route in routes():
        if kind_of(route) != "admin":
            continue
        for method in ("GET", "POST") if role == "staff" else METHODS:
            answer = call(client, method, route, {}, {})
            to_login = answer.status_code == 302 and "/admin/login/" in answer.url
            # Staff without a right see the front page of the site, and are led to addresses that then refuse them.
            front = role == "staff" and not re.search(r"admin/(auth|accounts|runs|outbox|corrections)/.", route)
            led_on = role == "staff" and answer.status_code == 302
            if not (to_login or front or led_on or answer.status_code in (403, 404, 405)):
                wrong.append((method, route, answer.status_code))
    assert wrong == []


@pytest.mark.parametrize("scope", Scope.values)
@pytest.mark.parametrize("whose", ["own", "other"])
def test_sec_01_a_token_opens_what_its_scope_names_in_its_team(scope, whose):
    scene = Scene(make_team())
    own = scene.token if scope == "agent" else make_token(scope=scope, team=scene.team)
    client = bearer(own if whose == "own" else make_token(scope=scope, team=make_team()))
    wrong = []
    for route in routes():
        if kind_of(route) != "api":
            continue
        row, about_a_run = ROWS[route], "<number>" in route
        for method in METHODS:
            body = json.dumps(BODIES.get(route.rpartition("/")[2], {}))
            answer = client.generic(method, path_of(route, scene.ids), body if method in ("POST", "PUT") else "", "application/json")
            if method != row.methods:
                wanted = {405}
            elif scope not in row.who.split():
                wanted = {403}
            elif whose == "other" and about_a_run:
                wanted = {404}
            else:
                wanted = {200, 201, 202, 409}
            if answer.status_code not in wanted:
                wrong.append((method, route, answer.status_code))
    assert wrong == []
    assert whose == "own" or Item.objects.get(pk=scene.item.pk).is_awaiting


def test_sec_01_without_a_token_or_with_one_that_is_over_the_api_opens_nothing(token):
    from django.utils import timezone

    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    for client in (Client(), bearer(token), signed_in(make_user(is_superuser=True))):
        for route in routes():
            if kind_of(route) == "api":
                for method in METHODS:
                    answer = client.generic(method, path_of(route, {}), "{}", "application/json")
                    assert answer.status_code == (401 if method == ROWS[route].methods else 405), (method, route)
