"""Freezes the installation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from runs import freezing


class Command(BaseCommand):
    help = "Nothing is called, sent or undone until thaw."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", required=True, help="Your name, for the record.")
        parser.add_argument("--why", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        freezing.freeze(by=options["by"], why=options["why"])
        self.stdout.write("Frozen.")
