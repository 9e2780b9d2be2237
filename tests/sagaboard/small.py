"""A small stack of real servers with a real gunicorn and a real Celery pool, but without our Django.

`python -m tests.sagaboard.small STATE PORT` supervises it until a signal.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from celery import Celery

from sagaboard import embedded
from sagaboard.env import BASE
from sagaboard.processes import Process
from sagaboard.stack import is_healthy
from sagaboard.supervisor import Supervisor

# Without the Django fix-up, which would look at the models.
# Not as the current app: tests import this module, and the product's tasks would then go to this app's broker.
celery = Celery("small", broker=os.environ.get("REDIS_URL"), fixups=[], set_as_current=False)


@celery.task
def doze(begun: str) -> None:
    """Busy for longer than any test."""
    Path(begun).touch()
    time.sleep(300)


def wsgi(environ, start_response):
    if environ["PATH_INFO"].startswith("/doze"):
        doze(environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def python(name, code, *args, **more):
    """A process that runs a piece of Python."""
    return Process(name=name, argv=[sys.executable, "-c", code, *map(str, args)], cwd=BASE, **more)


def stages(state: Path, port: int) -> list[list[Process]]:
    servers = [embedded.postgres(state), embedded.valkey(state)]
    environ = os.environ | {"REDIS_URL": servers[1].url, "SAGABOARD_READY_FILE": str(state / "ready")}
    gunicorn = ["-m", "gunicorn", "--config", "python:sagaboard.gunicorn_conf", "--bind", f"127.0.0.1:{port}", "tests.sagaboard.small:wsgi"]
    worker = ["-m", "celery", "-A", "tests.sagaboard.small:celery", "worker", "--concurrency=2", "--include=sagaboard.ready_file"]
    common = {"cwd": BASE, "env": environ}
    web = Process(name="web", argv=[sys.executable, *gunicorn], ready=partial(is_healthy, port), **common)
    work = Process(name="worker", argv=[sys.executable, *worker], ready=(state / "ready").exists, **common)
    return [[server.process for server in servers], [work, web]]


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """Pytest's own temporary folders are closed to the user as whom the servers run when we are root."""
    with tempfile.TemporaryDirectory(prefix="sagaboard-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def processes_on(state: Path) -> dict[int, str]:
    """Every process that has something to do with the folder, by its command line, environment or working folder."""
    return {pid: what for pid in _pids() if str(state) in (what := _traits(Path("/proc", str(pid)))) and pid != os.getpid()}


def until(condition, seconds=20):
    """The first true answer; the last one when time is up."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _traits(proc: Path) -> str:
    """A zombie has none."""
    found = []
    for read in (proc / "cmdline").read_text, (proc / "environ").read_text, (proc / "cwd").readlink:
        with suppress(OSError, UnicodeDecodeError):
            found.append(str(read()).replace("\0", " "))
    return " ".join(found)


if __name__ == "__main__":
    where, at = Path(sys.argv[1]), int(sys.argv[2])
    with suppress(KeyboardInterrupt), Supervisor(where, port=at, stages=partial(stages, where, at)) as supervisor:
        supervisor.wait()
