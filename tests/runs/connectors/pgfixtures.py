"""Real PostgreSQL for tests: a cluster, databases of one's own in it, and folders of Alembic scripts."""

import contextlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url

from runs.capability import Call
from runs.connectors.migration import RunMigration
from sagaboard import embedded

ENV = """
from alembic import context
context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
"""
SCRIPT = """
from alembic import op
revision = {revision!r}
down_revision = {down!r}
def upgrade():
{upgrade}
def downgrade():
{downgrade}
"""
FIRST = ["CREATE TABLE invoices (id int PRIMARY KEY, number text NOT NULL)"]
SECOND = ["ALTER TABLE invoices ADD mode text NOT NULL DEFAULT 'seat'", "CREATE INDEX by_mode ON invoices (mode)"]
SECOND_DOWN = ["DROP INDEX by_mode", "ALTER TABLE invoices DROP mode"]


@pytest.fixture(scope="session")
def cluster_url():
    """The owner's URL of a PostgreSQL: the session's, or else one that is started for these tests."""
    if url := os.environ.get("DATABASE_OWNER_URL") or os.environ.get("DATABASE_URL"):
        yield url
        return
    # Not below pytest's own folder: as root PostgreSQL runs as somebody who can't get in there.
    state = Path(tempfile.mkdtemp(prefix="sagaboard-test-", dir="/var/tmp"))
    state.chmod(0o711)
    servers = embedded.start(state)
    yield servers.database_url
    servers.stop()
    shutil.rmtree(state, ignore_errors=True)


@contextlib.contextmanager
def connected(url, **options):
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool, **options)
    with engine.connect() as connection:
        yield connection


@dataclass
class Database:
    """A database with a folder of scripts, and what somebody else may do to them."""

    url: str
    folder: Path
    revisions: list = field(default_factory=list)

    def sql(self, *statements):
        """Rows of the last statement, if it gives any."""
        with connected(self.url) as connection, connection.begin():
            for statement in statements:
                result = connection.exec_driver_sql(statement)
            return result.fetchall() if result.returns_rows else []

    def script(self, revision, up, down=(), *, after=None):
        """A migration of SQL statements, or of a text of Python, behind the last one."""
        after = after or (self.revisions[-1] if self.revisions else None)
        code = SCRIPT.format(revision=revision, down=after, upgrade=_body(up), downgrade=_body(down))
        (self.folder / "versions" / f"{revision}.py").write_text(code)
        self.revisions.append(revision)

    def env(self, text):
        (self.folder / "env.py").write_text(text)

    def revision(self):
        rows = self.sql("SELECT version_num FROM alembic_version")
        return rows[0][0] if rows else None

    def columns(self, table="invoices"):
        rows = self.sql(f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position")
        return [name for (name,) in rows]


def _body(steps):
    lines = steps.splitlines() if isinstance(steps, str) else [f"op.execute({step!r})" for step in steps] or ["pass"]
    return "\n".join(f"    {line}" for line in lines)


@pytest.fixture
def fresh(cluster_url):
    """The URL of an empty database of one's own."""
    name = f"t_{secrets.token_hex(6)}"
    with connected(cluster_url, isolation_level="AUTOCOMMIT") as owner:
        owner.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0")
        yield make_url(cluster_url).set(database=name).render_as_string(hide_password=False)
        owner.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(fresh, tmp_path, settings):
    """At revision 0001, with 0002 waiting."""
    (tmp_path / "scripts" / "versions").mkdir(parents=True)
    database = Database(fresh, tmp_path / "scripts")
    settings.SAGABOARD_TARGETS = {"staging": {"system": "postgresql", "database_url": fresh, "script_location": str(database.folder)}}
    database.env(ENV)
    database.script("0001_invoices", FIRST, ["DROP TABLE invoices"])
    done(migration("0001_invoices"))
    database.sql("DELETE FROM sagaboard_marks.migrations")
    database.script("0002_mode", SECOND, SECOND_DOWN)
    return database


def migration(revision="head", *, timeout=20.0):
    return Call(args=RunMigration.Args(revision=revision), key="k", run=7, step=3, timeout=timeout)


def prepared(call):
    return replace(call, prepared=RunMigration().prepare(call))


def done(call):
    call = prepared(call)
    return replace(call, effect=RunMigration().do(call))
