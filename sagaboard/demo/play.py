"""Plays the stories: the agent as a process of its own, the checker through the API, people through the pages' own views."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx

from sagaboard.demo.cast import PASSWORD, Cast
from sagaboard.demo.client import World
from sagaboard.demo.person import Person
from sagaboard.demo.scene import Scene
from sagaboard.processes import die_with_parent

JSON = dict[str, Any]
PATIENT = 90.0


class StoryBroke(Exception):
    """The story did not go on as it must; the text says where."""


@dataclasses.dataclass
class Stage:
    """Where the stories are played: the site, the world, the scene and the cast."""

    url: str
    world: World
    scene: Scene
    cast: Cast
    say: Callable[[str], None]

    def reset(self) -> None:
        """The world as at the beginning of a story."""
        self.scene.reset()
        self.world.reset()

    def reading(self) -> JSON:
        """What the systems themselves say now."""
        return {**self.scene.reading(), **self.world.reading()}

    def person(self, username: str) -> Person:
        return Person(self.url, username, PASSWORD)

    def api(self, method: str, path: str, body: JSON | None = None, *, token: str = "") -> JSON:
        headers = {"Authorization": f"Bearer {token or self.cast.agent}"}
        answer = httpx.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers, timeout=60, trust_env=False)
        return {"status": answer.status_code, **answer.json()}

    def state_of(self, run: int) -> str:
        # By the checker's token: an agent that reads its run counts as heard of, and this must not keep it alive.
        return str(self.api("GET", f"/runs/{run}", token=self.cast.checker)["state"])

    def wait_for(self, run: int, *states: str) -> str:
        """The run's state once it is one of these."""
        until = time.monotonic() + PATIENT
        while (state := self.state_of(run)) not in states:
            if time.monotonic() > until:
                raise StoryBroke(f"run {run} is {state} and did not become {' or '.join(states)} in {PATIENT:g} s")
            time.sleep(0.2)
        return state


@dataclasses.dataclass
class Agent:
    """The agent's process, and what it said so far."""

    process: subprocess.Popen[str]
    run: int = 0
    said: list[JSON] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[JSON]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: JSON = json.loads(line)
            self.said.append(found)
            self.run = found.get("opened") or found.get("resumed") or self.run
            yield found

    def until(self, what: str) -> JSON:
        """What it said about `what`, as soon as it says so; it is killed if it says nothing of it for too long."""
        late = threading.Timer(PATIENT, self.process.kill)
        late.start()
        try:
            for line in self.lines():
                if what in line:
                    return line
                if "silent" in line:
                    break  # it will say no more
        finally:
            late.cancel()
        raise StoryBroke(f"the agent went no further, without “{what}”: {self.said[-2:]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def agent(stage: Stage, *options: str) -> Iterator[Agent]:
    """An agent at work, gone at the end whatever happens."""
    command = [sys.executable, "-m", "sagaboard.demo.agent", stage.url, *options]
    environment = {**os.environ, "SAGABOARD_TOKEN": stage.cast.agent}
    # A story that is ended from outside runs no `finally`.
    dies_with_us = partial(die_with_parent, os.getpid())
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=dies_with_us)
    try:
        yield Agent(process)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@dataclasses.dataclass
class Played:
    """A story that was played: its run, what the systems read when, and what was in the world's ledger."""

    run: int
    seconds: float
    world: dict[str, JSON]
    ledger: list[JSON]
    more: JSON = dataclasses.field(default_factory=dict)


def red(stage: Stage) -> Played:
    """CI fails at step 5 and the agent dies; the run is undone from its log, and one person is told."""
    began, before = _begin(stage, "red")
    with agent(stage) as runner:
        failed = runner.until("silent")
        if failed["silent"] != "ci":
            raise StoryBroke(f"the agent stopped at {failed['silent']}: {runner.said[-2:]}")
        stage.say("  CI failed at step 5; the agent's process is killed")
        runner.kill()
        run = runner.run
    worst = stage.reading()
    stage.wait_for(run, "failed")
    stage.say(f"  run {run} failed by silence; Tomas opens the preview and presses Compensate")
    with stage.person("tomas") as tomas:
        tomas.press(f"/runs/{run}/compensate/", f"/runs/{run}/compensate/")
    stage.wait_for(run, "compensated")
    stage.say("  undone and verified; Ana sends the correction")
    _send_corrections(stage, run)
    return Played(run, time.monotonic() - began, _readings(stage, before, worst), stage.world.ledger())


def green(stage: Stage) -> Played:
    """CI is green, a reviewer says yes to the two client-facing calls, and everything goes out in order, once."""
    began, before = _begin(stage, "green")
    with agent(stage) as runner:
        runner.until("finished")
    worst = stage.reading()
    _release(stage, runner.run)
    return Played(runner.run, time.monotonic() - began, _readings(stage, before, worst), stage.world.ledger())


def resume(stage: Stage) -> Played:
    """An agent is killed in the middle; a fresh one reads the record, improvises, converges, and finishes the plan."""
    began, before = _begin(stage, "green")
    with agent(stage, "--stop-before", "flag") as runner:
        runner.until("silent")
        stage.say("  the agent is killed after the migration; a fresh one reads the record")
        runner.kill()
    worst = stage.reading()
    with agent(stage, "--run", str(runner.run), "--improvise") as fresh:
        converged = fresh.until("improvised")
        stage.say(f"  it asks for feature/billing-field-2 and gets {converged['improvised']} with the branch that exists")
        fresh.until("finished")
    _release(stage, runner.run)
    more = {"converged": {"status": converged["improvised"], "effect": converged["effect"]}}
    return Played(runner.run, time.monotonic() - began, _readings(stage, before, worst), stage.world.ledger(), more)


def leave_one_failed(stage: Stage) -> int:
    """A third run, failed and not undone, for the visitor to compensate by hand."""
    _begin(stage, "red")
    with agent(stage) as runner:
        runner.until("silent")
    stage.wait_for(runner.run, "failed")
    return runner.run


def _begin(stage: Stage, mood: str) -> tuple[float, JSON]:
    stage.reset()
    stage.scene.pipeline(mood)
    return time.monotonic(), stage.reading()


def _readings(stage: Stage, before: JSON, worst: JSON) -> dict[str, JSON]:
    after = stage.reading()
    return {system: {"before": before[system], "worst": worst[system], "after": after[system]} for system in before}


def _send_corrections(stage: Stage, run: int) -> None:
    from corrections.models import Correction

    for correction in Correction.objects.filter(run=run).open():
        page = correction.get_absolute_url()
        with stage.person("ana") as owner:
            owner.press(f"{page}?confirm=send", f"{page}send/")
        sent = Correction.objects.filter(pk=correction.pk, state="sent")
        _until(sent.all().exists, f"correction {correction.pk} was not sent")


def _release(stage: Stage, run: int) -> None:
    """The checker reports, the reviewer approves what clients will see, and the run goes out."""
    from outbox.models import Item

    tip = stage.scene.reading()["git"]["feature/billing-field"]
    stage.api("PUT", f"/runs/{run}/checks/ci", {"state": "success", "subject": tip}, token=stage.cast.checker)
    stage.wait_for(run, "releasing")
    for item in Item.objects.filter(step__run=run).awaiting().in_order():
        stage.say(f"  Priya approves “{item}”")
        page = item.get_absolute_url()
        with stage.person("priya") as reviewer:
            reviewer.press(f"{page}?confirm=approve", f"{page}approve/")
    stage.wait_for(run, "succeeded")


def _until(holds: Callable[[], bool], complaint: str) -> None:
    until = time.monotonic() + PATIENT
    while not holds():
        if time.monotonic() > until:
            raise StoryBroke(complaint)
        time.sleep(0.2)
