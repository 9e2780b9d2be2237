"""Lists the points at which a test can break the engine."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs.failpoints import FOLDER, POINTS


class Command(BaseCommand):
    help = "Lists the failpoints; they are off unless SAGABOARD_FAILPOINTS names a folder."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write("\n".join(POINTS))
        self.stdout.write(f"armed by files in {FOLDER}" if FOLDER else "off")
