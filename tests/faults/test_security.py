"""Faults of access: doors that stood open because somebody had forgotten one."""

from __future__ import annotations

import datetime as dt
import re

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.utils import DatabaseError
from django.test import Client
from django.utils import timezone

from outbox import services
from outbox.models import Decision, Item, Policy
from runs import erasing, logwords
from runs.locking import locked_run
from runs.log import verify
from runs.models import LogEntry, Run, StoredPayload
from sagaboard.accounts.models import Scope
from tests.checker import forged
from tests.corrections.scenes import draft_of, make_undone
from tests.factories import make_team, make_token, make_user
from tests.outbox.scenes import item_of, make_released
from tests.routes import ROWS, kind_of, path_of, routes

pytestmark = pytest.mark.django_db(transaction=True)
ROLES = ("reviewer", "on-call", "owner", "read-only")
NOWHERE = {"run": 987_654, "item": 987_654, "correction": 987_654, "policy": 987_654, "step": 1}


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


@pytest.fixture
def scene(team, token):
    """A run of the team with a waiting item and, in another run, a correction."""
    run = make_released(token=token)
    correction = draft_of(make_undone(token=token))
    return {"run": run.pk, "item": item_of(run, "tell").pk, "correction": correction.pk, "step": 1, "policy": Policy.objects.first().pk}


def signed_in(person):
    client = Client()
    client.force_login(person)
    return client


def bearer(token):
    return Client(headers={"Authorization": f"Bearer {token.text}"})


def pages(*kinds):
    return [route for route in routes() if kind_of(route) in kinds]


# SEC-01


def test_sec_01_every_route_has_a_row_and_every_row_a_route():
    known = [route for route in routes() if not route.startswith("admin/")]
    assert [route for route in known if route not in ROWS] == [], "say in tests/routes.py what stands behind it"
    assert [route for route in ROWS if route not in known] == []


def test_sec_01_what_belongs_to_another_team_is_not_there(scene):
    others = make_team("others")
    for role in ROLES:
        stranger = signed_in(make_user(f"strange-{role}", roles=(role,), team=others))
        for route in pages("run", "item", "correction"):
            for method in ("get", "post"):
                theirs, missing = (getattr(stranger, method)(path_of(route, ids), {"seq": "0"}) for ids in (scene, NOWHERE))
                assert theirs.status_code == missing.status_code, (role, route)
                assert theirs.status_code in (404, 405), (role, route, method)
                if theirs.status_code == 404:
                    assert _without_numbers(theirs) == _without_numbers(missing), (role, route)
    assert not LogEntry.objects.filter(event="item.refused").exists()


def _without_numbers(answer):
    return re.sub(r"[0-9]+|value=\"[^\"]*\"|X-CSRFToken[^}]*", "", answer.content.decode())


def state_of_everything():
    with connection.cursor() as cursor:
        found = {}
        for table in (
            "runs_run",
            "runs_step",
            "outbox_item",
            "outbox_decision",
            "outbox_version",
            "outbox_policy",
            "corrections_correction",
        ):
            cursor.execute(f"SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM {table} t")
            found[table] = cursor.fetchone()[0]
    return found


def test_sec_01_a_token_of_another_team_opens_nothing(scene):
    others = make_team("others")
    for scope in Scope.values:
        foreign = bearer(make_token(scope=scope, team=others))
        for route in pages("api"):
            for method in ("get", "post", "put") if "<number>" in route else ():
                theirs, missing = (_call(foreign, method, path_of(route, ids)) for ids in (scene, NOWHERE))
                assert theirs.status_code == missing.status_code, (scope, route, method)
                # 401 and 403: not a door of this scope. 422: no request at all, which is said before anything is looked up.
                assert theirs.status_code in (401, 403, 404, 405, 422), (scope, route, method)
                if theirs.status_code == 404:
                    assert _without_numbers(theirs) == _without_numbers(missing)


def _call(client, method, path):
    if method == "get":
        return client.get(path)
    return getattr(client, method)(path, {"state": "success", "reason": "x"}, content_type="application/json")


def test_sec_01_a_revoked_token_opens_nothing(scene, token):
    from django.utils import timezone

    own = bearer(token)
    assert own.get(f"/api/v1/runs/{scene['run']}").status_code == 200
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    for route in pages("api"):
        for method in ("get", "post", "put"):
            assert getattr(own, method)(path_of(route, scene)).status_code in (401, 405), (route, method)


def test_sec_01_a_right_taken_away_counts_from_the_next_request(scene, alice):
    client = signed_in(alice)
    assert client.get(f"/outbox/{scene['item']}/").status_code == 200
    alice.teams.clear()
    for route in pages("run", "item", "correction"):
        assert client.get(path_of(route, scene), {"seq": "0"}).status_code in (404, 405), route
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    assert client.get("/outbox/").status_code == 302


# SEC-03


@pytest.mark.parametrize(
    "change",
    [
        lambda: LogEntry.objects.update(actor="engine"),
        lambda: LogEntry.objects.all()._raw_delete("default"),
        lambda: _sql("UPDATE runs_logentry SET data = '{}'"),
        lambda: _sql("DELETE FROM runs_logentry"),
        lambda: _sql("TRUNCATE runs_logentry CASCADE"),
        lambda: _sql("ALTER TABLE runs_logentry DISABLE TRIGGER ALL"),
        lambda: _sql("DROP TABLE runs_logentry CASCADE"),
        lambda: StoredPayload.objects.create(digest="x", body={}, bytes=2) and StoredPayload.objects.update(body={}),
        lambda: _sql("SET ROLE postgres"),
    ],
)
def test_sec_03_the_application_cannot_change_history(scene, change):
    with pytest.raises(DatabaseError):
        change()
    connection.close()
    assert LogEntry.objects.exists()


def _sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_sec_03_the_admin_site_has_no_door_to_the_log(scene):
    boss = signed_in(make_user("boss", is_superuser=True, is_staff=True))
    entry = LogEntry.objects.first()
    for path in ("add/", f"{entry.pk}/delete/", f"{entry.pk}/change/"):
        assert boss.post(f"/admin/runs/logentry/{path}", {"actor": "x", "post": "yes"}).status_code == 403
    boss.post("/admin/runs/logentry/", {"action": "delete_selected", "_selected_action": [entry.pk], "post": "yes"})
    assert LogEntry.objects.filter(pk=entry.pk, actor=entry.actor).exists()


def test_sec_03_names_and_roles_stay_readable_after_the_account_is_gone(scene, team):
    gone = make_user("gone", roles=("reviewer",), team=team, first_name="Gita", last_name="Gone")
    item = Item.objects.get(pk=scene["item"])
    services.approve(item, digest=item.digest, by=gone)
    gone.delete()
    decision = Decision.objects.get()
    assert (decision.by, decision.by_name, decision.role) == (None, "Gita Gone", "reviewer")
    assert LogEntry.objects.get(event="item.decided").actor == "person:Gita Gone"
    page = signed_in(make_user("reader", team=team)).get(f"/outbox/{item.pk}/").content.decode()
    assert "Gita Gone" in page


def test_sec_03_a_change_by_the_databases_owner_shows_in_the_chain(scene):
    run = Run.objects.get(pk=scene["run"])
    assert verify(run).whole
    forged(run, "an entry that the database's owner changed")
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE runs_logentry SET actor = 'person:Nobody' WHERE run_id = %s AND seq = 2", [run.pk])
    assert not verify(run).whole


@pytest.fixture
def as_owner():
    """Commands speak as the database's owner, as manage.py has it for those that erase."""
    _sql("SET ROLE NONE")
    yield
    connection.close()


def _made_long_ago(token, *texts, days=100):
    """A run that ended, with documents beside its log."""
    run = make_undone(token=token)
    with locked_run(run.pk) as locked:
        for text in texts:
            locked.append("run.taken", text=text * 50_000)
    forged(run, "entries whose documents are long, and an end that is long ago")
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - dt.timedelta(days=days))
    return run


def _texts():
    return sorted(body["text"][0] for body in StoredPayload.objects.values_list("body", flat=True))


def test_sec_03_retention_writes_what_it_removed(token, as_owner, capsys):
    old, young = _made_long_ago(token, "a", "b"), _made_long_ago(token, "b", "c", days=3)
    entries = list(old.entries.order_by("seq").values_list("seq", "hash"))
    call_command("erase", older_than=90)
    assert "1 would be erased." in capsys.readouterr().out
    assert _texts() == ["a", "b", "c"]
    call_command("erase", older_than=90, by="Ada Adler", why="90 days are over")
    # What a younger run holds too stays.
    assert _texts() == ["b", "c"]
    told = LogEntry.objects.get(event="payload.erased")
    removed = old.entries.get(data__has_key="$beside", data__bytes__gt=0, seq=entries[-2][0]).data
    assert (told.run, told.actor) == (old, "person:Ada Adler")
    assert told.data == {"digest": removed["$beside"], "bytes": removed["bytes"], "why": "90 days are over"}
    assert list(old.entries.order_by("seq").values_list("seq", "hash"))[:-1] == entries
    assert all(verify(run).whole for run in (old, young))
    assert logwords.detail(told) == f"{removed['bytes']:,} bytes by Ada Adler: 90 days are over"
    call_command("erase", older_than=90, by="Ada Adler", why="again")
    assert LogEntry.objects.filter(event="payload.erased").count() == 1


def test_sec_03_what_a_run_came_to_hold_meanwhile_is_not_erased(token, as_owner):
    _made_long_ago(token, "a")
    (found,) = erasing.old(after=dt.timedelta(days=90))
    _made_long_ago(token, "a", days=0)
    assert not erasing.erase(found, by="Ada Adler", why="90 days are over")
    assert _texts() == ["a"]
    assert not LogEntry.objects.filter(event="payload.erased").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"older_than": 0}, "at least one day"),
        ({"older_than": 90, "by": "Ada"}, "go together"),
        ({"older_than": 90, "why": "over"}, "go together"),
        ({"older_than": 90, "by": "Ada", "why": "over"}, "Only the database's owner"),
    ],
)
def test_sec_03_who_may_not_erase_or_gives_no_reason_erases_nothing(token, options, says):
    _made_long_ago(token, "a")
    with pytest.raises(CommandError, match=says):
        call_command("erase", **options)
    assert _texts() == ["a"]
    assert not LogEntry.objects.filter(event="payload.erased").exists()


# SEC-04


def test_sec_04_only_the_listed_routes_answer_whoever_has_no_business_there(scene, token, alice):
    clients = {
        "nothing": Client(),
        "a wrong token": Client(headers={"Authorization": "Bearer sgb_agent_wrong"}),
        "an agent's token": bearer(token),
        "a session": signed_in(alice),
    }
    for how, client in clients.items():
        for route in routes():
            if _is_theirs(how, kind_of(route)):
                continue
            for method in ("get", "post", "put", "patch", "delete", "head", "options"):
                answer = getattr(client, method)(path_of(route, scene))
                if answer.status_code == 302:
                    assert "/login/" in answer.url, (how, route, method)
                else:
                    assert answer.status_code in (401, 403, 404, 405), (how, route, method, answer.status_code)


def _is_theirs(how, kind):
    if kind == "public":
        return True
    if kind in ("api", "nothing"):
        return how == "an agent's token"
    return how == "a session" and kind != "admin"


def test_sec_04_what_is_public_tells_nothing_of_anybody(scene):
    for route in pages("public"):
        answer = Client().get(path_of(route, scene))
        assert answer.status_code in (200, 302, 405), route
        said = answer.content.decode()
        assert "billing" not in said
        assert "Alice" not in said


def test_sec_04_error_pages_and_static_files_are_of_use_to_nobody(scene):
    for path in ("/nowhere/", "/api/v1/nowhere", "/static/", "/static/../settings.py", "/admin/jsi18n/"):
        answer = Client().get(path)
        assert answer.status_code in (302, 404), path
