"""Faults of secrets: what a worker is given for a call, and where it may turn up afterwards."""

from __future__ import annotations

import base64
import json
import logging

import psycopg
import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client

from runs import services
from runs.engine import compensate, invoke
from runs.exceptions import NoEffect
from runs.models import Run
from sagaboard.accounts.models import Scope
from tests.factories import ask, make_run, make_token, make_user
from tests.routes import ROWS, path_of, routes
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "canary-7f3a-Zq"
REFERENCE = {"name": "one", "value": "secret:api"}
QUOTED = f"POST https://bot:{CANARY}@target.example/?token={CANARY} with Authorization: Bearer {CANARY}: 500"


@pytest.fixture
def _one_secret(settings, monkeypatch):
    monkeypatch.setattr(PutThing, "secret", ("value",))
    monkeypatch.setattr(PutThing, "verify_done", lambda self, call: world.things["one"]["value"] == call.args.value)
    settings.SAGABOARD_SECRETS = {"api": CANARY}


def _raises(kind):
    def quote(call):
        raise kind(QUOTED)

    return quote


def _succeeds(run, token):
    services.finish_run(run, token=token)
    services.report_check(run, token=make_token(scope="checker", team=run.team), name="ci", state="success")
    return "succeeded"


def _fails(run, token):
    services.fail_run(run, token=token, reason="CI died")
    return "failed"


def _is_compensated(run, token):
    services.fail_run(run, token=token, reason="CI died")
    services.compensate_run(run, actor="person:Alice")
    compensate.compensate(run.pk)
    return "compensated"


def _sticks(run, token):
    world.before["undo"] = world.before["verify_undone"] = _raises(ValueError)
    _is_compensated(run, token)
    return "stuck"


def _is_refused(run, token):
    return "open"


@pytest.mark.parametrize("ends", [_succeeds, _fails, _is_compensated, _sticks, _is_refused])
def test_sec_02_a_secret_is_nowhere_after_the_call_and_the_undo_still_has_it(_one_secret, ends, team, caplog, mailoutbox):
    caplog.set_level(logging.DEBUG)
    token = make_token(team=team)
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing"}])
    if ends is _is_refused:
        world.before["do"] = _raises(NoEffect)
    step = ask(run, "put_thing", args=REFERENCE, ref="one", why="the bot signs in with secret:api").step
    invoke.invoke(run.pk, step.pk)
    assert ends is _is_refused or world.things["one"]["value"] == CANARY
    state = ends(run, token)
    assert Run.objects.get(pk=run.pk).state == state
    assert ends is not _is_compensated or "one" not in world.things
    found = {**_kept(), **_shown(run, team), "logs": caplog.text}
    found["mails"] = "".join(f"{mail.subject} {mail.body} {mail.alternatives}" for mail in mailoutbox)
    assert len(found) > 40
    assert [name for name, text in found.items() if CANARY in text] == []


def _kept():
    """Every table, whole, and whatever the broker holds."""
    with psycopg.connect(connection.owner_url) as owner:
        names = [name for (name,) in owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()]
        found = {name: str(owner.execute(f'SELECT t::text FROM "{name}" t').fetchall()) for name in names}
    return {**found, "broker": str(list(_messages()))}


def _messages():
    """What stands in the broker's queues, each with its body as a worker reads it, and all that stands beside them."""
    broker = redis.Redis.from_url(django_settings.REDIS_URL)
    for key in broker.scan_iter():
        kind = broker.type(key)
        if kind == b"list":
            for message in broker.lrange(key, 0, -1):
                body = json.loads(message) if message.startswith(b"{") else {}
                yield message, base64.b64decode(body.get("body", ""))
        else:
            yield key, {b"string": broker.get, b"hash": broker.hgetall, b"set": broker.smembers, b"zset": broker.zscan}[kind](key)


def _shown(run, team):
    """Every page about the run and every list, and what the API answers, to whoever may see the most."""
    reader = Client()
    reader.force_login(make_user(roles=("admin", "on-call", "reviewer", "owner", "auditor"), team=team))
    addresses = [path_of(route, {"run": run.pk, "step": 1}) for route in routes() if route in ROWS and ROWS[route].kind in ("run", "own")]
    found = {address: _text(reader.get(address, follow=True)) for address in addresses}
    auditor = Client(headers={"Authorization": f"Bearer {make_token(team=team, scope=Scope.AUDITOR).text}"})
    api = [f"/api/v1/runs/{run.pk}", f"/api/v1/runs/{run.pk}/log", f"/api/v1/runs/{run.pk}/steps/1"]
    return {**found, **{f"API {address}": _text(auditor.get(address)) for address in api}}


def _text(answer):
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()
