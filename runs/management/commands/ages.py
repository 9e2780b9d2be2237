"""Shows how long anything waits."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from runs.ages import all_ages
from sagaboard.templatetags.words import duration


class Command(BaseCommand):
    help = "For each state that is not an end: how many are in it, the oldest, its bound and who is next."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="For a monitor: seconds instead of words.")

    def handle(self, *args: Any, **options: Any) -> None:
        ages = all_ages()
        if options["json"]:
            self.stdout.write(json.dumps([dataclasses.asdict(age) for age in ages]))
            return
        for age in ages:
            oldest = "-" if age.oldest is None else duration(age.oldest)
            self.stdout.write(f"{age.what:<11} {age.state:<14} {age.count:>6}  oldest {oldest:<10}  {age.owner}: {age.bound}")
