"""Checks the chain of hashes of every run's log."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs import log
from runs.models import Run


class Command(BaseCommand):
    help = "Computes every hash of the log again. With --head, compares a run's end with one that left the database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", type=int, help="Run numbers; all by default.")
        parser.add_argument("--head", help="The hash this one run's log must contain, from a report, an answer or an anchor file.")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = Run.objects.filter(pk__in=options["runs"]) if options["runs"] else Run.objects.all()
        missing = sorted(set(options["runs"]) - set(runs.values_list("pk", flat=True)))
        if missing:
            raise CommandError(f"There is no run {', '.join(map(str, missing))}.")
        if options["head"] and len(options["runs"]) != 1:
            raise CommandError("--head is the end of one run's log: name that run.")
        broken = []
        for run in runs.order_by("pk").iterator():
            chain = log.verify(run)
            if not chain.whole:
                broken.append(f"run {run.number}: entry {chain.first_bad} does not fit the one before it")
            elif options["head"] and not run.entries.filter(hash=options["head"]).exists():
                broken.append(f"run {run.number}: no entry has the hash {options['head'][:12]}…; its tail was cut")
        if broken:
            raise CommandError("\n".join(broken))
        self.stdout.write("Every chain is whole.")
