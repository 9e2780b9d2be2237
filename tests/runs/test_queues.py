"""A call is made, looked for and undone by workers that hold its credentials: those of the queue its capability names."""

import pytest

from runs import bell, services, tasks
from runs.engine import claim, record, sweep
from runs.models import Step
from tests.checker import forged
from tests.factories import ask, do, make_run
from tests.runs.test_sweep import long_ago
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)
PLAN = [
    {"ref": "one", "capability": "put_thing", "args": {"name": "one"}},
    {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}},
    {"ref": "two", "capability": "put_thing", "args": {"name": "two"}},
]


@pytest.fixture
def rung(monkeypatch):
    """Which task was given to which queue's workers."""
    found = []
    monkeypatch.setattr(bell, "_send", lambda task, ids, queue=None: found.append((task.rpartition(".")[2], queue, ids)))
    monkeypatch.setattr(ShowThing, "queue", "board")
    return found


def test_calls_and_looks_go_to_the_workers_of_their_capability(token, rung):
    run = make_run(token=token, plan=PLAN)
    one = ask(run, "put_thing", args={"name": "one"}, ref="one").step
    show = ask(run, "show_thing", args={"name": "panel"}, ref="show").step
    record.unknown(claim.to_do(run.pk, show.pk), RuntimeError("timeout"))
    assert rung == [
        ("invoke_step", None, (run.pk, one.pk)),
        ("invoke_step", "board", (run.pk, show.pk)),
        ("look_for_step", "board", (run.pk, show.pk)),
    ]
    rung.clear()
    forged(run, "as if the look had found nothing")
    long_ago()
    Step.objects.update(due_at=None)
    Step.objects.filter(pk=show.pk).update(state="requested")
    sweep.steps_due()
    assert [queue for _, queue, _ in rung] == [None, "board"]


def test_a_walk_back_is_handed_to_whoever_can_undo_the_next_step(token, rung):
    run = make_run(token=token, plan=PLAN)
    for ref in ("one", "show", "two"):
        do(run, ref)
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:x")
    rung.clear()
    tasks.compensate_run(run.pk)
    assert world.calls("undo") == ["two"]
    assert rung == [("compensate_run", "board", (run.pk, "board"))]
    tasks.compensate_run(run.pk, "board")
    assert world.calls("undo") == ["two", "panel"]
    assert rung[1:] == [("compensate_run", None, (run.pk,))]
    tasks.compensate_run(run.pk)
    run.refresh_from_db()
    assert (world.calls("undo"), run.state) == (["two", "panel", "one"], "compensated")


def test_a_hand_over_that_gets_lost_is_found_by_the_sweep(token, rung):
    run = make_run(token=token, plan=PLAN[:2])
    do(run, "show")
    services.fail_run(run, token=token, reason="x")
    services.compensate_run(run, actor="person:x")
    tasks.compensate_run(run.pk)
    rung.clear()
    sweep.walks_due()
    assert rung == [("compensate_run", None, (run.pk,))]
    tasks.compensate_run(run.pk)
    assert rung[1:] == [("compensate_run", "board", (run.pk, "board"))]
