"""What is rung for at a queue of steps lies on a list, and is taken off it and done, one after the other."""

import json

import pytest
from django.db import OperationalError

from runs import bell, drain, failpoints, tasks
from runs.models import Alert, Run
from tests.factories import ask, make_run

pytestmark = pytest.mark.django_db(transaction=True)
PLAN = [{"ref": ref, "capability": "put_thing", "args": {"name": ref}} for ref in ("one", "two", "three")]


class Hand:
    """Stands for the worker: wants an end after it was asked so often."""

    def __init__(self, *, stops: int = 100, way: int = 100) -> None:
        self.held, self.stops, self.way = [], stops, way

    def hold(self, queue, rung):
        self.held.append((queue, rung))

    def let_go(self):
        self.held.append(None)

    def is_to_stop(self):
        self.stops -= 1
        return self.stops < 0

    def makes_way(self):
        self.way -= 1
        return self.way < 0


@pytest.fixture(autouse=True)
def _nothing_on_it():
    lists = [bell.list_of(queue) for queue in ("steps", "board")]
    broker = bell.client()
    broker.delete(*lists)
    yield
    broker.delete(*lists)


@pytest.fixture
def steps(token):
    run = make_run(token=token, plan=PLAN)
    return [ask(run, "put_thing", args=call["args"], ref=call["ref"]).step for call in PLAN]


def states(steps):
    for step in steps:
        step.refresh_from_db()
    return [step.state for step in steps]


def on(queue="steps"):
    return [json.loads(rung)[2] for rung in bell.client().lrange(bell.list_of(queue), 0, -1)]


def test_steps_are_done_in_the_order_in_which_they_were_asked_for(steps):
    hand = Hand(way=3)
    assert on() == [step.pk for step in steps]
    assert drain.drain(["board", "steps"], hand) is False
    assert states(steps) == ["done"] * 3
    first = json.dumps(["runs.tasks.invoke_step", steps[0].run_id, steps[0].pk]).encode()
    assert hand.held[:2] == [("steps", first), None]


def test_what_is_taken_while_the_worker_ends_is_put_back_in_its_place(steps):
    # It is asked once before each is taken, and once after.
    assert drain.drain(["steps"], Hand(stops=3)) is False
    assert states(steps) == ["done", "requested", "requested"]
    assert on() == [step.pk for step in steps[1:]]


def test_who_makes_way_does_first_what_it_took(steps):
    assert drain.drain(["steps"], Hand(way=1)) is False
    assert states(steps) == ["done", "requested", "requested"]


def test_after_its_number_of_steps_a_process_is_to_be_replaced(steps, settings):
    settings.STEPS_PER_PROCESS = 1
    assert drain.drain(["steps"], Hand(), life=2.0) is True
    assert states(steps) == ["done", "done", "requested"]


def test_after_its_time_an_idle_process_is_to_be_replaced(monkeypatch):
    monkeypatch.setattr(drain, "RENEWED_AFTER", 0.3)
    assert drain.drain(["steps"], Hand()) is True


def test_what_fails_and_what_nobody_knows_hold_up_nothing(steps, caplog):
    strange = [b'["runs.tasks.v2_invoke_step", 1]', b"\xff", b"[]", b'["runs.tasks.invoke_step"]']
    for rung in strange:
        bell.put_back("steps", rung)
    drain.drain(["steps"], Hand(way=len(strange) + 3))
    assert states(steps) == ["done"] * 3
    unknown = {"runs.tasks.v2_invoke_step", "b'\\xff'", "b'[]'"}
    assert {alert.name for alert in Alert.objects.all()} == {f"unknown task {name}" for name in unknown}
    assert "b'[\"runs.tasks.invoke_step\"]' failed." in caplog.text


def test_after_its_connection_broke_a_process_does_its_next_step(steps):
    Run.objects.count()
    failpoints._cut()
    with pytest.raises(OperationalError):
        Run.objects.count()
    drain.drain(["steps"], Hand(way=3))
    assert states(steps) == ["done"] * 3


def test_what_can_be_rung_for_are_tasks_of_the_same_names_that_do_the_same():
    assert {name.rpartition(".")[2] for name in drain.CALLS} <= set(vars(tasks))


def test_of_a_list_that_nobody_takes_from_only_the_end_is_kept(monkeypatch):
    monkeypatch.setattr(bell, "KEEP_RUNG", 2)
    for number in range(4):
        bell._send("runs.tasks.invoke_step", (1, number), "board")
    assert on("board") == [2, 3]


def test_where_the_broker_is_away_nothing_fails(settings):
    broker = bell.client()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bell.client.cache_clear()
    assert bell.take(["steps"], 0.1) is None
    bell.put_back("steps", b"x")
    bell._send("runs.tasks.invoke_step", (1, 2), "steps")
    assert broker.llen(bell.list_of("steps")) == 0
