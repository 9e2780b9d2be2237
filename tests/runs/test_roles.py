"""The run-time role is made once for a whole server, however many databases are migrated at a time."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from runs import roles
from tests.helpers import meet_after, run_together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def as_owner(settings):
    """The owner's connection, and a role that is not there yet."""
    settings.RUNTIME_ROLE = "sagaboard_other"
    before = dict(connection.settings_dict["OPTIONS"])
    connection.settings_dict["OPTIONS"].pop("options", None)
    connection.close()
    yield settings.RUNTIME_ROLE
    connection.close()
    connection.settings_dict["OPTIONS"] = before
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("DROP OWNED BY sagaboard_other")
        owner.execute("DROP ROLE sagaboard_other")


def test_two_databases_that_are_migrated_at_once_make_the_role_once(as_owner, monkeypatch):
    meet_after(monkeypatch, roles, "_is_missing")
    assert run_together(*[partial(roles.make_if_missing, "default", sql.Identifier(as_owner))] * 2) == [None, None]
    roles.grant_after_migrate()
