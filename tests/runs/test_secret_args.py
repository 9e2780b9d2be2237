"""Secret arguments: referred to by agents, known to workers, and in nothing that is stored."""

import psycopg
import pytest
from django.db import connection

from runs import services
from runs.engine import compensate, invoke
from runs.exceptions import Invalid, NoEffect
from runs.models import Step
from tests.factories import ask, make_run
from tests.tools import PutThing, world

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "canary-7f3a"
REFERENCE = {"name": "one", "value": "secret:api"}


@pytest.fixture
def run(token, settings, monkeypatch):
    monkeypatch.setattr(PutThing, "secret", ("value",))
    monkeypatch.setattr(PutThing, "verify_done", lambda self, call: world.things["one"]["value"] == call.args.value)
    settings.SAGABOARD_SECRETS = {"api": CANARY}
    return make_run(token=token, plan=[{"ref": "one", "capability": "put_thing"}])


def everything() -> str:
    with psycopg.connect(connection.owner_url) as owner:
        tables = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return "".join(str(owner.execute(f'SELECT t::text FROM "{name}" t').fetchall()) for (name,) in tables)


def do(run):
    step = ask(run, "put_thing", args=REFERENCE, ref="one").step
    invoke.invoke(run.pk, step.pk)
    return Step.objects.get(pk=step.pk)


def test_the_worker_gets_the_text_and_nothing_stored_holds_it(run):
    step = do(run)
    assert world.things["one"]["value"] == CANARY
    assert step.args["value"] == "secret:api"
    assert step.effect["value"] == "•••"
    assert CANARY not in everything()


def test_the_undo_gets_it_too(run, token):
    do(run)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensated"
    assert CANARY not in everything()


@pytest.mark.parametrize("raised", [NoEffect, ValueError])
def test_an_error_that_quotes_it_is_scrubbed(run, raised):
    world.before["do"] = lambda call: (_ for _ in ()).throw(raised(f"bad token {call.args.value}"))
    assert "bad token •••" in do(run).error
    assert CANARY not in everything()


def test_a_raw_value_is_refused_and_not_repeated(run):
    with pytest.raises(Invalid) as refused:
        ask(run, "put_thing", args={"name": "one", "value": CANARY}, ref="one")
    assert "secret:NAME" in refused.value.detail
    assert CANARY not in refused.value.detail
    assert CANARY not in everything()


def test_a_secret_that_no_worker_has_calls_nothing(run, settings):
    settings.SAGABOARD_SECRETS = {}
    step = do(run)
    assert (step.state, world.calls("do")) == ("failed", [])
    assert "has no secret “secret:api”" in step.error
