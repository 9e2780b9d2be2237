"""Undos that work for a little while only: the owner is told before it is over, while the run can still be undone."""

from __future__ import annotations

import datetime as dt
import logging

from runs import naming, registry
from runs.clock import Clock
from runs.locking import locked_run
from runs.models import Run, Step
from runs.paging import page
from runs.states import StepState

log = logging.getLogger(__name__)
AT_ONCE = 100
STANDS = (StepState.DONE, StepState.UNDO_FAILED, StepState.DRIFTED)
# Told when a quarter of the window is left, and a day ahead at most.
AHEAD = 24 * 3600.0


def ending() -> None:
    """Each step in a transaction of its own run, told once; one that fails holds up no other."""
    for name, cls in registry.classes().items():
        if cls.undo_window:
            _of(name, cls.undo_window)


def _of(name: str, window: float) -> None:
    begins = dt.timedelta(seconds=window - min(window / 4, AHEAD))
    ends_soon = Step.objects.filter(capability=name, state__in=STANDS, window_paged_at=None, done_at__lt=Clock() - begins)
    for pk, run_id in list(ends_soon.filter(run__in=Run.objects.unfinished()).values_list("pk", "run_id")[:AT_ONCE]):
        try:
            with locked_run(run_id) as run:
                _tell(run, run.steps.get(pk=pk), window)
        except Exception:
            log.exception("Nobody could be told that an undo in run %s works no longer soon.", run_id)


def _tell(run: Run, step: Step, window: float) -> None:
    if step.window_paged_at is not None or step.state not in STANDS or step.done_at is None or run.has_ended:
        return
    step.window_paged_at = run.now
    step.save(update_fields=["window_paged_at"])
    ends = step.done_at + dt.timedelta(seconds=window)
    said = f"can be undone until {ends:%Y-%m-%d %H:%M} UTC only. Finish the run, or have it undone before."
    subject = f"step {step.number} can't be undone for much longer"
    page(run, subject, f"Step {step.number}, {naming.title_of(step)}, {said}", people=[run.owner], step=step)
