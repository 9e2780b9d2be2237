"""The checker sees what it is there for: for everything that it asserts, a forgery that only this assertion misses."""

from __future__ import annotations

import dataclasses
import datetime as dt

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from corrections.models import Correction
from outbox import services as outbox
from runs import services
from runs.engine import compensate
from runs.locking import locked_run
from runs.models import Run
from tests import checker, ledgers
from tests.corrections.scenes import make_undone
from tests.factories import do, make_run
from tests.outbox.scenes import deliver, item_of, make_released
from tests.tools import Seen, world

TWO = [{"ref": name, "capability": "put_thing", "args": {"name": name}} for name in ("one", "two")]


@pytest.fixture
def going(token):
    """An open run with two effects."""
    run = make_run(token=token, plan=TWO)
    for name in ("one", "two"):
        assert do(run, name).state == "done"
    yield run
    forget(run)


@pytest.fixture
def undone(token):
    """The same, failed and undone."""
    run = make_run(token=token, plan=TWO)
    for name in ("one", "two"):
        do(run, name)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:Alice")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensated"
    yield run
    forget(run)


def forget(run):
    """What this test forged is not held against it at its end."""
    checker.forged(run, "the subject of a test of the checker")
    world.clear()


def missed(**how):
    """What the checker says, "" if all is well."""
    try:
        checker.check(ledgers.of_tools(), **how)
    except AssertionError as exc:
        return str(exc)
    return ""


def unnoticed(run, forgeries, **how):
    """What the checker said instead of what it should have, of each forgery that it did not notice."""
    assert missed(**how) == ""
    said, seen = {}, list(world.seen)
    for name, (forge, says) in forgeries.items():
        before = transaction.savepoint()
        forge(run)
        if says not in (found := missed(**how)):
            said[name] = found
        transaction.savepoint_rollback(before)
        world.seen[:] = seen
    return said


def step(run, ref):
    return run.steps.get(ref=ref)


def call(verb, run, ref, **more):
    about = {"verb": verb, "name": ref, "key": step(run, ref).call_key, "at": timezone.now().timestamp()}
    world.seen.append(Seen(**{**about, "in_transaction": False, "trampled": False, **more}))


def change(run, ref, **fields):
    run.steps.filter(ref=ref).update(**fields)


def approve(run, by):
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        outbox.approve(item, digest=item.digest, by=by)


def append(run, *entries):
    """Entries of (event, ref), as if the walk had written them."""
    with locked_run(run.pk) as locked:
        for event, ref, *more in entries:
            data = more[0] if more else {}
            locked.append(event, step=step(run, ref) if ref else None, **data)


GONE = {"evidence": "verify_undone: gone"}
WHILE_GOING = {
    "a call nobody meant": (lambda run: call("do", run, "one", key="f" * 64), "has no intent of its own"),
    "a second call for one intent": (lambda run: call("do", run, "one"), "call 2 with the key"),
    "a second effect": (lambda run: call("do", run, "one"), "two live effects"),
    "a call before its intent": (lambda run: at_first(at=1.0), "call 1 with the key"),
    "a call inside a transaction": (lambda run: at_first(in_transaction=True), "called inside a transaction"),
    "an undo nobody meant": (lambda run: call("undo", run, "one"), "undo one: call 1"),
    "an effect of nobody's": (lambda run: call("undo", run, "one", trampled=True), "took away what somebody else had put there"),
    "done without effect": (lambda run: world.seen.clear(), "is done, and its effect is not there"),
    "an effect that is said to have failed": (
        lambda run: change(run, "one", state="failed"),
        "is failed, and its effect is there",
    ),
    "another place in the order": (lambda run: change(run, "one", intent_seq=99), "has its intent at 99, by the log at 2"),
    "a move that no table has": (lambda run: change(run, "one", state="requested"), "went from done to requested"),
    "a change without its entry": (lambda run: change(run, "one", state="drifted"), "from done to drifted without its entry"),
    "a run's change without its entry": (lambda run: Run.objects.filter(pk=run.pk).update(state="succeeded"), "without its entry"),
    "the first undone first": (
        lambda run: append(run, ("undo.started", "one"), ("undo.verified", "one", GONE)),
        "step 1, put_thing was undone before step 2, put_thing",
    ),
    "two undos at a time": (
        lambda run: append(run, ("undo.started", "two"), ("undo.started", "one")),
        "began before that of step 2, put_thing had ended",
    ),
    "undone without an undo": (lambda run: append(run, ("undo.verified", "two", GONE)), "no undo of it had begun"),
    "undone without evidence": (lambda run: append(run, ("undo.started", "two"), ("undo.verified", "two")), "without evidence"),
    "on after a failed undo": (
        lambda run: append(run, ("undo.started", "two"), ("undo.failed", "two"), ("undo.started", "two")),
        "could not be undone, and step 2, put_thing was undone after it",
    ),
    "on by itself after a failed undo": (
        lambda run: append(run, ("undo.started", "two"), ("undo.drifted", "two"), ("run.compensating", None)),
        "could not be undone, and engine went on",
    ),
    "past the savepoint": (
        lambda run: append(run, ("run.compensating", None, {"to": "two"}), ("undo.started", "two")),
        "past the savepoint",
    ),
    "unknown and nobody looks": (
        lambda run: change(run, "one", state="unknown", due_at=None),
        "is unknown, nobody looks, and no person was called",
    ),
    "stuck and nobody called": (
        lambda run: (Run.objects.filter(pk=run.pk).update(state="stuck"), append(run, ("run.stuck", None))),
        "it is stuck, and no person was called",
    ),
    "failed and nobody called": (
        lambda run: (Run.objects.filter(pk=run.pk).update(state="failed", failed_at=timezone.now()), append(run, ("run.failed", None))),
        "failed with effects out there, and no person was called",
    ),
    "compensated with something left": (
        lambda run: Run.objects.filter(pk=run.pk).update(state="compensated", failed_at=timezone.now()),
        "there is something left to undo",
    ),
    "asked for in a run that is over": (
        lambda run: (change(run, "one", state="requested"), Run.objects.filter(pk=run.pk).update(state="succeeded")),
        "is requested, and the run is succeeded",
    ),
    "releasing without a call to send": (
        lambda run: (Run.objects.filter(pk=run.pk).update(state="releasing"), run.checks.update(state="success")),
        "there is nothing to send",
    ),
}


def at_first(**facts):
    first = next(n for n, one in enumerate(world.seen) if one.verb == "do")
    world.seen[first] = dataclasses.replace(world.seen[first], **facts)


def test_the_checker_misses_in_an_open_run(going):
    assert unnoticed(going, WHILE_GOING) == {}


AFTER_THE_UNDO = {
    "undone and still there": (lambda run: drop("undo"), "is undone, and its effect is there"),
    "undone twice": (
        lambda run: append(run, ("undo.started", "two"), ("undo.verified", "two", GONE)),
        "undone more often than it was done",
    ),
    "undone, not to be undone": (
        lambda run: change(run, "one", state="drifted"),
        "is drifted, and the run says compensated",
    ),
}


def drop(verb):
    world.seen[:] = [one for one in world.seen if one.verb != verb]


def test_the_checker_misses_in_an_undone_run(undone):
    assert unnoticed(undone, AFTER_THE_UNDO) == {}


def past(**ago):
    return timezone.now() - dt.timedelta(**ago)


OVERDUE = {
    "a lease": (lambda run: change(run, "one", lease_until=past(minutes=5)), "its lease ended at"),
    "an asked step": (lambda run: change(run, "one", state="requested", due_at=past(minutes=5)), "was due at"),
    "a look": (lambda run: change(run, "one", state="unknown", due_at=past(minutes=5)), "was due at"),
    "a silent agent": (lambda run: silent(run), "its agent has been silent"),
    "a check": (lambda run: Run.objects.filter(pk=run.pk).update(state="checking", checking_since=past(days=9)), "past the deadline"),
}


def silent(run):
    Run.objects.filter(pk=run.pk).update(last_heard_at=past(hours=3))
    run.steps.update(requested_at=past(hours=3), ended_at=past(hours=3))


def test_the_checker_misses_what_is_past_its_bound(going):
    assert unnoticed(going, OVERDUE, overdue_after=30) == {}


def test_the_checker_misses_a_walk_that_nobody_walks(going, token):
    services.fail_run(going, token=token, reason="x")
    services.compensate_run(going, actor="person:Alice")
    assert missed(overdue_after=30) == ""
    assert "nobody walks" in missed(overdue_after=-30)


def test_the_checker_misses_undos_that_overlap_at_the_target(undone):
    calls = ledgers.of_tools().read()
    slow = [dataclasses.replace(one, ended=one.ended + 5) if one.verb == "undo" else one for one in calls]
    checker.check(ledgers.Ledger(lambda: calls, frozenset()))
    with pytest.raises(AssertionError, match="overlapped at the target"):
        checker.check(ledgers.Ledger(lambda: slow, frozenset()))


def test_the_checker_misses_an_undo_that_crosses_the_pivot(token, alice):
    run = make_released(token=token)
    approve(run, alice)
    assert deliver(run) == ["news", "more"]
    assert missed() == ""
    append(run, ("undo.started", "one"))
    assert "crossed the pivot" in missed()
    forget(run)


def test_the_checker_misses_a_release_in_which_nobody_is_next(token, alice):
    run = make_released(token=token)
    approve(run, alice)
    assert missed() == ""
    run.steps.update(due_at=None)
    assert "nobody sends step" in missed()
    forget(run)


def test_the_checker_misses_a_correction_that_was_posted_unsent_or_twice(token):
    run = make_undone(token=token)
    key = Correction.objects.get(run=run).key
    assert missed() == ""
    world.call("correct", "words", key)
    assert "was posted before anybody sent it" in missed()
    world.call("correct", "words", key)
    assert "was posted 2 times" in missed()
    forget(run)


@pytest.mark.django_db(transaction=True)
def test_the_checker_misses_a_log_that_was_changed(token):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    assert missed() == ""
    with psycopg.connect(connection.owner_url) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE runs_logentry SET actor = 'somebody' WHERE seq = 2")
    assert "its log is broken at entry 2" in missed()
    forget(run)


@pytest.mark.django_db(transaction=True)
def test_the_checker_misses_an_entry_of_another_transaction(token):
    """Both are there, and a crash between them would have left one."""
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    assert missed() == ""
    change(run, "one", state="drifted")
    append(run, ("undo.drifted", "one"))
    assert "from done to drifted without its entry" in missed()
    forget(run)
