"""Thaws the installation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from runs import freezing


class Command(BaseCommand):
    help = "Lifts the freeze; what is due goes on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--by", required=True, help="Your name, for the record.")

    def handle(self, *args: Any, **options: Any) -> None:
        freezing.thaw(by=options["by"])
        self.stdout.write("Thawed.")
