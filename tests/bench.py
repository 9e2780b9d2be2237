"""`python -m tests.bench`: how fast sagaboard is here, beside the database's own ceiling measured in the same minute.

The base is pgbench doing the two commits an honest step costs (intent, done). Shares of it say more than steps a second,
which are the machine's. Nothing is asserted: a benchmark is read, not passed.
"""

from __future__ import annotations

import atexit
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("BENCH_SECONDS", "5"))
TWO_COMMITS = """
INSERT INTO bench_log (run, kind) VALUES (:client_id, 'intent');
INSERT INTO bench_log (run, kind) VALUES (:client_id, 'done');
"""
TABLE = """
CREATE TABLE IF NOT EXISTS bench_log (
    id bigserial PRIMARY KEY, run int, kind text, at timestamptz DEFAULT now(), data text DEFAULT repeat('x', 200)
)"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sagaboard-bench-") as folder:
        Path(folder).chmod(0o711)
        prepare(Path(folder))
        from tests.bench_site import measure

        measure(Path(folder), base, SECONDS)


def prepare(folder: Path) -> None:
    """Servers of our own and a migrated database, before Django reads its settings."""
    from sagaboard import embedded

    servers = embedded.start(folder / "servers")
    atexit.register(servers.stop)
    os.environ.update(
        DJANGO_SETTINGS_MODULE="sagaboard.settings",
        DATABASE_URL=servers.database_url,
        REDIS_URL=servers.redis_url,
        SAGABOARD_STATE=str(folder),
        # Sessions made here count on the site's pages too.
        SAGABOARD_SECRET_KEY=secrets.token_urlsafe(),
        SAGABOARD_CAPABILITIES="tests.quick",
        SAGABOARD_LOG_LEVEL="ERROR",
    )
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], check=True)


def base(url: str, clients: int) -> tuple[float, float]:
    """Steps a second and milliseconds a step of the bare two commits."""
    import psycopg

    from sagaboard import binaries

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
    script = Path(tempfile.gettempdir()) / f"sagaboard-bench-{os.getpid()}.sql"
    script.write_text(TWO_COMMITS)
    pgbench = binaries.postgres().path.with_name("pgbench")
    command = [pgbench, "-n", "-f", script, "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(max(int(SECONDS), 1)), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    script.unlink()
    rate = float(next(line for line in said.splitlines() if line.startswith("tps")).split()[2])
    return rate, 1000 * clients / rate


def percentiles(times: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    cuts = statistics.quantiles(times, n=100)
    return 1000 * cuts[49], 1000 * cuts[98]


def side_by_side(clients: int, seconds: float, work: Any) -> tuple[float, list[float]]:
    """`work(client)` again and again by so many clients; calls a second, and how long each took."""
    ends = time.monotonic() + seconds

    def client(number: int) -> list[float]:
        times = []
        while time.monotonic() < ends:
            times += work(number)
        return times

    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        times = [one for found in pool.map(client, range(clients)) for one in found]
    return len(times) / (time.monotonic() - began), times


if __name__ == "__main__":
    main()
