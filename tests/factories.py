"""Rows for tests: keyword-only, with defaults, so that a test names only what it is about."""

from __future__ import annotations

import itertools
from typing import Any

from django.contrib.auth.models import Group

from runs import services
from runs.engine import invoke
from runs.models import CapabilityRecord, Rules, Run, Step, TokenRules
from sagaboard.accounts.models import Team, Token, User

numbers = itertools.count(1)


def make_user(username: str = "", *, roles: tuple[str, ...] = (), team: Team | None = None, **fields: Any) -> User:
    username = username or f"person{next(numbers)}"
    user = User.objects.create_user(username, f"{username}@example.com", "a long password", **fields)
    user.groups.set(Group.objects.filter(name__in=roles))
    if team is not None:
        team.members.add(user)
    return user


def make_team(name: str = "") -> Team:
    return Team.objects.create(name=name or f"team {next(numbers)}")


def make_token(*, scope: str = "agent", team: Team | None = None, person: User | None = None, **rules: Any) -> Token:
    """A token and its rules. Its text is on `.text`."""
    team = team or make_team()
    number = next(numbers)
    token, text = Token.issue(name=f"{scope}-{number}", scope=scope, team=team, person=person or make_user(team=team))
    token.text = text  # type: ignore[attr-defined]
    owners = rules.pop("owners", [])
    made = Rules.objects.create(name=f"rules {number}", **{"required_checks": ["ci"], **rules})
    made.owners.set(owners)
    TokenRules.objects.create(token=token, rules=made)
    return token


def prove(*names: str) -> None:
    """As if these capabilities had been drilled."""
    for record in CapabilityRecord.objects.filter(name__in=names):
        CapabilityRecord.objects.filter(pk=record.pk).update(proven_version=record.version, proven_how="drill")


PLAN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "two", "capability": "put_thing", "args": {"name": "two"}},
    {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}},
    {"ref": "tell", "capability": "tell_client", "args": {"name": "news", "value": "ready"}},
]


def make_run(*, token: Token | None = None, plan: list[dict[str, Any]] | None = None, **asked: Any) -> Run:
    token = token or make_token()
    prove("show_thing", "blind_thing")
    return services.open_run(token=token, title="Add a billing field", plan=PLAN if plan is None else plan, **asked).run


def ask(run: Run, capability: str, *, token: Token | None = None, **request: Any) -> services.Asked:
    return services.request_step(run, token=token or run.token, capability=capability, **request)


def do(run: Run, ref: str) -> Step:
    """Asks for the planned call `ref` and lets a worker do it, here."""
    planned = run.steps.get(ref=ref)
    step = ask(run, planned.capability, args=planned.args, ref=ref).step
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()
    return step
