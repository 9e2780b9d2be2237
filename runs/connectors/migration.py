"""Alembic migrations on a named PostgreSQL database: up as the call, down as its undo, both compared before and after.

Options of a target of the system `postgresql`:

- `database_url`: `postgresql://user@host:port/name`; a password in it, or a `passfile=` option, as libpq reads them.
- `script_location`: the folder with `env.py` and `versions/`, on the workers (see runs.connectors.alembic_scripts).
- `version_table`, `version_table_schema`: where `env.py` names others than Alembic's own.

Up and down are one transaction each, under an advisory lock, and look before they change: at the revision and at a hash
over the whole structure (runs.connectors.pgschema). With them commits a row in `sagaboard_marks.migrations`, a table that
this module makes in that database, so that a migration whose answer was lost is known again, and a colleague's is not mistaken for
ours. The role of the URL needs CREATE on the database for it.

A migration that ends its transaction (`COMMIT`, `autocommit_block`, CREATE INDEX CONCURRENTLY) can't be undone like this:
Alembic's own blocks are refused, and a hand-written COMMIT is reported as unknown.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pydantic

from runs.capability import JSON, Args, Call, Capability
from runs.connectors import migration_marks as marks
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience, Kind

if TYPE_CHECKING:
    from runs.connectors.migration_work import Reading, Work

# Beyond this many objects the effect keeps only the hash over all of them, and drift is told without names.
NAMED_AT_MOST = 2000


def looking(call: Call[Any], **refusal: type[NoEffect | Unreadable]) -> AbstractContextManager[Work]:
    # Alembic and SQLAlchemy cost a process 20 MB and a third of its start, and most never migrate anything.
    from runs.connectors import migration_work

    return migration_work.looking(call, **refusal)


def changing(call: Call[Any]) -> AbstractContextManager[Work]:
    from runs.connectors import migration_work

    return migration_work.changing(call)


class RunMigration(Capability[Any]):
    """Run Alembic migrations on a database, up to a revision."""

    name = "run_migration"
    kind = Kind.COMPENSATABLE
    lives_in = "shared staging DB"
    audience = Audience.MACHINES
    read_by = "machines, other devs"
    undo_cost = "down-migration"
    undo_note = "What was written into the new columns and tables is lost with them."
    undone_when = "schema hash and revision as before"
    title = "run migration"
    identifier = "{revision}"
    timeout = 120.0
    probe_for = 10.0
    undo_repeatable = True
    connector_version = "migration-1"

    class Args(Args):
        revision: str = pydantic.Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
        database: str = "staging"

    def prepare(self, call: Call[Any]) -> JSON:
        with looking(call, refusal=NoEffect) as work:
            now = work.reading()
            steps = work.scripts.between(now.revision, call.args.revision)
            if not steps:
                raise NoEffect(f"“{call.args.database}” is at {now.revision} already: nothing to migrate.")
            return {
                "server": work.server,
                "revision_before": now.revision,
                "revision": steps[-1],
                "steps": steps,
                "hash_before": now.schema.hash,
                "mark": secrets.token_hex(16),
            }

    def do(self, call: Call[Any]) -> JSON:
        ours = call.prepared
        with changing(call) as work:
            if earlier := marks.find(work.connection, ours["mark"]):
                return earlier  # An earlier attempt got through.
            if (now := work.reading()).state != before(call):
                raise NoEffect(f"Changed since the run looked: {differs(call, before(call), now)}. Nothing was migrated.")
            # First, so that it also commits if a script should end the transaction.
            marks.begin(work.connection, ours["mark"], call)
            work.scripts.upgrade(work.connection, ours["revision"])
            effect = self.effect(call, work.reading())
            marks.finish(work.connection, ours["mark"], effect)
        return effect

    @staticmethod
    def effect(call: Call[Any], now: Reading) -> JSON:
        named = now.schema.objects if len(now.schema.objects) <= NAMED_AT_MOST else {}
        ours = {name: call.prepared[name] for name in ("server", "steps", "revision_before", "hash_before")}
        return {**ours, "database": call.args.database, "revision": now.revision, "hash": now.schema.hash, "objects": named}

    def undo(self, call: Call[Any]) -> None:
        with changing(call) as work:
            now = work.reading()
            if now.state == before(call):
                return
            if now.state != after(call) and not (call.over and now.revision == call.prepared["revision"]):
                raise NoEffect(f"Nothing was migrated down: {differs(call, after(call), now)}.")
            work.scripts.downgrade(work.connection, call.prepared["revision_before"])
            marks.remove(work.connection, call.prepared["mark"])

    def verify_undone(self, call: Call[Any]) -> bool:
        with looking(call) as work:
            return work.reading().state == before(call)

    def verify_done(self, call: Call[Any]) -> bool:
        with looking(call) as work:
            return work.reading().state == after(call)

    def probe(self, call: Call[Any]) -> JSON | None:
        if not call.prepared:
            return None  # `do` begins with what `prepare` has allotted.
        with looking(call) as work:
            work.wait_for_others()  # Our own lost attempt may still be at it, on the server.
            mark = marks.find(work.connection, call.prepared["mark"])
            if mark == {}:
                raise Unreadable("A script ended the transaction by itself: part of the migration may have happened.")
            return mark

    def tidy(self, call: Call[Any]) -> None:
        with changing(call) as work:
            marks.remove(work.connection, call.prepared["mark"])

    def drift(self, call: Call[Any]) -> str:
        """Where the database was, where we left it, and where it is now, naming what is different."""
        with looking(call) as work:
            now = work.reading()
            words = [f"before: {label(*before(call))}", f"ours: {label(*after(call))}", f"now: {label(*now.state)}"]
            changes = now.schema.changes(call.effect["objects"]) if call.effect["objects"] else []
            return "; ".join(words) + (f" ({listed(changes)})" if changes else "") + "."

    def touches(self, args: Any) -> list[str]:
        return [f"postgresql:{args.database}:schema"]


def before(call: Call[Any]) -> tuple[str | None, str]:
    return call.prepared["revision_before"], call.prepared["hash_before"]


def after(call: Call[Any]) -> tuple[str | None, str]:
    return call.effect["revision"], call.effect["hash"]


def label(revision: str | None, schema_hash: str) -> str:
    return f"revision {revision or 'none'}, schema {schema_hash[:8]}"


def listed(changes: list[str], *, at_most: int = 8) -> str:
    more = [f"and {len(changes) - at_most} more"] if len(changes) > at_most else []
    return ", ".join(changes[:at_most] + more)


def differs(call: Call[Any], expected: tuple[str | None, str], now: Reading) -> str:
    """In which way the database isn't as expected, as half a sentence."""
    revision, _ = expected
    if now.revision != revision:
        return f"“{call.args.database}” is at revision {now.revision or 'none'}, not {revision or 'none'}"
    changes = now.schema.changes(call.effect.get("objects") or now.schema.objects)
    return f"the structure of “{call.args.database}” was changed by others: {listed(changes) or 'its schema hash differs'}"
