"""Fixtures for all tests: the database as the run-time role sees it, people, and a clean world."""

from __future__ import annotations

import os
import shutil
import time

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection
from django.test import TransactionTestCase

from runs import bell, registry
from runs.models import Run
from tests import checker, factories, ledgers, witness
from tests.site import Site
from tests.tools import world

# Made by migrations, and the same for every test; what people may change of it is put back after each.
RESTORED = ("auth_group", "auth_group_permissions", "accounts_shippedright", "outbox_policy")
KEPT = {"django_migrations", "django_content_type", "auth_permission", *RESTORED}

# Locked as TRUNCATE locks, but without its new files for every table and index, which take ten times as long.
EMPTY = f"""
DO $$ DECLARE
    kept text[] = ARRAY{sorted(KEPT)};
    one text;
    emptied text[] = ARRAY(SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL (kept) ORDER BY 1);
BEGIN
    EXECUTE 'LOCK TABLE ' || array_to_string(emptied, ', ') || ' IN EXCLUSIVE MODE';
    FOREACH one IN ARRAY emptied LOOP EXECUTE 'DELETE FROM ' || one; END LOOP;
    DELETE FROM witness.moves;
    {" ".join(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM witness.{table};" for table in RESTORED)}
    PERFORM setval(quote_ident(sequencename), 1, false) FROM pg_sequences
    WHERE schemaname = 'public' AND last_value IS NOT NULL AND replace(sequencename, '_id_seq', '') <> ALL (kept);
END $$"""

# A password that is slow to guess is slow to make, a fifth of a second each. Servers in processes of their own still read it.
PBKDF2PasswordHasher.iterations = 1


# Begun first, as one that begins last would go on alone.
LONGEST = ("test_killed_workers", "test_every_page", "test_workers", "test_matrix")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup):
    """After the owner has migrated, the tests speak to the database as web and workers do."""
    owner = dict(connection.settings_dict["OPTIONS"])
    connection.owner_url = _url()
    witness.install(connection.owner_url)
    with psycopg.connect(connection.owner_url, autocommit=True) as made:
        for table in RESTORED:
            made.execute(f"CREATE TABLE witness.{table} AS TABLE {table}")
    connection.settings_dict["OPTIONS"]["options"] += f" -c role={settings.RUNTIME_ROLE}"
    connection.close()
    # Child processes of tests are web and workers, on this test database.
    os.environ.pop("SAGABOARD_AS_OWNER", None)
    os.environ["DATABASE_URL"] = connection.owner_url
    yield
    connection.close()
    connection.settings_dict["OPTIONS"] = owner


def _url() -> str:
    where = connection.settings_dict
    return f"postgresql://{where['USER']}:{where['PASSWORD']}@{where['HOST']}:{where['PORT']}/{where['NAME']}"


@pytest.fixture(autouse=True)
def _clean_world():
    world.clear()
    yield


# Set up right after the database, so that it looks when everything of the test has ended but the rows are still there.
@pytest.fixture(autouse=True)
def _checked(request, _clean_world):
    """Whatever runs the test left behind, the laws of tests/checker.py hold for them."""
    uses_rows = request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(request.fixturenames)
    if not uses_rows:
        yield
        return
    request.getfixturevalue("_django_db_helper")
    checker.FORGED.clear()
    began, before = time.time(), Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    yield
    site = _site_of(request.node.funcargs.values())
    if connection.needs_rollback:
        return
    try:
        if site is not None:
            checker.check(ledgers.of_world(site.world, began), since=before, overdue_after=OVERDUE)
        else:
            checker.check(ledgers.of_tools(), since=before)
    except AssertionError as exc:
        pytest.fail(str(exc), pytrace=False)


# Seconds that a sweep may be late on a machine that is busy with other tests.
OVERDUE = 30.0


def _site_of(fixtures):
    """The running product, if the test had one, by itself or on its stage."""
    found = [getattr(one, "site", one) for one in fixtures]
    return next((one for one in found if isinstance(one, Site)), None)


def empty_tables():
    """Empties the tables as their owner: the log refuses it otherwise, also to tests."""
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        for again in (True, True, True, False):
            try:
                owner.execute(EMPTY)
                break
            except psycopg.errors.DeadlockDetected:
                # The workers of a site that still runs lock in an order of their own.
                if not again:
                    raise
    registry.sync()


TransactionTestCase._fixture_teardown = lambda self: empty_tables()


@pytest.fixture
def team(db):
    return factories.make_team("billing")


@pytest.fixture
def alice(team):
    """May decide, compensate and settle in the team."""
    return factories.make_user("alice", roles=("reviewer", "on-call", "owner"), team=team, first_name="Alice", last_name="Ahn")


@pytest.fixture
def bob(team):
    """Is in the team and has no role."""
    return factories.make_user("bob", team=team)


@pytest.fixture
def token(team):
    return factories.make_token(team=team)


@pytest.fixture(scope="session")
def chromium():
    found = os.environ.get("SAGABOARD_CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.fail("There is no chromium: apt-get install chromium, or name one by SAGABOARD_CHROMIUM.")
    return found


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args, chromium):
    switches = "no-sandbox disable-gpu disable-quic no-first-run disable-dev-shm-usage disable-background-networking"
    switches += " disable-component-update disable-sync disable-default-apps"
    return {**browser_type_launch_args, "executable_path": chromium, "headless": True, "args": [f"--{s}" for s in switches.split()]}


@pytest.fixture(autouse=True)
def _no_broker_left_over():
    bell.client.cache_clear()
    yield
