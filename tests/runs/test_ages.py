"""Every state that is not an end has an age, a bound and somebody who is next."""

import datetime as dt
import json

import pytest
from django.core.management import call_command
from django.utils import timezone

from runs import ages, services
from runs.models import Run, Step
from runs.states import PENDING, TO_UNDO, UNFINISHED, StepState
from tests.checker import forged
from tests.factories import ask, do, make_run
from tests.outbox.scenes import make_released

pytestmark = pytest.mark.django_db


def test_no_state_that_is_not_an_end_is_left_out(db):
    assert set(ages.OF_RUNS) == UNFINISHED
    # A done step waits for nothing; its run does.
    assert set(ages.OF_STEPS) == (PENDING | TO_UNDO) - {StepState.DONE}
    assert all(age.bound and age.owner for age in ages.all_ages())
    assert {age.what for age in ages.all_ages()} == {"run", "step", "item", "correction"}


def test_the_oldest_of_each_state_is_told(token):
    run = make_run(token=token)
    ask(run, "put_thing", args={"name": "one"}, ref="one")
    Step.objects.filter(state="requested").update(requested_at=timezone.now() - dt.timedelta(minutes=5))
    stuck = make_run(token=token)
    do(stuck, "two")
    services.fail_run(stuck, token=token, reason="x")
    found = {(age.what, age.state): age for age in ages.all_ages()}
    assert 300 <= found["step", "requested"].oldest < 400
    assert (found["run", "failed"].count, found["run", "failed"].oldest < 100) == (1, True)
    assert (found["run", "stuck"].count, found["run", "stuck"].oldest) == (0, None)
    forged(stuck, "only its state matters")
    Run.objects.filter(pk=stuck.pk).update(state="stuck")
    assert {age.state: age.count for age in ages.all_ages() if age.what == "run"}["stuck"] == 1


def test_a_monitor_reads_it_as_json_and_a_person_as_a_table(token, capsys):
    make_released(token=token)
    call_command("ages", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert next(row["count"] for row in rows if row["state"] == "awaiting") == 2
    call_command("ages")
    assert "awaiting" in capsys.readouterr().out
