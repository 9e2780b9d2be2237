"""What `tests.bench` measures on the running product; imported once the settings can be read."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import httpx

django.setup()

from django.db import connection, transaction  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from runs import registry, services  # noqa: E402
from runs.engine import invoke  # noqa: E402
from runs.engine.compensate import compensate  # noqa: E402
from runs.models import LogEntry  # noqa: E402
from sagaboard.stack import Stack  # noqa: E402
from sagaboard.supervisor import Supervisor  # noqa: E402
from tests.bench import percentiles, side_by_side  # noqa: E402
from tests.factories import make_team, make_token  # noqa: E402
from tests.helpers import commits  # noqa: E402
from tests.store import Size, fill, settle  # noqa: E402

STEPS = 7
# A million log entries.
FULL = Size(runs=20_000, entries=50, waiting=5_000, long=500)


class Bench:
    """The product on a port, and an agent whose runs are undone as soon as they fail."""

    def __init__(self, url: str) -> None:
        registry.sync()
        limits = {"calls_per_minute": 10**9, "open_steps": 10**6, "steps_per_run": 10**6, "patience": 10_000}
        self.url, self.agent = url, make_token(team=make_team(), on_failure="compensate", **limits)

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.agent.text}", "Prefer": "wait=20"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, trust_env=False)

    def run(self, client: httpx.Client, steps: int = STEPS) -> tuple[int, list[float]]:
        """One run of so many steps; its number and how long each took from call to result."""
        plan = planned(steps)
        number = client.post("/runs", json={"title": "bench", "plan": plan}).json()["run"]
        times = []
        for call in plan:
            began = time.perf_counter()
            answer = client.post(f"/runs/{number}/steps", json=call)
            times.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
        return int(number), times

    def steps(self, clients: int, seconds: float) -> tuple[float, list[float]]:
        """Steps a second, and seconds from call to result."""
        open_clients = [self.client() for _ in range(clients)]
        return side_by_side(clients, seconds, lambda number: self.run(open_clients[number])[1])

    def undo(self, steps: int, *, clients: int = 1, seconds: float = 0) -> list[float]:
        """Seconds from the failure of runs of so many steps to the last verified undo, as the log says."""
        open_clients = [self.client() for _ in range(clients)]

        def fail(number: int) -> list[float]:
            client = open_clients[number]
            run, _ = self.run(client, steps)
            client.post(f"/runs/{run}/fail", json={"reason": "bench"})
            while client.get(f"/runs/{run}").json()["state"] != "compensated":
                time.sleep(0.05)
            at = dict(LogEntry.objects.filter(run=run, event__in=["run.failed", "run.compensated"]).values_list("event", "at"))
            connection.close()
            return [(at["run.compensated"] - at["run.failed"]).total_seconds()]

        return side_by_side(clients, seconds, fail)[1] if seconds else fail(0)


@dataclass(frozen=True)
class Row:
    """One figure: what it is, what was measured, and what it should be, smaller or larger being better."""

    name: str
    value: float
    good: float
    must: float
    unit: str = ""
    rises: bool = False

    def __str__(self) -> str:
        reached = [(self.value >= bound) == self.rises or self.value == bound for bound in (self.good, self.must)]
        word = "good" if reached[0] else "enough" if reached[1] else "MISSED"
        return f"{self.name:46}{self.value:>10,.3g} {self.unit:4}{self.good:>8,g}{self.must:>8,g}  {word}"


def measure(folder: Path, base: Callable[[str, int], tuple[float, float]], seconds: float) -> None:
    """Prints the table."""
    stack = Stack(folder / "site", port=8790)
    bench = Bench(stack.url)
    print(f"{'':46}{'measured':>10}     {'good':>8}{'must':>8}", flush=True)
    # Before any worker is there to take the steps.
    _print(_costs(bench.agent))
    with (folder / "log").open("w") as log, Supervisor(folder / "site", stages=lambda: stack.stages()[2:], stream=log, port=8790) as site:
        bench.steps(1, 2)  # warm
        empty = _speed(bench, base, seconds)
        undone = [1000 * statistics.median(bench.undo(100)) for _ in range(3)]
        _print([Row("100 done steps undone and verified", statistics.median(undone), 100, 250, "ms")])
        _print([Row("memory of web, workers and beat (PSS)", _pss(list(site.pids.values())), 250, 350, "MB")])
        print("\nwith 1,000,000 log entries and 20,000 runs more:", flush=True)
        # At once, or the sweep of the running site finds runs whose log isn't written yet.
        with transaction.atomic(), connection.cursor() as cursor:
            fill(cursor, FULL)
        with connection.cursor() as cursor:
            settle(cursor)
        full = _speed(bench, base, seconds)
        shares = zip(full, empty, (1, 16), strict=True)
        _print(
            [
                Row(f"share of the base, over empty, {clients} clients", now / before, 0.95, 0.85, "", True)
                for now, before, clients in shares
            ]
        )


def _speed(bench: Bench, base: Callable[[str, int], tuple[float, float]], seconds: float) -> list[float]:
    """Prints how fast it is with 1 and 16 clients; the shares of the base, which is measured right before and after."""
    shares = []
    for clients, share, p50, p99, undo in (
        (1, (0.20, 0.10), (2.5, 4.5), (6, 12), (5, 15)),
        (16, (0.10, 0.05), (30, 86), (70, 145), (15, 60)),
    ):
        before = base(os.environ["DATABASE_URL"], clients)[0]
        rate, times = bench.steps(clients, seconds)
        bare = (before + base(os.environ["DATABASE_URL"], clients)[0]) / 2
        shares.append(rate / bare)
        half, most = percentiles(times)
        undone = 1000 * statistics.median(bench.undo(4, clients=clients, seconds=seconds / 2))
        print(f"{clients} clients: {rate:,.0f} steps/s, the base {bare:,.0f}", flush=True)
        _print([
            Row("  steps/s as a share of the base", rate / bare, *share, "", rises=True),
            Row("  call to result, p50", half, *p50, "ms"),
            Row("  call to result, p99", most, *p99, "ms"),
            Row("  failure to 4 undone and verified, p50", undone, *undo, "ms"),
        ])  # fmt: skip
    return shares


def _costs(token: Any) -> list[Row]:
    """What a step costs whatever the machine, in this process and so without the web's and the sweep's own."""
    steps = 100
    run_here(token, steps)  # later pages of the same tables, so that the first writes after a checkpoint don't count
    (asked, done, undone), (forward, back) = run_here(token, steps)
    trips = [f"{len(captured) / steps:.1f}" for captured in (asked, done, undone)]
    print("round trips to the database: request {}, do {}, undo {}".format(*trips))
    return [
        Row("write commits, request and do", (commits(asked) + commits(done)) / steps, 3, 3),
        Row("write commits, undo", (commits(undone) - 2) / steps, 2, 2),
        Row("WAL of a request and a do", forward / steps, 1500, 2500, "B"),
        Row("WAL of an undo", back / steps, 1500, 2500, "B"),
    ]


def run_here(token: Any, steps: int) -> tuple[list[CaptureQueriesContext], tuple[int, int]]:
    """A run that is asked for, done and undone in this process: its queries of each part, and the bytes of WAL there and back."""
    plan = planned(steps)
    run = services.open_run(token=token, title="bench", owner=token.person.username, plan=plan).run
    begun = _wal()
    with CaptureQueriesContext(connection) as asked:
        for call in plan:
            services.request_step(run, token=token, **call)
    asked_for = list(run.steps.as_planned())
    with CaptureQueriesContext(connection) as done:
        for step in asked_for:
            invoke.invoke(run.pk, step.pk)
    there = _wal()
    services.fail_run(run, token=token, reason="bench")
    with CaptureQueriesContext(connection) as undone:
        compensate(run.pk)
    return [asked, done, undone], (there - begun, _wal() - there)


def planned(steps: int) -> list[dict[str, Any]]:
    return [{"ref": f"s{n}", "capability": "count", "args": {"name": f"s{n}"}} for n in range(steps)]


def _print(rows: list[Row]) -> None:
    for row in rows:
        print(row, flush=True)


def _wal() -> int:
    """Bytes of write-ahead log so far."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])


def family(pids: list[int]) -> set[int]:
    """These processes and all below them."""
    found = set(pids)
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _read(entry / "status")):
            parent = re.search(r"PPid:\s+(\d+)", status)
            children.setdefault(int(parent[1]) if parent else 0, []).append(int(entry.name))
    waiting = list(pids)
    while waiting:
        below = children.get(waiting.pop(), [])
        found |= set(below)
        waiting += below
    return found


def _pss(pids: list[int]) -> float:
    """Megabytes of these processes and all below them, shared pages counted once."""
    total = 0
    for pid in family(pids):
        found = re.search(r"^Pss:\s+(\d+)", _read(Path(f"/proc/{pid}/smaps_rollup")), re.M)
        total += int(found[1]) if found else 0
    return total / 1024


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
