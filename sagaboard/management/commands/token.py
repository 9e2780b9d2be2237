"""Makes, lists and revokes tokens."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError
from django.utils import timezone

from runs.models import Rules, Run, TokenRules
from sagaboard.accounts.models import Scope, Team, Token, User

LONGEST_NAME = 80
LONGEST_DAYS = 3650


class Command(BaseCommand):
    help = "token make NAME --scope agent --team T --person P | token list | token revoke NAME"

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        make = actions.add_parser("make", help="Makes a token and prints its text, once.")
        make.add_argument("name")
        make.add_argument("--scope", choices=Scope.values, default=Scope.AGENT)
        make.add_argument("--team", required=True)
        make.add_argument("--person", required=True, help="Who answers for what it does: a username.")
        make.add_argument("--rules", help="The rules its runs obey: their name.")
        make.add_argument("--days", type=float, default=90)
        make.add_argument("--checks", nargs="*", default=[], help="For a checker: the checks it may report.")
        make.add_argument("--run", type=int, help="Only this run.")
        actions.add_parser("list", help="Shows every token, never its text.")
        revoke = actions.add_parser("revoke", help="Ends a token at once.")
        revoke.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(options)

    def make(self, options: dict[str, Any]) -> None:
        team, person, rules = self._named(options)
        _check(options, team, person)
        try:
            token, text = Token.issue(
                name=options["name"],
                scope=options["scope"],
                team=team,
                person=person,
                days=options["days"],
                checks=options["checks"],
                run_number=options["run"],
            )
        except IntegrityError:
            raise CommandError(f"There is a token called {options['name']} already. Choose another name.") from None
        if rules is not None:
            TokenRules.objects.create(token=token, rules=rules)
        self.stdout.write(text)

    def _named(self, options: dict[str, Any]) -> tuple[Team, User, Rules | None]:
        team, person = Team.objects.filter(name=options["team"]).first(), User.objects.filter(username=options["person"]).first()
        if team is None:
            names = ", ".join(Team.objects.order_by("name").values_list("name", flat=True)[:20])
            raise CommandError(f"There is no team of that name. There are: {names or 'none yet'}.")
        if person is None:
            raise CommandError("There is no person of that name. Give a username; the admin site lists them.")
        rules = Rules.objects.filter(name=options["rules"]).first() if options["rules"] else None
        if options["rules"] and rules is None:
            names = ", ".join(Rules.objects.order_by("name").values_list("name", flat=True)[:20])
            raise CommandError(f"There are no rules called {options['rules']}. There are: {names or 'none yet'}.")
        return team, person, rules

    def list(self, options: dict[str, Any]) -> None:
        for token in Token.objects.select_related("team", "person").order_by("name"):
            ends = "revoked" if token.revoked_at else f"until {token.expires_at:%Y-%m-%d}" if token.expires_at else "never expires"
            used = f"last used {token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never used"
            self.stdout.write(f"{token.name}\t{token.scope}\t{token.team}\t{token.person}\t{ends}\t{used}")

    def revoke(self, options: dict[str, Any]) -> None:
        if not Token.objects.filter(name=options["name"], revoked_at=None).update(revoked_at=timezone.now()):
            raise CommandError(f"No token called {options['name']} is in use.")
        self.stdout.write(f"{options['name']} is revoked.")


def _check(options: dict[str, Any], team: Team, person: User) -> None:
    """CommandError, saying what to give instead, for what would make a token that is of no use, or of too much."""
    name, days, scope = options["name"], options["days"], options["scope"]
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise CommandError(f"A token's name has 1 to {LONGEST_NAME} printable characters.")
    if not 0 < days <= LONGEST_DAYS:
        raise CommandError(f"--days: more than 0 and at most {LONGEST_DAYS}; {days:g} is not.")
    if scope not in Scope.values:
        raise CommandError(f"--scope: one of {', '.join(Scope.values)}.")
    if not person.is_active:
        raise CommandError(f"The account of {person.username} is disabled; it can't answer for a token.")
    if not team.members.filter(pk=person.pk).exists():
        raise CommandError(f"{person.username} does not belong to the team {team.name}. Add them there first, or name one of its members.")
    if options["checks"] and scope != Scope.CHECKER:
        raise CommandError("--checks is for tokens of the scope checker.")
    if options["rules"] and scope != Scope.AGENT:
        raise CommandError("--rules are for tokens of the scope agent, whose runs they bind.")
    if options["run"] is not None and not Run.objects.filter(pk=options["run"], team=team).exists():
        raise CommandError(f"--run: the team {team.name} has no run {options['run']}.")
