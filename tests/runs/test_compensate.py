import pytest

from runs import services
from runs.engine import compensate
from runs.states import RunState, StepState
from tests.factories import do, make_run
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_failed_run_is_undone_in_reverse(token):
    run = make_run(token=token)
    for ref in ("one", "two", "show"):
        assert do(run, ref).state == StepState.DONE
    assert do(run, "tell").state == StepState.QUEUED
    services.fail_run(run, token=token, reason="CI died")
    run.refresh_from_db()
    assert run.state == RunState.FAILED
    services.compensate_run(run, actor="person:x")
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.COMPENSATED
    assert world.calls("undo") == ["panel", "two", "one"]
    assert run.corrections.count() == 1
