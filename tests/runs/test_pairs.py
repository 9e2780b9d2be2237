"""Two things that happen to one run at the same time come out as if one had come after the other: every pair, in both orders."""

from __future__ import annotations

import dataclasses

import pytest
from django.test import TransactionTestCase

from outbox.models import Policy
from runs import bell, locking
from runs.clock import Clock
from runs.models import Run
from sagaboard.quick import Prepared
from tests import checker
from tests.conftest import empty_tables
from tests.factories import make_team, make_token, make_user
from tests.helpers import run_meeting
from tests.runs.pairs import ACTIONS, APART, PAIRS, all_pairs, outcome, see_through
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
MEETINGS = [(first, second, scene) for (first, second), scenes in PAIRS.items() for scene in scenes]


@pytest.fixture(scope="module")
def people(django_db_setup, django_db_blocker):
    """Who acts in all the scenes, whose runs have nothing else in common: emptying the tables after each would take longer."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)
        # Nobody is at the other end of the broker here.
        patch.setattr(bell, "_send", lambda task, ids: None)
        patch.setattr(bell, "_answer", lambda step_id: None)
        team = make_team("billing")
        alice = make_user("alice", roles=("reviewer", "on-call", "owner"), team=team)
        carol = make_user("carol", roles=("reviewer",), team=team)
        bob = make_user("bob", team=team)
        tokens = {scope: make_token(scope=scope, team=team, person=bob, waiting_items=10_000) for scope in ("agent", "checker")}
        yield {"alice": alice, "carol": carol, **tokens}
        empty_tables()
        Policy.objects.exclude(capability="").delete()  # kept otherwise


def test_every_pair_is_either_made_to_meet_or_told_apart():
    assert sorted([*PAIRS, *APART]) == sorted(all_pairs())


@pytest.mark.parametrize(("first", "second", "scene"), MEETINGS, ids=lambda value: getattr(value, "__name__", value))
def test_who_meets_comes_out_as_one_after_the_other(first, second, scene, people):
    orders = [(first, second)] if first == second else [(first, second), (second, first)]
    serial = [play(scene, order, people, one_after_the_other) for order in orders]
    for order in orders:
        met = play(scene, order, people, run_meeting)
        assert met in serial, differences(met, serial)


def test_without_the_lock_they_do_not(people, monkeypatch):
    """The meetings are real: with the lock taken out a gate is both approved and rejected."""
    (scene, *_), orders = PAIRS["approve", "reject"], [("approve", "reject"), ("reject", "approve")]
    serial = [play(scene, order, people, one_after_the_other) for order in orders]
    monkeypatch.setattr(locking, "_LOCKED", Prepared(lambda pk: Run.objects.annotate(clock=Clock()).filter(pk=pk), -1))
    assert all(play(scene, order, people, run_meeting) not in serial for order in orders)


def one_after_the_other(*calls):
    return [answer(call) for call in calls]


def answer(call):
    try:
        return call()
    except Exception as exc:
        return exc


def play(scene, order, people, how):
    """What comes of a fresh scene in which these two happen; the laws of the checker hold."""
    world.clear()
    stage = scene(people)
    stage.look()
    names = order if order[0] != order[1] else (order[0], f"{order[1]} again")
    answers = how(*[lambda who=who, name=name: ACTIONS[name](stage, who) for who, name in enumerate(order)])
    found = outcome(stage, {name: in_words(one) for name, one in zip(names, answers, strict=True)})
    see_through(stage)
    end = outcome(stage, {})
    checker.check(runs=[stage.run.pk])
    checker.forged(stage.run, "checked here, without the ledger: what comes late in these scenes was called by nobody")
    return dataclasses.replace(found, end=dataclasses.astuple(end))


def in_words(value):
    return type(value).__name__ if isinstance(value, Exception) else str(value)


def differences(met, serial):
    """In which parts it is unlike either."""
    parts = [field.name for field in dataclasses.fields(met)]
    return [
        f"{part}: {getattr(met, part)} and not {getattr(one, part)}"
        for one in serial
        for part in parts
        if getattr(met, part) != getattr(one, part)
    ]
