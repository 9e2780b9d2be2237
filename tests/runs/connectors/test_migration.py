"""Migrations of a real database by real Alembic scripts: up, down, and never over somebody else."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pydantic
import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from runs.connectors import alembic_scripts, migration_work
from runs.connectors.migration import RunMigration
from runs.exceptions import NoEffect, Unreadable
from tests.runs.connectors.gitfixtures import closed_port
from tests.runs.connectors.pgfixtures import FIRST, cluster_url, connected, database, done, fresh, migration, prepared

__all__ = ["cluster_url", "database", "fresh"]
capability = RunMigration()


def marks(database):
    return database.sql("SELECT mark FROM sagaboard_marks.migrations")


# Up and down.


def test_a_migration_goes_up_and_down_and_the_schema_is_as_before(database):
    call = done(migration())
    assert (database.revision(), database.columns()) == ("0002_mode", ["id", "number", "mode"])
    assert call.effect["steps"] == ["0002_mode"] and call.effect["revision_before"] == "0001_invoices"
    assert capability.verify_done(call) and not capability.verify_undone(call)
    capability.undo(call)
    assert (database.revision(), database.columns(), marks(database)) == ("0001_invoices", ["id", "number"], [])
    assert capability.verify_undone(call) and not capability.verify_done(call)


def test_several_revisions_are_one_call_and_one_undo(database):
    database.script("0003_customers", ["CREATE TABLE customers (id int)"], ["DROP TABLE customers"])
    call = done(migration("0003"))
    assert call.effect["steps"] == ["0002_mode", "0003_customers"]
    capability.undo(call)
    assert capability.verify_undone(call) and database.revision() == "0001_invoices"


def test_the_very_first_migration_can_be_undone(database):
    call = done(migration())
    capability.undo(call)
    database.sql("DROP TABLE invoices", "DROP TABLE alembic_version")
    call = done(migration("0001"))
    assert call.effect["revision_before"] is None
    capability.undo(call)
    assert capability.verify_undone(call) and database.columns() == []


def test_asked_twice_it_is_migrated_once_with_one_effect(database):
    call = done(migration())
    assert capability.do(call) == call.effect
    assert len(marks(database)) == 1


def test_an_undo_may_be_repeated(database):
    call = done(migration())
    capability.undo(call)
    capability.undo(call)
    assert capability.verify_undone(call)


def test_an_address_of_the_older_form_will_do(database, settings):
    target = settings.SAGABOARD_TARGETS["staging"]
    target["database_url"] = target["database_url"].replace("postgresql://", "postgres://")
    assert done(migration()).effect["revision"] == "0002_mode"


def test_the_worker_keeps_its_logging_and_its_import_path(database):
    before = (logging.root.level, list(logging.root.handlers), logging.getLogger("alembic").disabled, list(sys.path))
    done(migration())
    assert (logging.root.level, list(logging.root.handlers), logging.getLogger("alembic").disabled, list(sys.path)) == before


# What isn't begun.


@pytest.mark.parametrize("revision", ["+1", "-1", "0001:0002", "a b", "'; --", ""])
def test_only_a_revision_is_a_revision(revision):
    with pytest.raises(pydantic.ValidationError):
        RunMigration.Args(revision=revision)


def test_a_revision_that_is_not_ahead_is_refused(database):
    with pytest.raises(NoEffect, match="No such revision"):
        prepared(migration("0999"))
    done(migration())
    with pytest.raises(NoEffect, match="at 0002_mode already"):
        prepared(migration("head"))
    with pytest.raises(NoEffect):
        prepared(migration("0001_invoices"))


def test_two_heads_in_the_scripts_are_refused_in_words(database):
    database.script("0002_other", [], after="0001_invoices")
    with pytest.raises(NoEffect, match="[Mm]ultiple head"):
        prepared(migration("head"))


def test_what_others_changed_since_prepare_is_not_migrated_over(database):
    call = prepared(migration())
    database.sql("ALTER TABLE invoices ADD memo text")
    with pytest.raises(NoEffect, match="Changed since"):
        capability.do(call)
    assert database.columns() == ["id", "number", "memo"]


def test_a_database_that_others_migrated_since_prepare_is_left_alone(database):
    call = prepared(migration())
    done(migration())
    with pytest.raises(NoEffect, match="at revision 0002_mode, not 0001_invoices"):
        capability.do(call)


def test_a_script_that_fails_half_way_leaves_nothing(database):
    database.script("0003_bad", ["CREATE TABLE half (id int)", "ALTER TABLE nothing ADD x int"])
    call = prepared(migration())
    with pytest.raises(NoEffect, match='relation "nothing" does not exist'):
        capability.do(call)
    assert (database.revision(), database.columns("half")) == ("0001_invoices", [])
    assert capability.probe(call) is None


def test_a_script_that_raises_is_told_in_words(database):
    database.script("0003_bad", "raise ValueError('no such tariff')")
    with pytest.raises(NoEffect, match="ValueError: no such tariff"):
        done(migration())
    assert database.revision() == "0001_invoices"


def test_scripts_that_want_to_be_outside_a_transaction_are_refused(database):
    database.script(
        "0003_concurrent", "with op.get_context().autocommit_block():\n    op.execute('CREATE INDEX CONCURRENTLY n ON invoices (id)')"
    )
    call = prepared(migration())
    with pytest.raises(NoEffect):
        capability.do(call)
    assert database.revision() == "0001_invoices"


def test_an_env_that_connects_by_itself_is_stopped_before_the_first_script(database):
    database.env(f"""
from alembic import context
from sqlalchemy import NullPool, create_engine
with create_engine({database.url.replace("postgresql://", "postgresql+psycopg://")!r}, poolclass=NullPool).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
""")
    with pytest.raises(NoEffect, match="config.attributes"):
        done(migration())
    assert database.revision() == "0001_invoices"


# What gets lost on the way.


def test_a_script_that_commits_by_itself_is_unknown_and_for_a_person(database):
    database.script("0003_commits", ["CREATE TABLE half (id int)", "COMMIT", "ALTER TABLE nothing ADD x int"])
    call = prepared(migration())
    with pytest.raises(SQLAlchemyError):
        capability.do(call)
    with pytest.raises(Unreadable, match="part of the migration"):
        capability.probe(call)


def test_a_script_that_commits_and_goes_on_is_unknown_too(database):
    database.script("0003_commits", ["CREATE TABLE half (id int)", "COMMIT"])
    call = prepared(migration())
    with pytest.raises(alembic_scripts.Unfit, match="ended the transaction"):
        capability.do(call)
    with pytest.raises(Unreadable):
        capability.probe(call)


def test_a_lost_answer_is_found_by_its_mark(database):
    call = prepared(migration())
    effect = capability.do(call)  # The worker dies here.
    assert capability.probe(call) == effect


def test_a_killed_worker_leaves_nothing_and_the_probe_waits_for_the_server_to_notice(database):
    database.script("0003_slow", ["CREATE TABLE half AS SELECT 1 AS a FROM pg_sleep(2)"])
    call = prepared(migration())
    code = WORKER.format(folder=database.folder, url=database.url, prepared=call.prepared)
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    while not sleeping(database):
        assert worker.poll() is None
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert sleeping(database)  # The server does not notice before the statement has ended.
    assert capability.probe(call) is None
    assert not sleeping(database)
    assert (database.revision(), database.columns("half")) == ("0001_invoices", [])


def sleeping(database):
    busy = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
    return database.sql(f"{busy} AND query LIKE 'CREATE%%pg_sleep%%'")


WORKER = """
from dataclasses import replace
from django.conf import settings
settings.SAGABOARD_TARGETS = {{"staging": {{"system": "postgresql", "database_url": "{url}", "script_location": "{folder}"}}}}
from tests.runs.connectors.pgfixtures import RunMigration, migration
RunMigration().do(replace(migration(), prepared={prepared}))
"""


def test_eng_18_a_colleagues_migration_to_the_same_revision_is_not_adopted(database):
    call = prepared(migration())
    done(migration())  # Another run did it; ours never reached the database.
    assert capability.probe(call) is None


def test_without_prepare_nothing_can_have_happened(database):
    done(migration())
    assert capability.probe(migration()) is None


# Others at work.


def test_eng_14_a_migration_taken_back_by_hand_counts_as_undone(database):
    call = done(migration())
    database.sql("DROP INDEX by_mode", "ALTER TABLE invoices DROP mode", "UPDATE alembic_version SET version_num = '0001_invoices'")
    assert capability.verify_undone(call)


def test_the_schema_alone_or_the_revision_alone_does_not_count_as_undone(database):
    call = done(migration())
    database.sql("UPDATE alembic_version SET version_num = '0001_invoices'")
    assert not capability.verify_undone(call)
    database.sql("UPDATE alembic_version SET version_num = '0002_mode'", "ALTER TABLE invoices DROP mode")
    assert not capability.verify_undone(call)


def test_a_down_migration_that_does_not_restore_the_schema_is_not_undone(database):
    database.script("0003_forgets", ["CREATE TABLE kept (id int)"], [])
    call = done(migration())
    capability.undo(call)
    assert database.revision() == "0001_invoices"
    assert not capability.verify_undone(call)


def test_eng_15_a_colleagues_change_stops_the_undo_and_is_named(database):
    call = done(migration())
    database.sql("ALTER TABLE invoices ADD memo text", "CREATE TABLE theirs (id int)")
    with pytest.raises(NoEffect, match=r"changed by others: public\.invoices changed, public\.theirs is new"):
        capability.undo(call)
    assert database.columns() == ["id", "number", "mode", "memo"]
    assert not capability.verify_done(call)
    assert "now: revision 0002_mode" in (words := capability.drift(call)) and "public.theirs is new" in words


def test_eng_15_a_later_migration_of_a_colleague_stops_the_undo(database):
    call = done(migration())
    database.script("0003_theirs", ["CREATE TABLE theirs (id int)"], ["DROP TABLE theirs"])
    done(migration())
    with pytest.raises(NoEffect, match="at revision 0003_theirs, not 0002_mode"):
        capability.undo(call)
    assert database.columns("theirs") == ["id"]


def test_eng_15_a_migration_between_look_and_undo_waits_and_is_not_undone(database, monkeypatch):
    """Two runs migrate at once: the advisory lock makes the second look after the first has committed."""
    call = done(migration())
    database.script("0003_theirs", ["CREATE TABLE theirs (id int)"], ["DROP TABLE theirs"])
    theirs = prepared(migration())
    ends = meanwhile(monkeypatch, lambda: capability.do(theirs))
    capability.undo(call)
    assert isinstance(ends(), NoEffect)
    assert (database.revision(), database.columns("theirs")) == ("0001_invoices", [])


def test_eng_15_a_colleagues_own_alembic_waits_with_its_revision(database, monkeypatch):
    call = prepared(migration())
    ends = meanwhile(monkeypatch, lambda: database.sql("SET lock_timeout = '300ms'", "UPDATE alembic_version SET version_num = 'x'"))
    capability.do(call)
    assert "lock timeout" in str(ends())
    assert database.revision() == "0002_mode"


def meanwhile(monkeypatch, happens):
    """Starts `happens` in a thread once our transaction has looked and before it changes; call the answer for its end."""
    ended, reading = [], migration_work.Work.reading

    def run():
        try:
            ended.append(happens())
        except Exception as exc:
            ended.append(exc)

    thread = threading.Thread(target=run)

    def look_and_wait(self):
        found = reading(self)
        only_looks = self.connection.get_execution_options().get("postgresql_readonly")
        if not thread.ident and not only_looks:
            thread.start()
            thread.join(0.6)
        return found

    monkeypatch.setattr(migration_work.Work, "reading", look_and_wait)
    return lambda: (thread.join(), ended[0])[1]


def test_a_lock_of_somebody_else_ends_in_words_within_the_timeout(database):
    call = prepared(migration(timeout=3.0))
    with connected(database.url) as other, other.begin():
        other.exec_driver_sql("LOCK TABLE invoices")
        begun = time.monotonic()
        with pytest.raises(NoEffect, match="holds a lock on “staging”"):
            capability.do(call)
        assert time.monotonic() - begun < 3
    assert database.revision() == "0001_invoices"


def test_a_statement_that_takes_too_long_is_ended_by_the_server(database):
    database.script("0003_slow", ["SELECT pg_sleep(30)"])
    with pytest.raises(NoEffect, match="took longer"):
        done(migration(timeout=2.0))
    assert database.revision() == "0001_invoices"


def test_a_worker_that_hangs_between_statements_loses_its_transaction(database):
    database.script("0003_hangs", "op.execute('CREATE TABLE half (id int)')\nimport time\ntime.sleep(2.5)\nop.execute('SELECT 1')")
    call = prepared(migration(timeout=2.0))
    with pytest.raises(NoEffect, match="took longer"):
        capability.do(call)
    assert capability.probe(call) is None and database.columns("half") == []


# Servers that can't be reached.


def test_a_wrong_password_is_a_sentence_without_the_password(database, settings):
    call = done(migration())
    wrong = make_url(database.url).set(password="wrong-and-secret").render_as_string(hide_password=False)
    settings.SAGABOARD_TARGETS["staging"]["database_url"] = wrong
    with pytest.raises(NoEffect, match="refused the credential of") as refusal:
        capability.do(call)
    assert "wrong-and-secret" not in str(refusal.value)
    with pytest.raises(Unreadable, match="refused the credential of"):
        capability.verify_undone(call)


def test_a_dead_server_is_a_sentence_and_not_an_undone_migration(database, settings):
    call = done(migration())
    with closed_port() as port:
        settings.SAGABOARD_TARGETS["staging"]["database_url"] = f"postgresql://a@127.0.0.1:{port}/b"
        call = replace(call, prepared={**call.prepared, "server": f"127.0.0.1:{port}/b"})
        with pytest.raises(Unreadable, match=f"No PostgreSQL answers at 127.0.0.1:{port}"):
            capability.verify_undone(call)


def test_another_database_under_the_same_name_is_not_undone(database, settings):
    call = done(migration())
    settings.SAGABOARD_TARGETS["staging"]["database_url"] = "postgresql://127.0.0.1/elsewhere"
    with pytest.raises(Unreadable, match="is now 127.0.0.1:5432/elsewhere"):
        capability.verify_undone(call)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("database_url", "mysql://127.0.0.1/x", "must be postgresql://"),
        ("database_url", "not a url", "must be postgresql://"),
        ("script_location", "/nowhere", "Path doesn't exist"),
    ],
)
def test_a_target_that_cannot_work_is_refused_in_words(database, settings, option, value, words):
    settings.SAGABOARD_TARGETS["staging"][option] = value
    with pytest.raises(NoEffect, match=words):
        prepared(migration())


def test_a_database_that_does_not_exist_is_a_sentence(database, settings):
    settings.SAGABOARD_TARGETS["staging"]["database_url"] = (
        make_url(database.url).set(database="nope").render_as_string(hide_password=False)
    )
    with pytest.raises(NoEffect, match="there is no such thing"):
        prepared(migration())


def test_the_version_table_may_have_another_name(database, settings):
    settings.SAGABOARD_TARGETS["staging"] |= {"version_table": "versions", "version_table_schema": "ops"}
    database.env(
        Path(database.folder / "env.py")
        .read_text()
        .replace('["connection"]', '["connection"], version_table="versions", version_table_schema="ops"')
    )
    database.sql("CREATE SCHEMA ops", "DROP TABLE alembic_version, invoices")
    call = done(migration("0001"))
    capability.undo(call)
    assert capability.verify_undone(call)
    assert FIRST


def test_tidying_takes_the_mark_and_leaves_the_migration(database):
    call = done(migration())
    capability.tidy(call)
    assert marks(database) == []
    assert capability.verify_done(call)
    capability.undo(call)
    assert capability.verify_undone(call)


def test_a_person_may_undo_over_a_colleagues_change_of_the_structure_but_not_over_a_later_migration(database):
    call = replace(done(migration()), over=True)
    database.sql("ALTER TABLE invoices ADD memo text")
    capability.undo(call)
    assert database.columns() == ["id", "number", "memo"]
    assert not capability.verify_undone(call)  # for a person: the colleague's column is there still
    call = replace(done(migration()), over=True)
    database.script("0003_theirs", ["CREATE TABLE theirs (id int)"], ["DROP TABLE theirs"])
    done(migration())
    with pytest.raises(NoEffect, match="at revision 0003_theirs"):
        capability.undo(call)
