"""Plays the stories on a site that runs; `demo` calls it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sagaboard.demo import cast, evidence, play
from sagaboard.demo.build import targets_file
from sagaboard.demo.client import World
from sagaboard.demo.scene import Scene

STORIES = {
    "red": ("CI fails and the agent dies", play.red, evidence.wrong_in_red),
    "green": ("CI is green", play.green, evidence.wrong_in_green),
    "resume": ("an agent is killed, a fresh one goes on", play.resume, evidence.wrong_in_resume),
}


class Command(BaseCommand):
    help = "Drills the demo's capabilities and plays its stories through the API and the pages."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--headless", action="store_true")
        parser.add_argument("--json", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        stage = self._stage(options["port"])
        cast.end_earlier_runs(stage.cast)
        stage.reset()
        self._rehearse(stage)
        names = ["red", "green", "resume"] if options["headless"] else ["red", "green"]
        document, wrong = self._play(stage, names)
        if options["json"]:
            options["json"].write_text(json.dumps(document, indent=1, default=str))
        if not options["headless"]:
            self._invite(stage)
        if wrong:
            raise CommandError("\n".join(wrong))

    def _stage(self, port: int) -> play.Stage:
        # The scene's databases lie in our own cluster, whose owner's address the environment holds.
        scene = Scene(settings.SAGABOARD_STATE / "demo", os.environ["DATABASE_URL"])
        return play.Stage(f"http://127.0.0.1:{port}", World(f"http://127.0.0.1:{port + 1}"), scene, cast.assemble(), self._say)

    def _rehearse(self, stage: play.Stage) -> None:
        self._say("Drills, on sandboxes:")
        for drilled in cast.rehearse(stage.cast):
            self._say(f"  {drilled.run.title}: {drilled.says}")

    def _play(self, stage: play.Stage, names: list[str]) -> tuple[dict[str, Any], list[str]]:
        document: dict[str, Any] = {}
        wrong: list[str] = []
        for name in names:
            title, story, judge = STORIES[name]
            self._say(f"{name.capitalize()}: {title}")
            document[name] = evidence.of(story(stage))
            found = [f"{name}: {complaint}" for complaint in judge(document[name])]
            state, seconds = document[name]["state"], document[name]["seconds"]
            self._say(
                f"  run {document[name]['run']} {state} in {seconds} s; {'all held' if not found else 'NOT HELD: ' + '; '.join(found)}"
            )
            wrong += found
        return document, wrong

    def _invite(self, stage: play.Stage) -> None:
        run = play.leave_one_failed(stage)
        self._say(f"Run {run} failed and is not undone: it is yours.")
        self._say(f"  dashboard   {stage.url}/runs/{run}/")
        self._say(f"  the world   {stage.world.url}/ (the client's portal, the team's channel)")
        for username, (first, last, roles, _) in cast.PEOPLE.items():
            self._say(f"  sign in as  {username:6} {first} {last}, {', '.join(roles)}; password: {cast.PASSWORD}")

        self._say("Commands for this installation, in another shell:")
        self._say(f"  export SAGABOARD_STATE={settings.SAGABOARD_STATE} SAGABOARD_TARGETS={targets_file(settings.SAGABOARD_STATE)}")
        self._say("  .venv/bin/python manage.py token make my-agent --team billing --person ana --rules 'feature work'")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        sys.stdout.flush()
