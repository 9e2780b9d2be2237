"""Says what is missing in the registry."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs import registry


class Command(BaseCommand):
    help = "Lists capabilities with a blank or unproven undo, without a probe, or that people read and nobody could correct."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--strict", action="store_true", help="Fail if there is anything to list; for CI.")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = registry.lint()
        for finding in findings:
            self.stdout.write(f"{finding.code} {finding.capability}: {finding.says}")
        self.stdout.write(f"{len(registry.classes())} capabilities, {len(findings)} findings")
        if findings and options["strict"]:
            raise CommandError("The registry is not whole.")
