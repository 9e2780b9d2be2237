"""Tokens from the shell, the login that htmx meets, and whether the process is well."""

import datetime as dt

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from runs.models import Rules
from sagaboard.accounts.models import Team, Token
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def make(capsys):
    make_user("ana", team=make_team("billing"))

    def make(name="runner", **options):
        call_command("token", "make", name, **{"team": "billing", "person": "ana", **options})
        return capsys.readouterr().out.strip()

    return make


def test_a_tokens_text_is_shown_once_and_only_its_hash_is_kept(make):
    text = make()
    token = Token.objects.get()
    assert text.startswith("sgb_agent_")
    assert text not in str(token.__dict__)
    assert token.digest == Token.digest_of(text)
    assert token.expires_at - timezone.now() > dt.timedelta(days=89)


def test_a_token_brings_its_rules(make):
    rules = Rules.objects.create(name="feature work")
    make(rules="feature work")
    assert Token.objects.get().rules.rules == rules


@pytest.mark.parametrize(
    ("options", "complaint"), [({"team": "x"}, "no team"), ({"person": "x"}, "no person"), ({"rules": "x"}, "no rules")]
)
def test_a_wrong_name_makes_nothing(make, options, complaint):
    with pytest.raises(CommandError, match=complaint):
        call_command("token", "make", "runner", **{"team": "billing", "person": "ana", **options})
    assert not Token.objects.exists()


def test_a_name_is_used_once(make):
    make()
    with pytest.raises(CommandError, match="already"):
        make()


def test_a_revoked_token_is_listed_as_such(make, capsys):
    make()
    call_command("token", "revoke", "runner")
    call_command("token", "list")
    assert "revoked" in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("token", "revoke", "runner")


def test_a_person_who_left_takes_their_tokens_along(make):
    make()
    assert Token.objects.usable().exists()
    Token.objects.get().person.__class__.objects.update(is_active=False)
    assert not Token.objects.usable().exists()


def test_signed_out_a_page_leads_to_the_login_and_back(client):
    answer = client.get("/runs/?state=failed")
    assert answer.headers["Location"] == "/login/?next=/runs/%3Fstate%3Dfailed"


def test_signed_out_htmx_is_sent_as_a_whole_page(client):
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/runs/7/"}
    answer = client.get("/runs/", headers=headers)
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, "/login/?next=/runs/7/")


def test_the_process_says_that_it_lives_and_what_it_needs(client):
    assert client.get("/healthz").content == b"ok\n"
    assert client.get("/readyz").json() == {"database": "ok", "broker": "ok"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"days": -1}, "--days: more than 0"),
        ({"days": 0}, "--days: more than 0"),
        ({"days": float("nan")}, "--days: more than 0"),
        ({"days": 10**9}, "--days: more than 0"),
        ({"person": "eve"}, "does not belong to the team"),
        ({"person": "gone"}, "is disabled"),
        ({"checks": ["ci"]}, "--checks is for"),
        ({"scope": "auditor", "rules": "feature work"}, "--rules are for"),
        ({"scope": "root"}, "--scope: one of agent"),
        ({"run": 99}, "has no run 99"),
        ({"name": ""}, "1 to 80"),
        ({"name": "x" * 81}, "1 to 80"),
    ],
)
def test_what_makes_a_useless_or_a_too_strong_token_is_refused_with_what_to_give_instead(make, options, complaint):
    make_user("eve", team=make_team("elsewhere"))
    make_user("gone", team=Team.objects.get(name="billing"), is_active=False)
    Rules.objects.create(name="feature work")
    with pytest.raises(CommandError, match=complaint):
        make(**options)
    assert not Token.objects.exists()
