"""`manage.py up`: everything on this machine, until Ctrl-C."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sagaboard.env import state_folder
from sagaboard.processes import CannotStart
from sagaboard.supervisor import Supervisor


class Command(BaseCommand):
    help = (
        "Start web, workers and beat, and before them PostgreSQL and Valkey where DATABASE_URL and REDIS_URL don't "
        "name any; start again what dies; stop all of it in order at Ctrl-C or SIGTERM."
    )
    requires_system_checks = []  # They may ask the database, which is not there yet.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="where the pages are, on 127.0.0.1 (8000)")
        parser.add_argument("--workers", type=int, default=2, help="how many steps are done at a time (2)")
        parser.add_argument("--no-web", dest="web", action="store_false", help="no pages and no API here")
        parser.add_argument("--no-workers", dest="work", action="store_false", help="no workers here")
        parser.add_argument("--no-beat", dest="beat", action="store_false", help="no beat here: one is enough for all machines")

    def handle(self, *, port: int, workers: int, web: bool, work: bool, beat: bool, **options: Any) -> None:
        try:
            with Supervisor(state_folder(), port=port, workers=workers, web=web, work=work, beat=beat) as supervisor:
                supervisor.wait()
        except CannotStart as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt:
            raise CommandError("Stopped before it was up.", returncode=130) from None
