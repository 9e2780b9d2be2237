"""The table `sagaboard_marks.migrations` in a migrated database: by it a run knows its own migration again."""

from __future__ import annotations

import json
from typing import Any, cast

from sqlalchemy import Connection, text

from runs.capability import JSON, Call
from runs.connectors.pgschema import MARKS_SCHEMA

TABLE = f"{MARKS_SCHEMA}.migrations"
CREATE = [
    f"CREATE SCHEMA IF NOT EXISTS {MARKS_SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {TABLE} (
        mark text PRIMARY KEY, run bigint NOT NULL, step bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), effect jsonb)""",
]


def exists(connection: Connection) -> bool:
    return connection.scalar(text("SELECT to_regclass(:name)"), {"name": TABLE}) is not None


def find(connection: Connection, mark: str) -> JSON | None:
    """The effect that committed with this mark; {} if it committed without its end, None if it didn't commit."""
    if not exists(connection):
        return None
    found = connection.scalar(text(f"SELECT coalesce(effect, '{{}}') FROM {TABLE} WHERE mark = :mark"), {"mark": mark})
    return cast(JSON | None, found)


def begin(connection: Connection, mark: str, call: Call[Any]) -> None:
    if not exists(connection):
        for statement in CREATE:
            connection.execute(text(statement))
    values = {"mark": mark, "run": call.run, "step": call.step}
    connection.execute(text(f"INSERT INTO {TABLE} (mark, run, step) VALUES (:mark, :run, :step)"), values)


def finish(connection: Connection, mark: str, effect: JSON) -> None:
    values = {"mark": mark, "effect": json.dumps(effect)}
    connection.execute(text(f"UPDATE {TABLE} SET effect = CAST(:effect AS jsonb) WHERE mark = :mark"), values)


def remove(connection: Connection, mark: str) -> None:
    if exists(connection):
        connection.execute(text(f"DELETE FROM {TABLE} WHERE mark = :mark"), {"mark": mark})
