"""The one way to change a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.db import transaction

from runs.clock import Clock
from runs.failpoints import reach
from runs.models import Run, Step
from sagaboard.quick import Prepared

_LOCKED = Prepared(lambda pk: Run.objects.select_for_update(no_key=True).annotate(clock=Clock()).filter(pk=pk), -1)
_STEP = Prepared(lambda pk: Step.objects.filter(pk=pk), -1)


@contextmanager
def locked_run(run_id: int) -> Iterator[Run]:
    """One transaction in which the run is ours, with `run.now` from the database's clock.

    What is read inside is current, what was read before may not be. This row is the first lock of every transaction
    that changes a run or anything below it, so that two of them can wait for each other but never deadlock.
    """
    with transaction.atomic(durable=True):
        run = _LOCKED.get(run_id)
        yield run
        reach("commit.before", run.last_event, run_id)
    reach("commit.after", run.last_event, run_id)


@contextmanager
def locked_runs(run_ids: Iterable[int]) -> Iterator[list[Run]]:
    """One transaction in which several runs are ours, taken in the order of their numbers, so that two of these never deadlock."""
    with transaction.atomic(durable=True):
        yield list(Run.objects.select_for_update(no_key=True).filter(pk__in=run_ids).order_by("pk"))


def read_step(step_id: int) -> Step:
    """The step as it is now; without the run's lock it may be another a moment later."""
    return _STEP.get(step_id)


def step_of(run: Run, step_id: int) -> Step:
    """The step of a locked run, as it is now."""
    step = read_step(step_id)
    assert step.run_id == run.pk, f"step {step_id} is not of run {run.pk}"
    step.run = run
    return step
