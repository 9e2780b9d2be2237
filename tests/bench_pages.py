"""`python -m tests.bench_pages`: how long pages take in a store as it is after years, and what 200 open ones cost that keep asking."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store import Filled

LOOKS = int(os.environ.get("BENCH_LOOKS", "20"))
OPEN, SECONDS = 200, 15.0
PAGES = [
    "/runs/", "/runs/?state=needs", "/runs/?state=visible", "/runs/?q=field+777", "/runs/?before=1010000", "/runs/{long}/",
    "/runs/{long}/steps/", "/runs/{long}/compensate/?look=later", "/runs/{long}/log/", "/runs/{long}/report/", "/runs/{waiting}/",
    "/runs/{failed}/", "/runs/{failed}/compensate/?look=later", "/runs/{stuck}/steps/3/", "/runs/{done}/", "/runs/{done}/report/",
    "/outbox/", "/outbox/?q=client", "/outbox/?decided", "/outbox/{item}/", "/outbox/{item}/evidence/", "/corrections/",
    "/corrections/{correction}/", "/capabilities/", "/capabilities/show_thing/", "/audit/", "/audit/?who=Rita",
    "/audit/?event=step.requested", "/go/?q=BILL-777", "/me/",
]  # fmt: skip


def main() -> None:
    from tests.bench import prepare

    with tempfile.TemporaryDirectory(prefix="sagaboard-bench-") as folder:
        Path(folder).chmod(0o711)
        prepare(Path(folder))
        os.environ["SAGABOARD_CAPABILITIES"] = "tests.tools"
        from django.db import connection, transaction

        import tests.bench_site  # reads the settings
        from runs import registry
        from sagaboard.stack import Stack
        from sagaboard.supervisor import Supervisor
        from tests.store import fill, settle

        registry.sync()
        with transaction.atomic(), connection.cursor() as cursor:
            filled = fill(cursor, tests.bench_site.FULL)
        with connection.cursor() as cursor:
            settle(cursor)
        home = Path(folder) / "site"
        stack = Stack(home, port=8792)
        with (Path(folder) / "log").open("w") as log, Supervisor(home, stages=lambda: stack.stages()[2:], stream=log, port=8792) as site:
            measure(stack.url, filled, [pid for name, pid in site.pids.items() if "web" in name])


def measure(url: str, filled: Filled, pids: list[int]) -> None:
    """Prints a line a page, and one about the open pages."""
    import httpx

    with httpx.Client(base_url=url, cookies=_cookies(filled.person), timeout=60, trust_env=False) as client:
        print(f"{'':46}{'p50':>8}{'p95':>8}  ms", flush=True)
        for path in PAGES:
            times = [_took(client, path.format(**vars(filled))) for _ in range(LOOKS + 1)][1:]
            half, most = 1000 * statistics.median(times), 1000 * statistics.quantiles(times, n=20)[18]
            print(f"{path:46}{half:8.0f}{most:8.0f}  {'' if most < 300 else 'MISSED'}", flush=True)
        polls = [_poll_of(client, path.format(**vars(filled))) for path in ("/runs/", "/runs/{waiting}/", "/outbox/", "/corrections/")]
    before, began = _cpu(pids), time.monotonic()
    times = asyncio.run(_all_open(url, _cookies(filled.person), polls))
    share = (_cpu(pids) - before) / (time.monotonic() - began)
    rate, most = len(times) / SECONDS, 1000 * statistics.quantiles(times, n=20)[18]
    print(f"{OPEN} open pages: {rate:.0f} requests/s, p95 {most:.0f} ms, {100 * share:.0f} % of one core for the web processes", flush=True)


def _took(client: Any, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    said = answer.status_code, answer.headers.get("location", "")
    assert said == (200, "") or (path.startswith("/go/") and said[1].startswith("/runs/")), (path, said)
    return time.perf_counter() - began


def _cookies(person: Any) -> dict[str, str]:
    from django.test import Client

    client = Client()
    client.force_login(person)
    return {"sessionid": client.cookies["sessionid"].value}


def _poll_of(client: Any, path: str) -> tuple[str, float]:
    """What the page asks, and after how many seconds again."""
    found = re.search(r'<div[^>]*data-poll="(\d+)"[^>]*\shx-get="([^"]*)"', client.get(path).text)
    assert found, path
    return found[2].replace("&amp;", "&"), float(found[1])


async def _all_open(url: str, cookies: dict[str, str], polls: list[tuple[str, float]]) -> list[float]:
    import httpx

    limits = httpx.Limits(max_connections=OPEN)
    headers = {"HX-Request": "true"}
    async with httpx.AsyncClient(base_url=url, cookies=cookies, headers=headers, limits=limits, timeout=30, trust_env=False) as client:
        ends = time.monotonic() + SECONDS
        pages = [_one_open(client, *polls[number % len(polls)], number / OPEN, ends) for number in range(OPEN)]
        return [took for times in await asyncio.gather(*pages) for took in times]


async def _one_open(client: Any, poll: str, every: float, after: float, ends: float) -> list[float]:
    times = []
    await asyncio.sleep(after * every)
    while time.monotonic() < ends:
        began = time.perf_counter()
        await client.get(poll)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(max(every - times[-1], 0))
    return times


def _cpu(pids: list[int]) -> float:
    """Seconds of processor that these and all below them have used."""
    from tests.bench_site import family

    total = 0
    for pid in family(pids):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
