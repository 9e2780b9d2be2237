"""The people of the demo, what they may do, and the tokens of its agent and its checker. Can run any number of times."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.contrib.auth.models import Group

from corrections.models import Audience
from runs.models import Rules, Run, TokenRules
from runs.services import leave_standing, stop_run
from runs.services.drilling import Drilled, drill
from runs.states import RunState
from sagaboard.accounts.models import Scope, Team, Token, User

# Everything here listens on loopback only and holds nothing but the story.
PASSWORD = "undo before dawn"  # noqa: S105
PEOPLE = {
    "ana": ("Ana", "Ruiz", ["owner"], "UTC"),
    "tomas": ("Tomas", "Lindqvist", ["on-call"], "UTC"),
    "priya": ("Priya", "Nair", ["reviewer"], "UTC"),
    "meera": ("Meera", "Joshi", ["read-only"], "Asia/Kolkata"),
    "sam": ("Sam", "Okafor", ["admin", "on-call"], "UTC"),
}
AUDIENCES = {
    "qa-cohort": ("meera", {"target": "chat", "user": "U0MEERA"}),
    "#billing-dev": ("ana", {"target": "chat", "user": "U0ANA"}),
    "client portal": ("ana", {"target": "chat", "user": "U0ANA"}),
    "NorthPay": ("ana", {"target": "chat", "user": "U0ANA"}),
}
DRILLS: dict[str, dict[str, Any]] = {
    "create_branch": {"repo": "repo-sandbox", "branch": "drill/branch"},
    "run_migration": {"database": "staging-sandbox", "revision": "0142_invoice_billing_field"},
    "set_flag": {"flag": "billing_panel_v1", "segment": "drill-cohort", "value": True, "target": "flags-sandbox"},
    "transition_ticket": {"issue": "SAND-1", "to": "In Review", "target": "tickets-sandbox"},
}
PATIENCE = 4


@dataclasses.dataclass(frozen=True)
class Cast:
    team: Team
    people: dict[str, User]
    agent: str
    checker: str
    auditor: str


def assemble() -> Cast:
    """The team, its people, audiences with owners, and fresh tokens."""
    team, _ = Team.objects.get_or_create(name="billing")
    people = {username: _person(username, team) for username in PEOPLE}
    for name, (owner, address) in AUDIENCES.items():
        Audience.objects.update_or_create(name=name, defaults={"owner": people[owner], "address": address})
    rules, _ = Rules.objects.update_or_create(
        name="feature work", defaults={"required_checks": ["ci"], "plan_required": True, "patience": PATIENCE}
    )
    agent = _token("feature-runner", Scope.AGENT, team, people["ana"], rules)
    checker = _token("ci-server", Scope.CHECKER, team, people["sam"], rules)
    auditor = _token("audit", Scope.AUDITOR, team, people["sam"], rules)
    return Cast(team, people, agent, checker, auditor)


def _person(username: str, team: Team) -> User:
    first, last, roles, zone = PEOPLE[username]
    about = {"first_name": first, "last_name": last, "email": f"{username}@acme.example", "time_zone": zone}
    user, _ = User.objects.update_or_create(username=username, defaults=about)
    user.is_staff = user.is_superuser = "admin" in roles
    user.set_password(PASSWORD)
    user.save()
    user.groups.set(Group.objects.filter(name__in=roles))
    team.members.add(user)
    return user


def _token(name: str, scope: str, team: Team, person: User, rules: Rules) -> str:
    """A new text for the token called `name`; the one of an earlier demo stops working."""
    fresh, text = Token.issue(name=f"{name} (new)", scope=scope, team=team, person=person, days=7)
    earlier = Token.objects.filter(name=name).first()
    if earlier is None:
        fresh.name = name
        fresh.save(update_fields=["name"])
        earlier = fresh
    else:
        fresh.delete()
        earlier.digest, earlier.expires_at = fresh.digest, fresh.expires_at
        earlier.save(update_fields=["digest", "expires_at"])
    TokenRules.objects.update_or_create(token=earlier, defaults={"rules": rules})
    return text


def rehearse(cast: Cast) -> list[Drilled]:
    """Drills every capability of the story that has an undo, on the sandboxes."""
    return [drill(name, args, by=cast.people["sam"], team=cast.team) for name, args in DRILLS.items()]


def end_earlier_runs(cast: Cast) -> None:
    """What an earlier demo left unfinished: its world is made anew, so nothing of it can be undone any more."""
    for run in Run.objects.unfinished().filter(team=cast.team):
        if run.is_going_forward:
            stop_run(run, by=cast.people["sam"], reason="A new demo begins.")
        run.refresh_from_db()
        if run.state in (RunState.FAILED, RunState.STUCK):
            leave_standing(run, by=cast.people["sam"], reason="The demo's world is made anew.")
