"""What calls leave only to be found by goes, once their run has ended with its effects; nothing else does."""

import datetime as dt

import pytest
from django.utils import timezone

from runs import freezing, services
from runs.engine import tidy
from runs.models import Run, Step
from tests.checker import forged
from tests.factories import do, make_run
from tests.outbox.scenes import go_green
from tests.tools import PutThing

pytestmark = pytest.mark.django_db
TWO = [{"ref": ref, "capability": "put_thing", "args": {"name": ref}} for ref in ("one", "two")]


@pytest.fixture
def tidied(monkeypatch):
    """Names of the things whose marks were taken away."""
    found = []
    monkeypatch.setattr(PutThing, "tidy", lambda self, call: found.append(call.args.name), raising=False)
    return found


def ended(token, **fields):
    run = make_run(token=token, plan=TWO)
    do(run, "one")
    services.skip_step(run, token=token, ref="two", reason="x")
    go_green(run)
    assert run.state == "succeeded"
    if "state" in fields:
        forged(run, "only its state matters")
    Run.objects.filter(pk=run.pk).update(**{"ended_at": timezone.now() - dt.timedelta(hours=25), **fields})
    return run


def test_a_day_after_a_run_ended_well_its_marks_go_once(token, tidied):
    run = ended(token)
    tidy.tidy_up()
    tidy.tidy_up()
    assert tidied == ["one"]
    assert run.steps.get(ref="one").tidied_at


@pytest.mark.parametrize(
    "fields",
    [
        {"ended_at": timezone.now() - dt.timedelta(hours=23)},
        {"ended_at": timezone.now() - dt.timedelta(days=31)},
        {"state": "stuck"},
        {"state": "failed", "failed_at": timezone.now()},
    ],
)
def test_marks_stay_while_somebody_may_look_for_them_and_when_it_is_given_up(token, tidied, fields):
    ended(token, **fields)
    tidy.tidy_up()
    assert tidied == []


def test_what_could_not_be_taken_away_is_tried_again_tomorrow(token, tidied, monkeypatch):
    run = ended(token)
    monkeypatch.setattr(PutThing, "tidy", lambda self, call: 1 / 0)
    tidy.tidy_up()
    monkeypatch.setattr(PutThing, "tidy", lambda self, call: tidied.append(call.args.name))
    tidy.tidy_up()
    assert tidied == []
    Step.objects.filter(run=run).update(due_at=timezone.now())
    tidy.tidy_up()
    assert tidied == ["one"]


def test_frozen_nothing_is_taken_away(token, tidied):
    ended(token)
    freezing.freeze(by="Alice", why="restored")
    tidy.tidy_up()
    assert tidied == []
