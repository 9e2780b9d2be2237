"""The queue as one person sees it: what waits for them, what for others and why, what is held, what is on its way."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Callable

from django.utils import timezone

from outbox.models import Item
from outbox.policies import Approver
from outbox.states import ItemState
from runs.states import RunState
from sagaboard.accounts.models import User

AT_MOST = 200
PAGE = 50
# From here on an item is marked with a clock.
SOON = dt.timedelta(minutes=30)


@dataclasses.dataclass(frozen=True)
class Row:
    """One waiting call. `why` says for whom or for what it waits; `icon` the same as a shape."""

    item: Item
    icon: str
    why: str = ""
    soon: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """A part of the queue."""

    title: str
    note: str
    rows: list[Row]


@dataclasses.dataclass(frozen=True)
class Inbox:
    groups: list[Group]
    for_you: int
    for_others: int

    @property
    def seen(self) -> str:
        """Changes when anything that the queue shows has changed, and only then."""
        facts = [
            (group.title, row.item.pk, row.item.state, row.item.digest, row.why, row.soon) for group in self.groups for row in group.rows
        ]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def inbox_of(user: User) -> Inbox:
    """Everything open that this person may see."""
    now, approver = timezone.now(), Approver(user)
    items = list(Item.objects.visible_to(user).open().with_everything().order_by("awaiting_since", "queued_at", "pk")[:AT_MOST])
    mine = [Row(item, "await", _what_for(item), _ends_soon(item, now)) for item in items if approver.waits(item)]
    theirs = [_elsewhere(approver, item, now) for item in items if item.is_awaiting and not approver.waits(item)]
    groups = [
        Group("For you", "oldest first" if mine else "nothing waits for you", mine),
        _group("For someone else", theirs),
        _group("Expired, for you to ask again or drop", _rows(items, ItemState.EXPIRED, "expired", _expired, of=user)),
        _group("Approved, not sent yet", _rows(items, ItemState.APPROVED, "approved", _on_its_way)),
        _group("Held until their run is green", _rows(items, ItemState.HELD, "queued", _held)),
    ]
    return Inbox([group for group in groups if group.rows or group.title == "For you"], len(mine), len(theirs))


def decided(user: User, *, before: int = 0) -> list[Item]:
    """What is over: sent, rejected, withdrawn, dropped; the newest first, a page at a time."""
    items = Item.objects.visible_to(user).decided().with_everything().order_by("-pk")
    return list((items.filter(pk__lt=before) if before else items)[:PAGE])


def next_for(user: User, item: Item) -> Item | None:
    """The next item that waits for this person, after they dealt with `item`."""
    approver = Approver(user)
    waiting = Item.objects.visible_to(user).awaiting().exclude(pk=item.pk).with_everything().order_by("awaiting_since", "pk")
    return next((one for one in waiting[:AT_MOST] if approver.waits(one)), None)


def _group(title: str, rows: list[Row]) -> Group:
    return Group(title, str(len(rows)), rows)


def _rows(items: list[Item], state: ItemState, icon: str, why: Callable[[Item], str], *, of: User | None = None) -> list[Row]:
    return [Row(item, icon, why(item)) for item in items if item.state == state and (of is None or item.step.run.owner_id == of.pk)]


def _elsewhere(approver: Approver, item: Item, now: dt.datetime) -> Row:
    soon = _ends_soon(item, now)
    if approver.said_yes(item):
        return Row(item, "await", f"needs {item.quorum} yeses, has {len(item.standing())} with yours", soon)
    if approver.no_right(item):
        return Row(item, "await", "another group decides it", soon)
    return Row(item, "lock", approver.same_eyes(item), soon)


def _what_for(item: Item) -> str:
    if item.is_gate:
        return "gate: the run waits for the result"
    said = item.standing()
    if said:
        return f"needs {item.quorum} yeses, has {len(said)} ({', '.join(one.by_name for one in said)})"
    return ""


def _expired(item: Item) -> str:
    return "nobody answered in time; nothing was sent"


def _on_its_way(item: Item) -> str:
    return "going out" if item.step.tries or item.is_gate else "waits for the others of its run"


def _held(item: Item) -> str:
    run = item.step.run
    return "waits for its checks" if run.state == RunState.CHECKING else "its agent is still at work"


def _ends_soon(item: Item, now: dt.datetime) -> bool:
    return item.expires_at is not None and item.expires_at - now < SOON
