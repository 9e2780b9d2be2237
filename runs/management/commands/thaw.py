"""Thaws the installation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs import freezing
from runs.exceptions import Invalid


class Command(BaseCommand):
    help = "Lifts the freeze; what is due goes on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", required=True, help="Your name, for the record.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            freezing.thaw(by=options["by"])
        except Invalid as exc:
            raise CommandError(exc.detail) from None
        self.stdout.write("Thawed.")
