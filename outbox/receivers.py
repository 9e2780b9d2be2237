"""What the outbox hears from runs, inside the sender's transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db.models import Count, F
from django.dispatch import receiver

from outbox import notices, policies, release, services
from outbox.models import Item, ItemQuerySet
from outbox.states import ItemState
from runs import bell, lateness, signals
from runs.capability import Payload
from runs.clock import Clock
from runs.locking import locked_run
from runs.models import Run, Step
from runs.sections import sections
from runs.states import RunState

AT_ONCE = 200
log = logging.getLogger(__name__)


@receiver(signals.step_queued)
def put_into_outbox(sender: Any, run: Run, step: Step, **kwargs: Any) -> None:
    services.queue(run, step)


@receiver(signals.step_sending)
def let_it_go(sender: Any, run: Run, step: Step, **kwargs: Any) -> Payload:
    return release.check_sending(run, step)


@receiver(signals.step_sent)
def next_one(sender: Any, run: Run, step: Step, **kwargs: Any) -> None:
    services.mark_sent(run, step)


@receiver(signals.step_closed)
def leave_the_queue(sender: Any, run: Run, step: Step, **kwargs: Any) -> None:
    services.withdraw(run, step)


@receiver(signals.run_released)
def open_items(sender: Any, run: Run, **kwargs: Any) -> None:
    release.open_for_decision(run)


@receiver(signals.run_failed)
def leave_nothing_behind(sender: Any, run: Run, **kwargs: Any) -> None:
    release.withdraw_rest(run)


@receiver(signals.sweeping)
def expire_items(sender: Any, **kwargs: Any) -> None:
    """What nobody answered in time, approvals that ran out, and what dead runs left; each in a transaction of its own run."""
    overdue = Item.objects.filter(expires_at__lte=Clock())
    for pk, run_id in overdue.awaiting().values_list("pk", "step__run_id")[:AT_ONCE]:
        _each(run_id, partial(_expire, pk=pk))
    for run_id in _runs(overdue.approved().filter(step__run__state=RunState.RELEASING, step__tries=0)):
        _each(run_id, release.expire_lapsed)
    for run_id in _runs(Item.objects.all().of_ended_runs()):
        _each(run_id, release.withdraw_rest)


@receiver(signals.sweeping)
def tell_reviewers(sender: Any, **kwargs: Any) -> None:
    """Who is to be told of what waits; a worker tells them."""
    notices.plan()
    if notices.due():
        bell.ring("outbox.tasks.tell_reviewers")


def _each(run_id: int, change: Callable[[Run], object]) -> None:
    """One change in a transaction of its own; one that fails is the next sweep's, and holds up no other."""
    try:
        with locked_run(run_id) as run:
            change(run)
    except Exception:
        log.exception("The outbox could not deal with what is overdue in run %s.", run_id)


def _expire(run: Run, *, pk: int) -> None:
    item = Item.objects.select_related("step", "policy").get(pk=pk)
    if item.state == ItemState.AWAITING and item.expires_at and item.expires_at <= run.now:
        release.expire(run, item)


def _runs(items: ItemQuerySet) -> set[int]:
    return set(items.values_list("step__run", flat=True)[:AT_ONCE])


def _item(item: Any) -> dict[str, Any]:
    return {
        "state": item.state,
        "label": item.get_state_display(),
        "url": item.get_absolute_url(),
        "digest": item.digest,
        "expires_at": item.expires_at,
        "decided_by": item.decided_by or "",
        "said": item.said or "",
    }


def _item_of(step: Step) -> dict[str, Any] | None:
    item = Item.objects.filter(step=step).with_last_decision().first()
    return _item(item) if item else None


def _items_of(run: Run) -> dict[int, dict[str, Any]]:
    return {item.step_id: _item(item) for item in Item.objects.filter(step__run=run).with_last_decision()}


def _awaiting() -> dict[int, int]:
    """How many items of each run wait for a person."""
    return dict(Item.objects.awaiting().values_list("step__run").annotate(number=Count("pk")).order_by())


sections.item_of = _item_of
sections.awaiting = _awaiting
sections.goes_out = policies.goes_out
sections.items_of = _items_of
lateness.due.append(lateness.Due("expiry", lambda: Item.objects.all().awaiting().filter(expires_at__lte=Clock()), F("expires_at")))
