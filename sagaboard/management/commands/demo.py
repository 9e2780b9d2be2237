"""Plays the seven-step story on real parts and leaves the dashboard running."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from sagaboard import env
from sagaboard.demo.build import targets_file, world_folder
from sagaboard.processes import CannotStart, Process
from sagaboard.stack import Stack, Stages, is_healthy
from sagaboard.supervisor import Supervisor

ENVIRONMENT = {
    "SAGABOARD_SWEEP_EVERY": "1",
    "SAGABOARD_EMAIL_BACKEND": "django.core.mail.backends.filebased.EmailBackend",
    "SAGABOARD_CALL_TIMEOUT_AT_MOST": "60",
}


class Command(BaseCommand):
    help = "Starts everything with a small world beside it, drills the capabilities and plays the stories."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="Where the dashboard is; the world is on the next one.")
        parser.add_argument("--headless", action="store_true", help="Play both stories and the resumption, then stop.")
        parser.add_argument("--json", type=Path, help="Write what happened to this file.")

    def handle(self, *args: Any, **options: Any) -> None:
        state = env.state_folder() / "demo-site"
        os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
        os.environ["SAGABOARD_TARGETS"] = str(targets_file(state))
        stack = Stack(state, port=options["port"])
        supervisor = Supervisor(state, stages=partial(stages, stack, options["port"] + 1), port=options["port"])
        try:
            with supervisor:
                status = self._play(stack, options)
                if not options["headless"]:
                    supervisor.wait()
        except CannotStart as exc:
            raise CommandError(str(exc)) from None
        if status:
            raise CommandError("Not everything held; see above.", returncode=status)

    def _play(self, stack: Stack, options: dict[str, Any]) -> int:
        command = [sys.executable, "manage.py", "play_stories", "--port", str(options["port"])]
        command += ["--headless"] if options["headless"] else []
        command += ["--json", str(options["json"].absolute())] if options["json"] else []
        ours = {name: value for name, value in os.environ.items() if name != "SAGABOARD_AS_OWNER"}
        environment = {**ours, **stack.urls, "SAGABOARD_STATE": str(stack.state)}
        return subprocess.run(command, cwd=env.BASE, env=environment, check=False).returncode


def stages(stack: Stack, world_port: int) -> Stages:
    """The stack's own processes, with the world and the scene between its servers and its migrations."""
    servers, migrate, application = stack.stages()
    world_url = f"http://127.0.0.1:{world_port}"
    world = [sys.executable, "-m", "sagaboard.demo.world", "--state", str(world_folder(stack.state)), "--port", str(world_port)]
    build = [sys.executable, "-m", "sagaboard.demo.build", str(stack.state), world_url]
    environment = {**os.environ, **stack.urls}
    return [
        servers,
        [
            Process(name="world", argv=world, cwd=env.BASE, env=environment, ready=partial(is_healthy, world_port, "/")),
            Process(name="scene", argv=build, cwd=env.BASE, env=environment, once=True),
        ],
        migrate,
        application,
    ]
