"""No state without a way out: what waits for longer than its bound is told to a person, and what nobody answers ends.

Who was told stands in the log, so that nothing has to be remembered here and every look can be repeated.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable
from functools import partial

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest

from runs import lifecycle, naming, registry
from runs.clock import Clock
from runs.engine.record import conclusive_at
from runs.locking import locked_run
from runs.models import LogEntry, Run, Step
from runs.paging import page
from runs.sections import sections
from runs.states import GOING_FORWARD, IN_EFFECT, RunState, StepState
from sagaboard.accounts.models import User
from sagaboard.templatetags.words import duration

log = logging.getLogger(__name__)
AT_ONCE = 100
WAITING = (StepState.ON_HOLD, StepState.REQUESTED, StepState.UNKNOWN)


def waits_too_long() -> None:
    """Each step in a transaction of its own run; one that fails holds up no other."""
    # Most looks find none at all, by one pass.
    before = Clock() - _seconds(_first_bound())
    aged = Q(requested_at__lt=before) | Q(started_at__lt=before)
    old = list(_in_state(*WAITING).filter(aged).values_list("pk", flat=True))
    for find in (_held, _not_taken, _lost) if old else ():
        for pk, run_id in find().filter(pk__in=old).order_by("pk").values_list("pk", "run_id")[:AT_ONCE]:
            _each(run_id, partial(_deal_with, pk=pk, find=find))


def stands_still() -> None:
    """Runs that wait for a person, or should move and don't: told again and again, until somebody acts."""
    newest = LogEntry.objects.filter(run=OuterRef("pk"), at__gte=Clock() - _seconds(settings.REMIND_EVERY))
    waiting = Q(state__in=[RunState.STUCK, RunState.COMPENSATING, RunState.RELEASING])
    # Asked of each such run, of which there are few, and not of every step there is.
    waiting |= Q(state=RunState.FAILED) & Q(Exists(Step.objects.filter(run=OuterRef("pk"), state__in=IN_EFFECT)))
    # Items in front of reviewers have a clock of their own.
    found = Run.objects.filter(waiting).exclude(pk__in=sections.awaiting()).exclude(Exists(newest))
    for pk in found.values_list("pk", flat=True)[:AT_ONCE]:
        _each(pk, _remind)


def _each(run_id: int, change: Callable[[Run], None]) -> None:
    try:
        with locked_run(run_id) as run:
            change(run)
    except Exception:
        log.exception("What waits for too long in run %s could not be dealt with.", run_id)


def _remind(run: Run) -> None:
    if not run.has_ended and not run.entries.filter(at__gte=run.now - _seconds(settings.REMIND_EVERY)).exists():
        state = run.get_state_display().lower()
        page(run, f"still {state}", f"It has been {state}, and nothing happened, for {duration(settings.REMIND_EVERY)}.")


def _held() -> QuerySet[Step]:
    """Calls on hold that nobody answered: untold, or for so long that they end."""
    held = _waiting_since(F("requested_at"), StepState.ON_HOLD)
    over = _in_state(StepState.ON_HOLD).filter(requested_at__lt=Clock() - _seconds(settings.HELD_AT_MOST))
    return (held | over).filter(run__state__in=GOING_FORWARD)


def _not_taken() -> QuerySet[Step]:
    return _waiting_since(F("requested_at"), StepState.REQUESTED)


def _lost() -> QuerySet[Step]:
    """Calls that may have happened, where no look has told it for too long; in a walk back, since it began."""
    return _waiting_since(Greatest(F("started_at"), Coalesce(F("run__compensating_since"), F("started_at"))), StepState.UNKNOWN)


def _waiting_since(since: Greatest | F, state: StepState) -> QuerySet[Step]:
    told = LogEntry.objects.filter(run=OuterRef("run"), step=OuterRef("pk"), event="run.paged", at__gte=OuterRef("since"))
    waiting = _in_state(state).annotate(since=since).filter(since__lt=Clock() - _seconds(settings.PAGE_AFTER))
    return waiting.exclude(Exists(told))


def _in_state(*states: StepState) -> QuerySet[Step]:
    """By way of the unfinished runs, as the sweep finds steps."""
    return Step.objects.filter(run__in=Run.objects.unfinished(), state__in=states)


def _first_bound() -> float:
    """Nothing that waits for less long is anybody's business yet."""
    return min(settings.PAGE_AFTER, settings.HELD_AT_MOST)


def _deal_with(run: Run, *, pk: int, find: Callable[[], QuerySet[Step]]) -> None:
    """The step as it is behind the lock, where another sweep may have been quicker."""
    step = find().filter(pk=pk).first()
    if step is None:
        return
    if step.state == StepState.ON_HOLD:
        _deal_with_held(run, step)
    elif step.state == StepState.REQUESTED:
        said = f": {step.error}" if step.error else ", and no worker took it"
        _tell(run, step, "is not done yet", f"was asked for at {step.requested_at:%H:%M} UTC{said}.")
    elif step.state == StepState.UNKNOWN:
        _deal_with_lost(run, step)


def _deal_with_held(run: Run, step: Step) -> None:
    assert step.requested_at is not None
    if step.requested_at < run.now - _seconds(settings.HELD_AT_MOST):
        said = f"Nobody let it through within {duration(settings.HELD_AT_MOST)}. Go on without it, or fail the run."
        lifecycle.close(run, step, "expired", actor="engine", said=said)
        page(run, f"step {step.number} was not let through in time", said, people=[run.owner], step=step)
    else:
        _tell(run, step, "is on hold for you", f"waits for a person: {step.error}. Let it through or refuse it.", people=[run.owner])


def _deal_with_lost(run: Run, step: Step) -> None:
    """Nothing is given up: the looks go on, but a walk or a release no longer waits for them in silence."""
    capability = registry.find(step.capability)
    if capability is not None and step.due_at is not None and run.now < conclusive_at(step, capability):
        return
    known = f"may or may not have happened. It began at {step.started_at:%H:%M:%S} UTC; what is known: {step.error or 'no answer'}."
    looks = f" The next look is at {step.due_at:%H:%M:%S} UTC; a person can settle it." if step.due_at else " A person has to settle it."
    if run.state in (RunState.RELEASING, RunState.COMPENSATING):
        lifecycle.stop(run, f"Step {step.number}, {naming.title_of(step)}, {known}{looks}", step=step)
    else:
        _tell(run, step, "may or may not have happened", known + looks)


def _tell(run: Run, step: Step, subject: str, why: str, *, people: Iterable[User] | None = None) -> None:
    said = f"Step {step.number}, {naming.title_of(step)}, {why}"
    page(run, f"step {step.number} {subject}", said, people=people, step=step)


def _seconds(seconds: float) -> dt.timedelta:
    return dt.timedelta(seconds=seconds)
