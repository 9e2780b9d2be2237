"""What `tests.bench` measures on the running product; imported once the settings can be read."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import httpx

django.setup()

from django.db import connection  # noqa: E402

from runs import registry  # noqa: E402
from runs.models import Run  # noqa: E402
from sagaboard.stack import Stack  # noqa: E402
from sagaboard.supervisor import Supervisor  # noqa: E402
from tests.bench import percentiles, side_by_side  # noqa: E402
from tests.factories import make_team, make_token  # noqa: E402

STEPS = 7


class Bench:
    """The product on a port, its agent's and its on-call's tokens."""

    def __init__(self, url: str) -> None:
        registry.sync()
        team = make_team()
        limits = {"calls_per_minute": 10**9, "open_steps": 10**6, "steps_per_run": 10**6, "patience": 10_000}
        self.url, self.agent = url, make_token(team=team, **limits)
        self.on_call = make_token(scope="on_call", team=team, calls_per_minute=10**9)

    def client(self, token: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token.text}", "Prefer": "wait=20"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, trust_env=False)

    def run(self, client: httpx.Client, steps: int = STEPS) -> tuple[int, list[float]]:
        """One run of so many steps; its number and how long each took from call to result."""
        plan = [{"ref": f"s{n}", "capability": "count", "args": {"name": f"s{n}"}} for n in range(steps)]
        number = client.post("/runs", json={"title": "bench", "plan": plan}).json()["run"]
        times = []
        for call in plan:
            began = time.perf_counter()
            answer = client.post(f"/runs/{number}/steps", json=call)
            times.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
        return number, times

    def steps(self, clients: int, seconds: float) -> tuple[float, list[float]]:
        open_clients = [self.client(self.agent) for _ in range(clients)]
        return side_by_side(clients, seconds, lambda number: self.run(open_clients[number])[1])

    def undo(self, steps: int) -> float:
        """Seconds from the press to the last verified undo of a run of so many steps."""
        with self.client(self.agent) as agent, self.client(self.on_call) as on_call:
            number, _ = self.run(agent, steps)
            agent.post(f"/runs/{number}/fail", json={"reason": "bench"})
            on_call.post(f"/runs/{number}/compensate", json={})
            while Run.objects.get(pk=number).state != "compensated":
                time.sleep(0.002)
        entries = Run.objects.get(pk=number).entries
        pressed, ended = entries.get(event="run.compensating").at, entries.get(event="run.compensated").at
        return (ended - pressed).total_seconds()


def measure(folder: Path, base: Callable[[str, int], tuple[float, float]], seconds: float) -> None:
    """Prints the table."""
    stack = Stack(folder / "site", port=8790)
    log = (folder / "log").open("w")
    with log, Supervisor(folder / "site", stages=lambda: stack.stages()[2:], stream=log, port=stack.port) as site:
        bench = Bench(stack.url)
        bench.steps(1, 1)  # warm
        print(f"{'':34}{'c=1':>22}{'c=16':>22}")
        rows = [(*base(os.environ["DATABASE_URL"], clients), *bench.steps(clients, seconds)) for clients in (1, 16)]
        _row("base: two commits, steps/s", [f"{rate:,.0f} ({ms:.2f} ms)" for rate, ms, _, _ in rows])
        _row("steps/s", [f"{rate:,.0f}" for _, _, rate, _ in rows])
        _row("  as a share of the base", [f"{rate / base_rate:.3f}" for base_rate, _, rate, _ in rows])
        _row("call to result, p50 / p99 ms", ["{:.1f} / {:.1f}".format(*percentiles(times)) for *_, times in rows])
        _row("undo of 4 / 100 steps, ms", [f"{1000 * bench.undo(4):.0f} / {1000 * bench.undo(100):.0f}", ""])
        _row("commits a step (do), round trips", [_counts(bench), ""])
        _row("memory of web, workers, beat (PSS)", [f"{_pss(list(site.pids.values())):.0f} MB", ""])


def _row(name: str, cells: list[str]) -> None:
    print(f"{name:34}{cells[0]:>22}{cells[1]:>22}", flush=True)


def _counts(bench: Bench) -> str:
    """Write transactions of a do, by the transaction ids that one run of 20 steps uses up."""
    with bench.client(bench.agent) as client:
        plan = [{"ref": f"s{n}", "capability": "count", "args": {"name": f"s{n}"}} for n in range(20)]
        number = client.post("/runs", json={"title": "bench", "plan": plan}).json()["run"]
        before = _next_xid()
        for call in plan:
            client.post(f"/runs/{number}/steps", json=call)
    return f"{(_next_xid() - before) / 20:.2f}"


def _next_xid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return int(cursor.fetchone()[0])


def _pss(pids: list[int]) -> float:
    """Megabytes of these processes and all below them, shared pages counted once."""
    family, total = set(pids), 0
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _read(entry / "status")):
            parent = re.search(r"PPid:\s+(\d+)", status)
            children.setdefault(int(parent[1]) if parent else 0, []).append(int(entry.name))
    waiting = list(pids)
    while waiting:
        below = children.get(waiting.pop(), [])
        family |= set(below)
        waiting += below
    for pid in family:
        found = re.search(r"^Pss:\s+(\d+)", _read(Path(f"/proc/{pid}/smaps_rollup")), re.M)
        total += int(found[1]) if found else 0
    return total / 1024


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
