"""How many connections to PostgreSQL the processes here may hold at once, and whether it lets so many in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from django.core.checks import Warning as CheckWarning
from django.core.checks import register

# For workers, beat, commands, and whoever looks in with psql.
BESIDE_WEB = 40


def needed() -> int:
    """Each thread of each web process keeps one, as each process of a worker does."""
    web = int(os.environ.get("WEB_CONCURRENCY", "1")) * int(os.environ.get("SAGABOARD_WEB_THREADS", "32"))
    return web + BESIDE_WEB


@register("database")
def postgresql_lets_them_in(app_configs: Any, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckWarning]:
    """Asked at each migration: a server that runs out of them refuses requests only when it is busiest."""
    if "default" not in (databases or ()):
        return []
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int")
        (most,) = cursor.fetchone()
    if needed() <= most:
        return []
    says = f"Web and workers here may hold {needed()} connections to PostgreSQL, which lets {most} in: at the busiest hour requests fail."
    hint = "Raise its max_connections, or lower WEB_CONCURRENCY or SAGABOARD_WEB_THREADS."
    return [CheckWarning(says, hint=hint, id="sagaboard.W01")]
