"""One folder of Alembic scripts, run up and down on a connection that is given: in our transaction, under our lock.

The folder's `env.py` is run as Alembic would, since naming conventions and the like are said there; it must use the
connection of `config.attributes["connection"]`, as Alembic's cookbook shows for programs. One that opens a connection of
its own is stopped before the first script.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from sqlalchemy import Connection, text

# Alembic's `op` and `context` are module globals: one migration at a time in a process.
ALEMBIC = threading.Lock()


class Unfit(Exception):
    """The scripts can't do what is asked, in a sentence; nothing was run."""


class Scripts:
    """The scripts of one database, and where it notes how far they ran."""

    def __init__(self, location: str, *, version_table: str = "alembic_version", schema: str | None = None) -> None:
        self.config = Config(stdout=io.StringIO())
        # "%" would be interpolated by the config parser.
        self.config.set_main_option("script_location", location.replace("%", "%%"))
        self.options = {"version_table": version_table, "version_table_schema": schema}
        self.version_table = f"{schema}.{version_table}" if schema else version_table
        with _said():
            self.directory = ScriptDirectory.from_config(self.config)

    def current(self, connection: Connection) -> str | None:
        """The revision the database is at; None before the first."""
        heads = MigrationContext.configure(connection, opts=self.options).get_current_heads()
        if len(heads) > 1:
            raise Unfit(f"The database has several heads ({', '.join(sorted(heads))}): merge them first.")
        return heads[0] if heads else None

    def between(self, current: str | None, revision: str) -> list[str]:
        """The revisions from `current` up to `revision` ("head", a full or a partial one), in the order in which they run."""
        with _said():
            scripts = self.directory.iterate_revisions(revision, current or "base", implicit_base=True)
            return [script.revision for script in scripts][::-1]

    def upgrade(self, connection: Connection, revision: str) -> None:
        self._run(connection, lambda heads: self.directory._upgrade_revs(revision, heads))

    def downgrade(self, connection: Connection, revision: str | None) -> None:
        self._run(connection, lambda heads: self.directory._downgrade_revs(revision or "base", heads))

    def lock_versions(self, connection: Connection) -> None:
        """Whoever migrates without sagaboard waits with writing down its revision until our transaction has ended."""
        quoted = connection.dialect.identifier_preparer.quote
        name = ".".join(quoted(part) for part in self.version_table.split("."))
        if connection.scalar(text("SELECT to_regclass(:name)"), {"name": name}):
            connection.exec_driver_sql(f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")

    def _run(self, connection: Connection, steps: Callable[[Any], Any]) -> None:
        def checked(heads: Any, context: MigrationContext) -> Any:
            if context.connection is not connection:
                raise Unfit("Its env.py opens a connection of its own: it must use config.attributes['connection'].")
            return steps(heads)

        with ALEMBIC, _said():
            self.config.attributes["connection"] = connection
            with EnvironmentContext(self.config, self.directory, fn=checked):
                self.directory.run_env()


@contextmanager
def _said() -> Iterator[None]:
    try:
        yield
    except (CommandError, RevisionError) as exc:
        raise Unfit(f"Alembic: {exc}") from exc
