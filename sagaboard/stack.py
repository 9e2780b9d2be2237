"""What runs where all of sagaboard is on one machine: the servers that nobody named, migrations, workers, beat, web."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sagaboard import embedded
from sagaboard.env import BASE, words
from sagaboard.processes import CannotStart, Process
from sagaboard.secrets_file import secret_key, write_private

# Two workers, so that a compensation never waits behind steps.
WALK_QUEUES = "walks,corrections"
WALKERS = 2

Stages = list[list[Process]]


@dataclass
class Stack:
    """The list of processes, once `stages` is called with the state folder held."""

    state: Path
    port: int = 8000
    workers: int = 2  # so many steps are done at a time
    web: bool = True
    work: bool = True
    beat: bool = True
    urls: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.port}"

    def stages(self) -> Stages:
        """What has to be ready before the next begins. It ends in the reverse order: web, beat, workers, the servers."""
        if self.web and not embedded.is_free(self.port):
            raise CannotStart(f"Port {self.port} is taken by another program: name another with --port.")
        servers = self._servers()
        write_private(self.state / "urls.json", json.dumps(self.urls))
        secret_key(self.state)
        return [[server.process for server in servers], [self._migrate()], self._application()]

    def _servers(self) -> list[embedded.Server]:
        """Of our own, those whose URL the environment does not give."""
        embedders = {"DATABASE_URL": embedded.postgres, "REDIS_URL": embedded.valkey}
        self.urls = {name: os.environ[name] for name in embedders if os.environ.get(name)}
        servers = {name: lay_out(self.state) for name, lay_out in embedders.items() if name not in self.urls}
        self.urls |= {name: server.url for name, server in servers.items()}
        return list(servers.values())

    def _application(self) -> list[Process]:
        processes = []
        if self.work:
            steps = ",".join(["steps", *words("SAGABOARD_QUEUES", [])])
            processes += [self._worker("steps", steps, self.workers), self._worker("walks", WALK_QUEUES, WALKERS)]
        if self.beat:
            processes.append(self._celery("beat", "beat", ["--schedule", self.state / "beat-schedule", "--pidfile="], app="sagaboard.beat"))
        if self.web:
            processes.append(self._web())
        return processes

    def _migrate(self) -> Process:
        argv = [sys.executable, "manage.py", "migrate", "--no-input"]
        return self._process("migrate", argv, once=True, start_timeout=3600)

    def _web(self) -> Process:
        bind = f"127.0.0.1:{self.port}"
        options = ["--config", "python:sagaboard.gunicorn_conf", "--bind", bind]
        argv = [sys.executable, "-m", "gunicorn", *options, "sagaboard.wsgi:application"]
        return self._process("web", argv, ready=partial(is_healthy, self.port), stop_timeout=20)

    def _worker(self, name: str, queues: str, concurrency: int) -> Process:
        """A worker with its pool. It is given time to bring a step to its end; what is cut short, the sweep finds."""
        ready_file = self.state / f"worker-{name}.ready"
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        load = ["--pool", "prefork", "-O", "fair", "--concurrency", str(concurrency), "--queues", queues]
        return self._celery(
            f"worker-{name}",
            "worker",
            ["--hostname", f"{name}@%h", *load, *quiet],
            {"SAGABOARD_READY_FILE": str(ready_file)},
            role="worker",
            prepare=partial(ready_file.unlink, missing_ok=True),
            ready=ready_file.exists,
            stop_timeout=30,
        )

    def _celery(
        self,
        name: str,
        command: str,
        options: Sequence[str | Path],
        environment: dict[str, str] | None = None,
        *,
        app: str = "sagaboard",
        **more: Any,
    ) -> Process:
        argv = [sys.executable, "-m", "celery", "--quiet", "-A", app, command, "--loglevel", "WARNING", *options]
        # Whoever starts us as root knows it.
        calm = {"PYTHONWARNINGS": f"{os.environ.get('PYTHONWARNINGS', '')},ignore:You're running the worker with".lstrip(",")}
        # Django's checks load every page and form; migrate, before us, has made them.
        lean = {"CELERY_SKIP_CHECKS": "1"}
        return self._process(name, argv, env=self._environment() | calm | lean | (environment or {}), **more)

    def _process(self, name: str, argv: Sequence[str | Path], **more: Any) -> Process:
        return Process(name=name, argv=argv, cwd=BASE, **({"env": self._environment()} | more))

    def _environment(self) -> dict[str, str]:
        """Ours, with the addresses; migrate alone becomes the owner, by itself."""
        ours = {name: value for name, value in os.environ.items() if name != "SAGABOARD_AS_OWNER"}
        fixed = {"SAGABOARD_STATE": str(self.state), "PYTHONUNBUFFERED": "1"}
        return {"SAGABOARD_URL": self.url} | ours | self.urls | fixed


def is_healthy(port: int, path: str = "/healthz") -> bool:
    """Whether what listens there answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
