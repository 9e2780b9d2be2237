"""Rehearses a capability's undo on a sandbox."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.exceptions import Refused
from runs.services.drilling import drill
from sagaboard.accounts.models import Team, User


class Command(BaseCommand):
    help = "Does a call on a sandbox target, undoes it and verifies that it is gone; proves the capability's undo."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The capability.")
        parser.add_argument("--args", dest="arguments", default="{}", help='Its arguments, as JSON: {"repo": "repo-sandbox", …}.')
        parser.add_argument("--by", required=True, help="Who answers for the drill: a username.")
        parser.add_argument("--team", help="Whose run it is; by default the person's first team.")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["by"], is_active=True).first()
        if person is None:
            raise CommandError(f"There is no active person called {options['by']}.")
        teams = Team.objects.filter(name=options["team"]) if options["team"] else person.teams.order_by("name")
        team = teams.first()
        if team is None:
            raise CommandError("No such team; name one with --team.")
        try:
            found = drill(options["name"], json.loads(options["arguments"]), by=person, team=team)
        except ValueError as exc:
            raise CommandError(f"--args is not JSON: {exc}") from None
        except Refused as exc:
            raise CommandError(exc.detail) from None
        self.stdout.write(f"{options['name']}: {found.says} (run {found.run.number})")
        if not found.proven:
            raise CommandError("The undo is not proven.")
