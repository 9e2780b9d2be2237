"""What the world remembers, in one SQLite file that survives kill -9: its things, its ledger of calls, its faults."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JSON = dict[str, Any]

SCHEMA = """
CREATE TABLE IF NOT EXISTS things (kind TEXT, name TEXT, body TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (kind, name));
CREATE TABLE IF NOT EXISTS ledger (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, system TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
  key TEXT NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL, started REAL NOT NULL,
  ended REAL, status INTEGER, effect INTEGER NOT NULL DEFAULT 0, answer TEXT NOT NULL DEFAULT 'none');
CREATE TABLE IF NOT EXISTS faults (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, left INTEGER);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
SHORT = 2000


class Store:
    """Every method may be called from any thread; inside `changing()` several of them are one transaction."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        # In WAL a commit is with the kernel when it returns: it survives any end of this process, not of the machine.
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA)

    @contextmanager
    def changing(self, *, keep: bool = True) -> Iterator[None]:
        """One transaction; with `keep` false it is rolled back, so that what was done in it never happened."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT" if keep else "ROLLBACK")

    def _run(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    # Things: JSON documents by kind and name, listed in the order in which they were first put.
    def get(self, kind: str, name: str) -> JSON | None:
        rows = self._run("SELECT body FROM things WHERE kind = ? AND name = ?", kind, name)
        return json.loads(rows[0]["body"]) if rows else None

    def put(self, kind: str, name: str, body: JSON) -> JSON:
        sql = "INSERT INTO things VALUES (?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body"
        self._run(sql, kind, name, json.dumps(body), self.next("things"))
        return body

    def drop(self, kind: str, name: str) -> None:
        self._run("DELETE FROM things WHERE kind = ? AND name = ?", kind, name)

    def all(self, kind: str) -> list[JSON]:
        return [json.loads(row["body"]) for row in self._run("SELECT body FROM things WHERE kind = ? ORDER BY seq", kind)]

    def next(self, counter: str) -> int:
        """The next number of a counter, from 1."""
        sql = "INSERT INTO counters VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value"
        return int(self._run(sql, counter)[0]["value"])

    # The ledger.
    def arrived(self, *, system: str, method: str, path: str, key: str, digest: str, body: str) -> int:
        """The number of the entry for a call that has just come in, written before anything is done about it."""
        sql = "INSERT INTO ledger (at, system, method, path, key, digest, body, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        return int(self._run(sql, now(), system, method, path, key, digest, body[:SHORT], time.time())[0]["id"])

    def ended(self, entry: int, *, status: int, effect: bool, answer: str) -> None:
        sql = "UPDATE ledger SET ended = ?, status = ?, effect = ?, answer = ? WHERE id = ?"
        self._run(sql, time.time(), status, effect, answer, entry)

    def ledger(self, system: str = "", since: int = 0) -> list[JSON]:
        rows = self._run("SELECT * FROM ledger WHERE id > ? AND (? = '' OR system = ?) ORDER BY id", since, system, system)
        return [{**dict(row), "effect": bool(row["effect"]), "call": f"{row['method']} {row['path']}"} for row in rows]

    # Faults, kept apart from the transaction of a call: a fault that was used up stays so.
    def add_fault(self, body: JSON, times: int | None) -> int:
        return int(self._run("INSERT INTO faults (body, left) VALUES (?, ?) RETURNING id", json.dumps(body), times)[0]["id"])

    def faults(self) -> list[tuple[int, JSON]]:
        rows = self._run("SELECT * FROM faults WHERE left IS NULL OR left > 0 ORDER BY id")
        return [(row["id"], json.loads(row["body"])) for row in rows]

    def use_fault(self, fault: int) -> bool:
        """Whether this fault was still to be had; it is now one time less."""
        return bool(self._run("UPDATE faults SET left = left - 1 WHERE id = ? AND (left IS NULL OR left > 0) RETURNING id", fault))

    def clear_faults(self) -> None:
        self._run("DELETE FROM faults")

    def clear(self) -> None:
        for statement in ("DELETE FROM things", "DELETE FROM ledger", "DELETE FROM faults", "DELETE FROM counters"):
            self._run(statement)


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
