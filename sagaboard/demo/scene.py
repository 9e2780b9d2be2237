"""The demo's systems that are not reached by HTTP: a git repository, a staging database, a CI, and sandboxes for drills."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, NullPool, create_engine, make_url, text

from runs.connectors.alembic_scripts import Scripts
from runs.connectors.pgschema import read_schema
from sagaboard.demo import billing_repo
from sagaboard.env import BASE

SCRIPTS = BASE / "sagaboard" / "demo" / "staging"
BASELINE = "0141_baseline"
BRANCH = "feature/billing-field"
# Says that a database is the demo's. Nothing else is ever dropped, whatever it is called.
OURS = "sagaboard demo: dropped and made anew at will"
MOODS = ("green", "red", "hang", "die")
ROWS = [
    "INSERT INTO customers (name, country) VALUES ('Nordlicht GmbH', 'DE'), ('Atelier Roux', 'FR'), ('Alpha Treuhand', 'CH')",
    "INSERT INTO invoices (customer_id, number, issued, state) SELECT id, 'R-' || id, DATE '2026-10-01' + id::int, 'sent' FROM customers",
    "INSERT INTO invoice_lines SELECT id, n, 'Seat ' || n, 19.90 FROM invoices, generate_series(1, 3) n",
]


@dataclasses.dataclass(frozen=True)
class Scene:
    """`folder` holds the repositories and the CI's switch; the databases lie in the cluster that `owner_url` names.

    `prefix` goes before the names of the databases, so that several scenes fit into one cluster.
    """

    folder: Path
    owner_url: str = dataclasses.field(repr=False)
    prefix: str = ""

    @property
    def repositories(self) -> dict[str, Path]:
        acme = self.folder / "git" / "acme"
        return {"repo": acme / "billing.git", "repo-sandbox": acme / "billing-sandbox.git"}

    @property
    def databases(self) -> dict[str, str]:
        return {"staging": f"{self.prefix}staging", "staging-sandbox": f"{self.prefix}staging_sandbox"}

    def reset(self) -> None:
        """Everything as at the beginning: repositories, databases, a CI that judges by the branch."""
        for repository in self.repositories.values():
            billing_repo.make(repository)
        self.drop()
        for database in self.databases.values():
            self._create(database)
        self.pipeline("green")

    def drop(self) -> None:
        """The databases are gone."""
        for database in self.databases.values():
            with self._cluster() as connection:
                if _comment(connection, database) is not None:
                    _check_ours(connection, database)
                    connection.exec_driver_sql(f'DROP DATABASE "{database}" WITH (FORCE)')

    def targets(self) -> dict[str, Any]:
        """The entries of SAGABOARD_TARGETS for these systems."""
        found: dict[str, Any] = {}
        for name, repository in self.repositories.items():
            found[name] = {"system": "git", "url": repository.as_uri()}
        for name, database in self.databases.items():
            url = self._url(database).set(drivername="postgresql").render_as_string(hide_password=False)
            found[name] = {"system": "postgresql", "database_url": url, "script_location": str(SCRIPTS)}
        for name in ("repo-sandbox", "staging-sandbox"):
            found[name]["sandbox"] = True
        command = [sys.executable, "-m", "sagaboard.demo.pipeline", str(self.folder)]
        return {**found, "ci": {"system": "ci", "command": command, "cwd": str(BASE)}}

    def reading(self) -> dict[str, Any]:
        """What the systems themselves say: every ref with its commit, and the staging database's revision and hash."""
        with self.staging() as connection:
            found = {"revision": Scripts(str(SCRIPTS)).current(connection), "hash": read_schema(connection).hash}
        return {"git": {BRANCH: None, **billing_repo.refs(self.repositories["repo"])}, "staging": found}

    def pipeline(self, mood: str) -> None:
        """What the CI does from now on, one of MOODS (see sagaboard.demo.pipeline)."""
        if mood not in MOODS:
            raise ValueError(f"The pipeline can be {', '.join(MOODS)}; not {mood}.")
        (self.folder / "pipeline").write_text(mood)

    def push(self, branch: str, *, author: str = "Mei Tanaka", subject: str = "Fix a typo") -> str:
        """The hash of a commit that somebody else has put onto `branch`."""
        return billing_repo.add(self.repositories["repo"], billing_repo.Commit(branch, author, subject, {"NOTES": subject}))

    def delete(self, branch: str) -> None:
        """Somebody else has deleted `branch`."""
        billing_repo.git(self.repositories["repo"], "update-ref", "-d", f"refs/heads/{branch}")

    @contextmanager
    def staging(self) -> Iterator[Connection]:
        """The staging database, for somebody else to read and change; commits at the end."""
        with _connected(self._url(self.databases["staging"])) as connection, connection.begin():
            yield connection

    def _create(self, database: str) -> None:
        with self._cluster() as connection:
            # template1 refuses while anybody is connected to it.
            connection.exec_driver_sql(f'CREATE DATABASE "{database}" TEMPLATE template0')
            connection.exec_driver_sql(f"""COMMENT ON DATABASE "{database}" IS '{OURS}'""")
        with _connected(self._url(database)) as connection, connection.begin():
            Scripts(str(SCRIPTS)).upgrade(connection, BASELINE)
            for row in ROWS:
                connection.exec_driver_sql(row)

    @contextmanager
    def _cluster(self) -> Iterator[Connection]:
        with _connected(make_url(self.owner_url)) as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    def _url(self, database: str) -> URL:
        return make_url(self.owner_url).set(database=database)


def build(state: Path, owner_url: str, *, prefix: str = "") -> Scene:
    """The scene below `state`; what is there already is left as it is, and the rest is made."""
    scene = Scene(state / "demo", owner_url, prefix)
    for repository in scene.repositories.values():
        if not (repository / "HEAD").exists():
            billing_repo.make(repository)
    for database in scene.databases.values():
        with scene._cluster() as connection:
            exists = _comment(connection, database) is not None
            if exists:
                _check_ours(connection, database)
        if not exists:
            scene._create(database)
    return scene


@contextmanager
def _connected(url: URL) -> Iterator[Connection]:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def _comment(connection: Connection, database: str) -> str | None:
    """The comment on `database`, "" where it has none; None where there is no such database."""
    query = text("SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = :name")
    found: str | None = connection.scalar(query, {"name": database})
    return found


def _check_ours(connection: Connection, database: str) -> None:
    if _comment(connection, database) != OURS:
        raise RuntimeError(f"There is a database “{database}” that the demo did not make: give the demo another cluster.")
