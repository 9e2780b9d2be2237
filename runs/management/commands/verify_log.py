"""Checks the chain of hashes of every run's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs import anchors, log
from runs.models import Run, System


class Command(BaseCommand):
    help = "Computes every hash of the log again. Compares it with what left the database: the anchor files, and --head."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", type=int, help="Run numbers; all by default.")
        parser.add_argument("--head", help="The hash this one run's log must contain, from a report, an answer or an anchor file.")

        parser.add_argument("--anchors", type=Path, help="A folder of anchor files; this installation's own by default.")

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
        if not options["runs"]:
            broken += self._cut(options["anchors"])
        if broken:
            raise CommandError("\n".join(broken))
        self.stdout.write("Every chain is whole.")

    def _cut(self, folder: Path | None) -> list[str]:
        """What the anchor files say and the log doesn't."""
        if folder is not None and not any(folder.glob("*.jsonl")):
            raise CommandError(f"There are no anchors in {folder}.")
        found = anchors.read(folder or anchors.folder(System.objects.get_or_create(pk=1)[0]))
        heads = {head: anchor.at for anchor in found for head in anchor.heads}
        lacking = [(head, at) for head, at in heads.items() if not anchors.holds(*head)]
        return [f"run {run}: entry {seq} is not as anchored at {at:%Y-%m-%d %H:%M} UTC" for (run, seq, _), at in lacking]
