"""After a restore nothing goes on by itself: a history that this installation doesn't know freezes it, a name lifts it."""

import datetime as dt
import json

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs import anchors, freezing, tasks
from runs.clock import Clock
from runs.engine import invoke
from runs.models import System
from tests.checker import forged
from tests.factories import ask, make_run
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _own_folder(settings, tmp_path):
    settings.ANCHOR_DIR = tmp_path


def system():
    return System.objects.get_or_create(pk=1)[0]


def now():
    return System.objects.filter(pk=system().pk).values_list(Clock(), flat=True).get()


def anchored():
    """The log's heads are in a file; a minute goes by."""
    system()
    anchors.write(system(), now() - dt.timedelta(minutes=2))


def restore(run, keep):
    """The log as a backup had it: without its end."""
    forged(run, "its rows go on without their entries")
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("DELETE FROM runs_logentry WHERE run_id = %s AND seq > %s", [run.pk, keep])


def test_a_new_connection_to_a_restored_database_begins_no_call(token):
    run = make_run(token=token)
    step = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    assert not freezing.is_frozen()
    System.objects.update(identifier="another cluster")
    assert not freezing.is_frozen()  # this connection saw the history it knows
    connection.close()
    invoke.invoke(run.pk, step.pk)
    assert world.ledger == []
    assert "restored or moved" in System.objects.get().frozen_why


def test_the_sweep_freezes_by_itself_and_a_name_lifts_it(token, capsys):
    make_run(token=token)
    tasks.sweep()
    System.objects.update(timeline=99)
    tasks.sweep()
    assert System.objects.get().frozen_by == "engine"
    with pytest.raises(CommandError, match="a name"):
        call_command("thaw", by=" ")
    call_command("thaw", by="Alice Ahn")
    tasks.sweep()
    found = System.objects.get()
    assert (found.frozen_at, found.thawed_by) == (None, "Alice Ahn")


def test_a_log_that_lost_its_end_freezes_by_itself_also_in_the_same_cluster(token):
    run = make_run(token=token)
    ask(run, "put_thing", args={"name": "one"}, ref="one")
    anchored()
    tasks.sweep()
    assert not freezing.is_frozen()
    restore(run, keep=1)
    tasks.sweep()
    assert "lacks what stood there" in System.objects.get().frozen_why
    freezing.thaw(by="Alice")
    tasks.sweep()
    assert not freezing.is_frozen()  # what is there now is taken as known


def test_a_log_that_went_on_differently_after_a_restore_freezes_too(token):
    run = make_run(token=token)
    ask(run, "put_thing", args={"name": "one"}, ref="one")
    anchored()
    restore(run, keep=1)
    ask(run, "put_thing", args={"name": "two"}, ref="two")
    assert freezing.freeze_if_restored()


def test_another_installation_has_anchors_of_its_own(token):
    make_run(token=token)
    anchored()
    restore(make_run(token=token), keep=0)
    System.objects.all().delete()
    assert not freezing.freeze_if_restored()


def test_an_anchor_of_very_many_runs_is_compared_by_one_query(token):
    for _ in range(3):
        make_run(token=token)
    anchored()
    anchor = anchors.last(system())
    with CaptureQueriesContext(connection) as asked:
        assert anchors.cut(system()) is None
    assert len(anchor.heads) == 3
    assert len([query for query in asked if "runs_logentry" in query["sql"]]) == 1


def test_an_installation_that_took_the_place_of_the_one_in_doubt_is_not_frozen_for_it(token, monkeypatch):
    run = make_run(token=token)
    anchored()
    restore(run, keep=0)
    looks = anchors.cut

    def looks_late(row):
        System.objects.all().delete()
        system()
        return looks(row)

    monkeypatch.setattr(anchors, "cut", looks_late)
    assert freezing.freeze_if_restored()
    assert System.objects.get().frozen_at is None


def test_an_anchor_holds_the_head_of_every_run_that_moved_and_at_most_one_a_minute(token):
    runs = [make_run(token=token), make_run(token=token)]
    tasks.sweep()
    ask(runs[0], "put_thing", args={"name": "one"}, ref="one")
    tasks.sweep()
    found = list(anchors.read(anchors.folder(system())))
    assert [head[:2] for head in found[0].heads] == [(run.pk, 1) for run in runs]
    assert len(found) == 1


def test_while_it_is_frozen_no_anchor_takes_the_doubtful_log_for_the_known_one(token):
    make_run(token=token)
    freezing.freeze(by="Alice", why="restored")
    freezing.write_anchor()
    assert anchors.last(system()) is None


def test_verify_log_compares_with_the_anchors(token, capsys):
    run = make_run(token=token)
    ask(run, "put_thing", args={"name": "one"}, ref="one")
    anchored()
    call_command("verify_log")
    assert "Every chain is whole." in capsys.readouterr().out
    restore(run, keep=1)
    with pytest.raises(CommandError, match=f"run {run.pk}: entry 2 is not as anchored at"):
        call_command("verify_log")
    with pytest.raises(CommandError, match="There are no anchors in"):
        call_command("verify_log", anchors=anchors.folder(system()) / "elsewhere")


def test_a_line_that_a_crash_cut_short_is_left_out(token):
    make_run(token=token)
    anchored()
    path = next(anchors.folder(system()).glob("*.jsonl"))
    path.write_text(path.read_text() + json.dumps({"at": "2026"})[:9])
    assert anchors.last(system()) is not None
    assert not freezing.freeze_if_restored()


def test_a_folder_that_cannot_be_written_stops_nothing_and_is_said(token, settings, tmp_path, caplog):
    make_run(token=token)
    (tmp_path / "file").touch()
    settings.ANCHOR_DIR = tmp_path / "file" / "anchors"
    freezing.write_anchor()
    assert "can't be kept outside the database" in caplog.text
