"""One transaction on a database that is migrated: opened, bounded and locked; what goes wrong becomes a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, NullPool, Transaction, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from runs.capability import Call
from runs.connectors.alembic_scripts import Scripts, Unfit
from runs.connectors.credentials import scrub, short
from runs.connectors.pgschema import Schema, read_schema
from runs.connectors.targets import Target, target
from runs.exceptions import NoEffect, Unreadable

# All migrations by sagaboard of one database take this advisory lock; the number only has to be the same everywhere.
LOCK = 7_305_424_421_098_318_179
# Of a call's timeout. The server's own bounds come first, so that the end is a clean one.
SHARES = {
    "lock_timeout": 0.3,
    "statement_timeout": 0.8,
    "idle_in_transaction_session_timeout": 0.9,
    "transaction_timeout": 0.9,
}
# By SQLSTATE, or by what libpq says of a connection that did not come about.
SENTENCES = {
    "55P03": "Somebody else holds a lock on “{name}”: another migration, or a long transaction. Try again when it has ended.",
    "57014": "“{name}” took longer than this call may take.",
    "25P04": "“{name}” took longer than this call may take.",
    "42501": "The role {user} may not do this on “{name}”: {said}.",
    "authentication failed": "“{name}” refused the credential of {user}: check its database_url.",
    "no password supplied": "“{name}” wants a password for {user}: put it, or a passfile, into its database_url.",
    "Connection refused": "No PostgreSQL answers at {server}: check the database_url of “{name}” and that it runs.",
    "resolve host": "No host is called so in {server}: check the database_url of “{name}”.",
    "timeout expired": "PostgreSQL at {server} does not answer: check the network between it and the workers.",
    "does not exist": "At {server} there is no such thing: {said}.",
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """Where a database is: its revision and its structure."""

    revision: str | None
    schema: Schema

    @property
    def state(self) -> tuple[str | None, str]:
        return self.revision, self.schema.hash


@dataclasses.dataclass
class Work:
    """A connection to the call's database, inside a transaction, and the scripts that migrate it."""

    server: str
    connection: Connection
    scripts: Scripts

    def reading(self) -> Reading:
        schema = read_schema(self.connection, version_table=self.scripts.version_table)
        return Reading(self.scripts.current(self.connection), schema)

    def wait_for_others(self) -> None:
        """No other migration by sagaboard is under way on this database, until our transaction ends."""
        self.connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})

    def limit(self, seconds: float) -> None:
        """The server ends what takes too long, also when this process can't: it may be frozen."""
        wanted = {setting: f"{max(1, int(seconds * share * 1000))}ms" for setting, share in SHARES.items()}
        for setting, value in wanted.items():
            # transaction_timeout came with PostgreSQL 17.
            query = text("SELECT set_config(name, :value, true) FROM pg_settings WHERE name = :name")
            self.connection.execute(query, {"name": setting, "value": value})

    def transaction_id(self) -> str:
        return str(self.connection.scalar(text("SELECT pg_current_xact_id()::text")))


@contextmanager
def looking(call: Call[Any], *, refusal: type[NoEffect | Unreadable] = Unreadable) -> Iterator[Work]:
    """The call's database, read only; whatever keeps it from answering is raised as `refusal`."""
    try:
        with _connected(call) as work:
            work.connection.execution_options(postgresql_readonly=True)
            with work.connection.begin():
                work.limit(call.timeout)
                yield work
    except NoEffect as exc:
        raise refusal(exc.reason) from exc
    except (SQLAlchemyError, Unfit) as exc:
        raise refusal(_sentence(call, exc)) from exc


@contextmanager
def changing(call: Call[Any]) -> Iterator[Work]:
    """The call's database, ours to change until the transaction commits at the end of the block.

    `NoEffect` if it was rolled back, which the server confirms; any other exception means that it can't be told.
    """
    with _connected(call) as work:
        transaction = work.connection.begin()
        ours = ""
        try:
            work.limit(call.timeout)
            ours = work.transaction_id()
            work.wait_for_others()
            work.scripts.lock_versions(work.connection)
            yield work
            if work.transaction_id() != ours:
                raise Unfit("A script ended the transaction that it ran in.")
        except Exception as exc:
            if not _rolled_back(work.connection, transaction, ours):
                raise
            raise NoEffect(exc.reason if isinstance(exc, NoEffect) else _sentence(call, exc)) from exc
        transaction.commit()


def _rolled_back(connection: Connection, transaction: Transaction, transaction_id: str) -> bool:
    """Whether the server says that nothing of the transaction came to be; a script may have committed it."""
    try:
        transaction.rollback()
        if not transaction_id:
            return True
        query = text("SELECT pg_xact_status(CAST(:id AS xid8))")
        return bool(connection.scalar(query, {"id": transaction_id}) == "aborted")
    except SQLAlchemyError:
        return not transaction_id


@contextmanager
def _connected(call: Call[Any]) -> Iterator[Work]:
    """A connection of its own to the call's database, closed afterwards; `NoEffect` in words if there is none."""
    named = target(call.args.database, "postgresql")
    url = _url(named)
    server = f"{url.host or 'localhost'}:{url.port or 5432}/{url.database}"
    if (prepared_on := call.prepared.get("server", server)) != server:
        raise NoEffect(f"This was prepared on {prepared_on}; “{named.name}” is now {server}.")
    try:
        scripts = Scripts(
            str(named["script_location"]),
            version_table=named.get("version_table", "alembic_version"),
            schema=named.get("version_table_schema"),
        )
        arguments = {"connect_timeout": max(2, int(min(10, call.timeout / 3))), "application_name": "sagaboard"}
        connection = create_engine(url, poolclass=NullPool, connect_args=arguments).connect()
    except (SQLAlchemyError, Unfit) as exc:
        raise NoEffect(_sentence(call, exc)) from exc
    with connection:
        yield Work(server, connection, scripts)


def _url(named: Target) -> URL:
    try:
        url = make_url(str(named["database_url"]))
    except ArgumentError:
        url = None
    if url is None or url.drivername.partition("+")[0] not in {"postgres", "postgresql"}:
        raise NoEffect(f"The database_url of “{named.name}” must be postgresql://user@host:port/name.")
    return url.set(drivername="postgresql+psycopg")


def _sentence(call: Call[Any], exc: Exception) -> str:
    """What went wrong, for a person, without the password."""
    if isinstance(exc, Unfit):
        return str(exc)
    url = _url(target(call.args.database, "postgresql"))
    origin = exc.orig if isinstance(exc, DBAPIError) and exc.orig else exc
    said = short(scrub(str(origin).strip(), url.password or "")) or type(origin).__name__
    state = getattr(origin, "sqlstate", None)
    names = {"name": call.args.database, "user": url.username, "server": f"{url.host}:{url.port or 5432}", "said": said}
    for mark, sentence in SENTENCES.items():
        if mark == state or (state is None and mark in said):
            return sentence.format(**names)
    return f"“{call.args.database}” answered {type(origin).__name__}: {said}"
