"""The log: ordered, chained, and refused to everybody who would change it."""

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection, transaction

from runs import log
from runs.locking import locked_run
from runs.models import LogEntry
from tests.checker import forged
from tests.factories import do, make_run

pytestmark = pytest.mark.django_db(transaction=True)
CHANGES = ["UPDATE runs_logentry SET actor = 'x'", "DELETE FROM runs_logentry", "TRUNCATE runs_logentry CASCADE"]


@pytest.fixture
def run(token):
    run = make_run(token=token)
    do(run, "one")
    return run


def test_entries_are_numbered_without_gaps_and_chained(run):
    seqs = list(run.entries.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    assert log.verify(run) == log.Chain(len(seqs), run.entries.get(seq=len(seqs)).hash)


def test_a_writer_can_neither_choose_number_nor_hash(run):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs_logentry (run_id, seq, at, event, actor, data, hash)"
            " VALUES (%s, 999, '2001-01-01', 'run.taken', 'x', '{}', 'forged')",
            [run.pk],
        )
    last = run.entries.newest_first().first()
    assert last.seq < 999
    assert last.at.year > 2001
    assert log.verify(run).whole


@pytest.mark.parametrize(
    "statement", ["UPDATE runs_logentry SET actor = 'x'", "DELETE FROM runs_logentry", "TRUNCATE runs_logentry CASCADE"]
)
def test_the_application_is_refused_every_change(run, statement):
    with pytest.raises(ProgrammingError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(
    "statement", ["UPDATE runs_logentry SET actor = 'x'", "DELETE FROM runs_logentry", "TRUNCATE runs_logentry CASCADE"]
)
def test_the_owner_is_refused_by_the_triggers_too(run, statement):
    with psycopg.connect(connection.owner_url) as owner, pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        owner.execute(statement)


def test_the_run_time_role_owns_nothing_and_is_no_superuser(run):
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)")
        role, superuser = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_tables WHERE tableowner = current_user")
        owned = cursor.fetchone()[0]
    assert (role, superuser, owned) == ("sagaboard_app", False, 0)


def test_what_somebody_with_all_rights_changed_is_found(run):
    forged(run, "a log that was changed")
    with psycopg.connect(connection.owner_url) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE runs_logentry SET data = '{}' WHERE run_id = %s AND seq = 2", [run.pk])
    assert log.verify(run).first_bad == 2
    with pytest.raises(CommandError, match=f"run {run.number}: entry 2"):
        call_command("verify_log")


def test_a_cut_tail_shows_against_a_head_that_left_the_database(run):
    head = log.verify(run).head
    with psycopg.connect(connection.owner_url) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("DELETE FROM runs_logentry WHERE run_id = %s AND hash = %s", [run.pk, head])
    assert log.verify(run).whole
    with pytest.raises(CommandError, match="tail was cut"):
        call_command("verify_log", str(run.number), head=head)


def test_an_entry_names_a_known_event(run):
    with pytest.raises(Exception, match="entry_event_is_known"), locked_run(run.pk) as locked:
        locked.append("run.exploded")


def test_a_large_document_lies_beside_the_log(run):
    from runs.models import StoredPayload

    with locked_run(run.pk) as locked:
        locked.append("run.taken", text="x" * 50_000)
    entry = run.entries.newest_first().first()
    assert set(entry.data) == {"$beside", "bytes"}
    assert StoredPayload.objects.get(pk=entry.data["$beside"]).body["text"] == "x" * 50_000


def test_two_writers_of_one_run_never_share_a_number(run):
    from concurrent.futures import ThreadPoolExecutor

    def write(number):
        try:
            with locked_run(run.pk) as locked:
                locked.append("run.taken", by=number)
        finally:
            connection.close()

    before = LogEntry.objects.count()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert LogEntry.objects.count() == before + 40
    assert log.verify(run).whole


def test_a_run_that_is_not_there_is_not_called_whole(run):
    with pytest.raises(CommandError, match="There is no run 999"):
        call_command("verify_log", "999")
    with pytest.raises(CommandError, match="name that run"):
        call_command("verify_log", head="ab")
