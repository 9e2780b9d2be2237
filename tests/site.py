"""The whole product as processes of its own, on the test's database: web, workers, beat, and the demo's world as target.

What happened is counted in the world's ledger, never in our tables.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import httpx

from sagaboard.children import Backoff
from sagaboard.demo.client import World, start_world
from sagaboard.demo.targets import targets
from sagaboard.stack import Stack
from sagaboard.supervisor import Supervisor

# Short bounds, so that recovery from a kill takes seconds; what is tested does not depend on them.
BOUNDS = {
    "WEB_CONCURRENCY": "2",
    "SAGABOARD_SWEEP_EVERY": "0.5",
    "SAGABOARD_CALL_TIMEOUT_AT_MOST": "3",
    "SAGABOARD_PATIENCE_AT_MOST": "2",
    "SAGABOARD_LEASE_MARGIN": "1",
    "SAGABOARD_STALLED_AFTER": "4",
}


class Site:
    """`url` of the site, `world` as its target, and the folder in which failpoints are armed."""

    def __init__(self, folder: Path, *, workers: int = 2, bounds: dict[str, str] | None = None, more_targets: Any = None) -> None:
        self.folder, self.failpoints = folder, folder / "failpoints"
        self.failpoints.mkdir(parents=True)
        self.bounds = {**BOUNDS, **(bounds or {})}
        self.workers, self.more_targets = workers, more_targets or {}

    def start(self) -> Site:
        self.world_process, world_url = start_world(self.folder / "world")
        self.world = World(world_url)
        self.targets = {**targets(world_url, self.folder / "world" / "tokens"), **self.more_targets}
        (self.folder / "targets.json").write_text(json.dumps(self.targets))
        self.environment = {
            **self.bounds,
            "SAGABOARD_TARGETS": str(self.folder / "targets.json"),
            "SAGABOARD_FAILPOINTS": str(self.failpoints),
            "SAGABOARD_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
            "SAGABOARD_CAPABILITIES": f"{os.environ['SAGABOARD_CAPABILITIES']},tests.shelf",
        }
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            self._start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        return self

    def _start(self) -> None:
        stack = Stack(self.folder / "state", port=_free_port(), workers=self.workers)
        self.output = (self.folder / "log.txt").open("w")
        # The test's database is migrated already.
        parts = {"stream": self.output, "backoff": Backoff(most=0.5), "port": stack.port}
        self.supervisor = Supervisor(self.folder / "state", stages=lambda: stack.stages()[2:], **parts)
        self.url = stack.url
        self.supervisor.start()

    def stop(self) -> None:
        self.supervisor.stop()
        self.output.close()
        self.world_process.kill()
        self.world_process.wait()
        for stream in (self.world_process.stdin, self.world_process.stdout):
            stream.close()

    def arm(self, point: str, action: str = "kill") -> None:
        # Written beside and renamed, so that no process reads half an action; each beside its own, as cells of a matrix arm at once.
        draft = self.folder / f"{point}.draft"
        draft.write_text(action)
        draft.rename(self.failpoints / point)

    def fired(self) -> list[str]:
        return sorted(path.name.partition(".fired")[0] for path in self.failpoints.glob("*.fired.*"))

    def disarm(self) -> None:
        for path in self.failpoints.iterdir():
            path.unlink()

    def api(self, token: Any, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Authorization": f"Bearer {token.text}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return httpx.request(method, f"{self.url}/api/v1{path}", json=body, headers=sent, timeout=60, trust_env=False)

    def log(self) -> str:
        return (self.folder / "log.txt").read_text()


def until(holds: Any, seconds: float = 60.0, what: str = "it did not happen") -> Any:
    """The first true answer of `holds`."""
    ends = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < ends, f"{what} within {seconds:g} s"
        time.sleep(0.05)
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
