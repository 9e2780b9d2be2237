"""Writes what the code says about capabilities to their rows."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs import registry


class Command(BaseCommand):
    help = "Brings the registry's rows up to date with the code; what people govern stays."

    def handle(self, *args: Any, **options: Any) -> None:
        changed = registry.sync()
        self.stdout.write(f"{len(registry.classes())} capabilities, changed: {', '.join(changed) or 'none'}")
