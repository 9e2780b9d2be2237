"""The table `sagaboard_marks.migrations` in a migrated database: by it a run knows its own migration again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from runs.capability import JSON, Call

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Not named as a role might be: "$user" in the search path would then put everybody's tables into it.
MARKS_SCHEMA = "sagaboard_marks"
TABLE = f"{MARKS_SCHEMA}.migrations"
CREATE = [
    f"CREATE SCHEMA IF NOT EXISTS {MARKS_SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {TABLE} (
        mark text PRIMARY KEY, run bigint NOT NULL, step bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), effect jsonb)""",
]


def exists(connection: Connection) -> bool:
    return connection.exec_driver_sql("SELECT to_regclass(%(name)s)", {"name": TABLE}).scalar() is not None


def find(connection: Connection, mark: str) -> JSON | None:
    """The effect that committed with this mark; {} if it committed without its end, None if it didn't commit."""
    if not exists(connection):
        return None
    query = f"SELECT coalesce(effect, '{{}}') FROM {TABLE} WHERE mark = %(mark)s"
    return cast(JSON | None, connection.exec_driver_sql(query, {"mark": mark}).scalar())


def begin(connection: Connection, mark: str, call: Call[Any]) -> None:
    if not exists(connection):
        for statement in CREATE:
            connection.exec_driver_sql(statement)
    values = {"mark": mark, "run": call.run, "step": call.step}
    connection.exec_driver_sql(f"INSERT INTO {TABLE} (mark, run, step) VALUES (%(mark)s, %(run)s, %(step)s)", values)


def finish(connection: Connection, mark: str, effect: JSON) -> None:
    values = {"mark": mark, "effect": json.dumps(effect)}
    connection.exec_driver_sql(f"UPDATE {TABLE} SET effect = CAST(%(effect)s AS jsonb) WHERE mark = %(mark)s", values)


def remove(connection: Connection, mark: str) -> None:
    if exists(connection):
        connection.exec_driver_sql(f"DELETE FROM {TABLE} WHERE mark = %(mark)s", {"mark": mark})
