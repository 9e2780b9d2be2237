"""The one way to change a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from runs.clock import Clock
from runs.models import Run


@contextmanager
def locked_run(run_id: int) -> Iterator[Run]:
    """One transaction in which the run is ours, with `run.now` from the database's clock.

    What is read inside is current, what was read before may not be. This row is the first lock of every transaction
    that changes a run or anything below it, so that two of them can wait for each other but never deadlock.
    """
    with transaction.atomic(durable=True):
        yield Run.objects.select_for_update(no_key=True).annotate(clock=Clock()).get(pk=run_id)
