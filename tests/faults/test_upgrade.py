"""Faults of upgrading: a database full of real rows, while processes of the release before still write to it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.apps import apps
from django.db import connection, connections
from django.db.migrations import AddField
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

OURS = ("accounts", "runs", "outbox", "corrections")
# Where the release before this one stood.
BEFORE = [("accounts", "0003_reviewers_of_teams"), ("runs", "0006_steps_are_updated_in_place"), ("outbox", "0006_notices")]
BEFORE.append(("corrections", "0003_wording_places_and_follow_ups"))
ENTRIES = 200_000
LONGEST = 2.0


def test_ops_04_what_a_release_adds_an_older_one_can_leave_out():
    migrations = MigrationLoader(None).disk_migrations.items()
    added = {
        (app, operation.model_name, operation.name)
        for (app, _), migration in migrations
        if app in OURS and not migration.initial and not migration.name.endswith("_initial")
        for operation in migration.operations
        if isinstance(operation, AddField)
    }
    fields = {(app, model, name): apps.get_model(app, model)._meta.get_field(name) for app, model, name in added}
    assert len(fields) > 20
    assert [at for at, field in fields.items() if not field.null and not field.has_db_default()] == []


@pytest.fixture
def old(django_db_blocker, django_db_setup):
    """A database of the release before, on the tests' own server: {"alias", "url"}."""
    url, name = connection.owner_url, "upgraded"
    where = {**connection.settings_dict, "NAME": name, "OPTIONS": {}}
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        owner.execute(f"CREATE DATABASE {name}")
    connections.databases["upgraded"] = where
    with django_db_blocker.unblock():
        MigrationExecutor(connections["upgraded"]).migrate(BEFORE)
    yield {"alias": "upgraded", "url": url.rpartition("/")[0] + f"/{name}"}
    connections["upgraded"].close()
    del connections["upgraded"]
    del connections.databases["upgraded"]
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Writer:
    """A process of the release before: it opens runs, writes steps and entries, and changes both, with the columns it knows."""

    def __init__(self, url: str, columns: dict[str, list[str]]) -> None:
        self.url, self.columns = url, columns
        self.ended, self.longest, self.rounds = threading.Event(), 0.0, 0

    def work(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as old:
            while not self.ended.is_set():
                began = time.monotonic()
                self.round(old)
                self.longest = max(self.longest, time.monotonic() - began)
                self.rounds += 1

    def round(self, old: psycopg.Connection) -> None:
        run = self._copy(old, "runs_run", {"id": "(SELECT max(id) + 1 FROM runs_run)", "nonce": "gen_random_uuid()"})
        of_run = {"id": "(SELECT max(id) + 1 FROM runs_step)", "run_id": str(run), "key": f"'k{run}'", "ref": "NULL"}
        step = self._copy(old, "runs_step", of_run)
        old.execute(
            "INSERT INTO runs_logentry (run_id, step_id, event, actor, data) VALUES (%s, %s, 'step.requested', 'engine', '{}')", [run, step]
        )
        old.execute("UPDATE runs_step SET state = 'failed', ended_at = now() WHERE id = %s", [step])
        old.execute("UPDATE runs_run SET last_heard_at = now() WHERE id = %s", [run])
        assert old.execute("SELECT count(*) FROM runs_logentry WHERE run_id = %s", [run]).fetchone() == (1,)

    def _copy(self, old: psycopg.Connection, table: str, fields: dict[str, str]) -> int:
        """Inserts a row like the first one, naming only the columns that the release before knows."""
        names = self.columns[table]
        values = sql.SQL(", ").join(sql.SQL(fields[name]) if name in fields else sql.Identifier(name) for name in names)
        into = sql.SQL(", ").join(map(sql.Identifier, names))
        statement = "INSERT INTO {0} ({1}) SELECT {2} FROM {0} ORDER BY id LIMIT 1 RETURNING id"
        return old.execute(sql.SQL(statement).format(sql.Identifier(table), into, values)).fetchone()[0]


def _columns(old: psycopg.Connection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_name IN ('runs_run', 'runs_step') ORDER BY 1, 2"
    for table, name in old.execute(query):
        found.setdefault(table, []).append(name)
    return found


def _fill(old: psycopg.Connection) -> None:
    """Two hundred thousand entries of open runs, with odd but legal values."""
    old.execute("INSERT INTO accounts_team (name) VALUES ('billing')")
    _row(old, "accounts_user", username="ana", password="!", email="")
    _row(old, "runs_run", title="Ä𝄞 odd", agent="runner", state="open", team_id=1, owner_id=1)
    _row(old, "runs_step", run_id=1, number=1, capability="put_thing", kind="reversible", audience="machines", state="requested", key="k")
    old.execute("SET session_replication_role = replica")
    old.execute(
        "INSERT INTO runs_logentry (run_id, seq, at, event, step_id, actor, data, hash)"
        " SELECT 1, n, now(), 'step.requested', 1, 'engine', '{\"odd\": null}', '' FROM generate_series(1, %s) n",
        [ENTRIES],
    )
    old.execute("SET session_replication_role = origin")


def _row(old: psycopg.Connection, table: str, **given: object) -> None:
    """A row with these values, and something empty in every other column that must hold something."""
    empty = {"character varying": "", "text": "", "boolean": True, "jsonb": "[]", "integer": 1, "bigint": 1, "smallint": 1}
    wanted = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s AND is_nullable = 'NO'"
    for name, kind in old.execute(wanted + " AND column_default IS NULL AND is_identity = 'NO'", [table]).fetchall():
        given.setdefault(name, "now" if kind.startswith("timestamp") else empty.get(kind))
    if table == "runs_run":
        given["nonce"] = "9b2f9a5e-0000-4000-8000-000000000001"
    into, values = sql.SQL(", ").join(map(sql.Identifier, given)), sql.SQL(", ").join([sql.Placeholder()] * len(given))
    old.execute(sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(sql.Identifier(table), into, values), list(given.values()))


@pytest.mark.django_db(transaction=True)
def test_ops_04_old_processes_write_while_a_full_database_is_upgraded_and_after(old, django_db_blocker):
    with psycopg.connect(old["url"], autocommit=True) as known:
        _fill(known)
        writer = Writer(old["url"], _columns(known))
        with ThreadPoolExecutor(1) as pool:
            ends = pool.submit(writer.work)
            try:
                while writer.rounds < 5 and not ends.done():
                    time.sleep(0.01)
                with django_db_blocker.unblock():
                    executor = MigrationExecutor(connections[old["alias"]])
                    executor.migrate(executor.loader.graph.leaf_nodes())
                upgraded = writer.rounds
                while writer.rounds < upgraded + 5 and not ends.done():
                    time.sleep(0.01)
            finally:
                writer.ended.set()
            ends.result()
        assert writer.longest < LONGEST
        # Rolled back, a process that never heard of the newest columns goes on where it was.
        writer.columns["runs_step"] = [name for name in writer.columns["runs_step"] if name not in ("touches", "worker", "tidied_at")]
        writer.round(known)
        assert known.execute("SELECT count(*) FROM runs_logentry WHERE run_id = 1").fetchone() == (ENTRIES,)
        assert known.execute("SELECT state FROM runs_run WHERE id = 1").fetchone() == ("open",)
