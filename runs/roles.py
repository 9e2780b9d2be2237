"""The two database roles: the owner migrates; web and workers run as one that owns nothing and can't rewrite the log."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections, transaction
from psycopg import errors, sql

# Only read and added to.
APPEND_ONLY = ("runs_logentry", "runs_storedpayload")
GRANTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
    *(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM {{role}}" for table in APPEND_ONLY),
    "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON django_migrations FROM {role}",
)


def grant_after_migrate(using: str = "default", **kwargs: Any) -> None:
    """Makes the run-time role if need be, and gives it exactly what it may have. Can run any number of times."""
    role = sql.Identifier(settings.RUNTIME_ROLE)
    make_if_missing(using, role)
    with connections[using].cursor() as cursor:
        for grant in GRANTS:
            cursor.execute(sql.SQL(grant).format(role=role))


def make_if_missing(using: str, role: sql.Identifier) -> None:
    """The role, by a superuser or an owner who may make some; RuntimeError says what to do for one who may not."""
    if _is_missing(using):
        _make(using, role)


def _is_missing(using: str) -> bool:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [settings.RUNTIME_ROLE])
        return cursor.fetchone() is None


def _make(using: str, role: sql.Identifier) -> None:
    try:
        with transaction.atomic(using), connections[using].cursor() as cursor:
            cursor.execute(sql.SQL("CREATE ROLE {role} NOLOGIN").format(role=role))
            cursor.execute(sql.SQL("GRANT {role} TO CURRENT_USER").format(role=role))
    except DatabaseError as exc:
        # Roles belong to the whole server: another database of it may have made ours in this very moment.
        if isinstance(exc.__cause__, errors.UniqueViolation | errors.DuplicateObject):
            return
        if not isinstance(exc.__cause__, errors.InsufficientPrivilege):
            raise
        raise RuntimeError(
            f"The database's owner may not create the role {settings.RUNTIME_ROLE}. As a superuser: "
            f"CREATE ROLE {settings.RUNTIME_ROLE} NOLOGIN; GRANT {settings.RUNTIME_ROLE} TO the owner; then migrate again."
        ) from exc
