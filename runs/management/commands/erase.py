"""Erases what lies beside old logs."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError

from runs import erasing


class Command(BaseCommand):
    help = "Erases large documents beside the log of runs that ended long ago; the log stays, and says so. Shows them first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--older-than", type=int, required=True, metavar="DAYS", help="Since the run ended.")
        parser.add_argument("--by", default="", help="Your name, for the record. Without it nothing is erased, only shown.")
        parser.add_argument("--why", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["older_than"] < 1:
            raise CommandError("--older-than: at least one day.")
        if bool(options["by"].strip()) != bool(options["why"].strip()):
            raise CommandError("--by and --why go together: both stand in the log.")
        found = erasing.old(after=dt.timedelta(days=options["older_than"]))
        if options["by"]:
            found = self._erased(found, by=options["by"].strip(), why=options["why"].strip())
        for one in found:
            self.stdout.write(f"{one.digest}  {one.bytes:>10,} bytes  run {', '.join(map(str, one.runs))}")
        self.stdout.write(f"{len(found)} {'erased' if options['by'] else 'would be erased'}.")

    def _erased(self, found: list[erasing.Old], **who: str) -> list[erasing.Old]:
        try:
            return [one for one in found if erasing.erase(one, **who)]
        except ProgrammingError as exc:
            raise CommandError("Only the database's owner may erase: name it in DATABASE_OWNER_URL. Nothing was erased.") from exc
