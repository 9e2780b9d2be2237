"""The queue as one person sees it: what waits for them, what for others and why, what is held, what is on its way."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet, Value, Window
from django.utils import timezone

from outbox.models import Item, ItemQuerySet
from outbox.policies import Approver, Reader, approvers_for_clients, if_decider
from outbox.states import ItemState
from runs import news
from runs.pauses import WAITING
from runs.states import Audience, RunState
from sagaboard.accounts.models import User

# Rows of a group; a group that has more says so.
AT_MOST = 30
PAGE = 50
# From here on an item is marked with a clock.
SOON = dt.timedelta(minutes=30)


@dataclasses.dataclass(frozen=True)
class Filters:
    """What the queue is narrowed to. A wrong value narrows nothing."""

    q: str = ""
    audience: str = ""
    soon: bool = False

    @classmethod
    def read(cls, given: dict[str, str]) -> Filters:
        text = given.get("q", "").replace("\x00", "").strip()[:200]
        audience = given.get("audience", "")
        return cls(text, audience if audience in Audience.values else "", given.get("soon", "") == "1")

    def narrow(self, items: ItemQuerySet, now: dt.datetime) -> ItemQuerySet:
        if self.q:
            items = items.matching(self.q)
        if self.audience:
            items = items.filter(step__audience=self.audience)
        return items.filter(expires_at__lt=now + SOON) if self.soon else items

    @property
    def query(self) -> str:
        """The same as the end of an address; "" for none."""
        given = {"q": self.q, "audience": self.audience, "soon": "1" if self.soon else ""}
        return urlencode({name: value for name, value in given.items() if value})


@dataclasses.dataclass(frozen=True)
class Row:
    """One waiting call. `why` says for whom or for what it waits; `icon` the same as a shape."""

    item: Item
    icon: str
    why: str = ""
    soon: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """A part of the queue; `count` is how many there are, of which the first are `rows`."""

    title: str
    count: int
    rows: list[Row]
    for_you: bool = False

    @property
    def note(self) -> str:
        return f"the first {len(self.rows)} of {self.count}" if self.count > len(self.rows) else str(self.count)


@dataclasses.dataclass(frozen=True)
class Inbox:
    groups: list[Group]
    for_you: int
    for_others: int
    filters: Filters
    # The moment it was made, as `runs.news` names it.
    at: str
    # None for a person who decides something here.
    onlooker: User | None = None

    def next_after(self, item: Item) -> Item | None:
        """The next item that waits for this person, after they dealt with `item`."""
        mine = (row.item for group in self.groups if group.for_you for row in group.rows)
        return next((one for one in mine if one.pk != item.pk), None)

    @property
    def approvers(self) -> list[User]:
        """Whom an onlooker may ask."""
        return approvers_for_clients(self.onlooker) if self.onlooker else []

    @property
    def seen(self) -> str:
        """Changes when anything that the queue shows has changed, and only then."""
        facts = [
            (group.title, group.count, row.item.pk, row.item.state, row.item.digest, row.why, row.soon)
            for group in self.groups
            for row in group.rows
        ]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def inbox_of(user: User, filters: Filters | None = None) -> Inbox:
    """Everything open that this person may see, as far as `filters` let through; the oldest first."""
    now, reader, filters = timezone.now(), Reader(user), filters or Filters()
    asked = filters.narrow(Item.objects.open(), now)
    # Whoever may decide an item sees it.
    items, mine = asked.visible_to(user), asked.waiting_for(user)
    others = items.decidable().exclude(pk__in=Item.objects.open().waiting_for(user).values("pk"))
    parts: list[Part] = [
        ("For you", mine, lambda item: Row(item, "await", _what_for(item), _ends_soon(item, now))),
        ("For someone else", others, lambda item: _elsewhere(reader, item, now)),
        ("Expired, for you to ask again or drop", items.expired().filter(step__run__owner=user), _row("expired", _expired)),
        ("Approved, not sent yet", items.approved(), _row("approved", _on_its_way)),
        ("Held until their run is green", items.filter(state=ItemState.HELD), _row("queued", _held)),
    ]
    groups, last, decides = _groups(parts, user)
    shown = [group for group in groups if group.count or (group.for_you and decides)]
    return Inbox(shown, groups[0].count, groups[1].count, filters, news.mark(last), None if decides else user)


def decided(user: User, *, before: int = 0) -> list[Item]:
    """What is over: sent, rejected, withdrawn, dropped; the newest first, a page at a time."""
    items = Item.objects.visible_to(user).decided().with_everything().order_by("-pk")
    return list((items.filter(pk__lt=before) if before else items)[:PAGE])


Part = tuple[str, ItemQuerySet, Callable[[Item], Row]]
LOG, DECIDER = -1, -2


def _groups(parts: list[Part], user: User) -> tuple[list[Group], list[int], bool]:
    """All groups, the log's newest entries, and whether this person decides anything: by one query, and one for what the rows say."""
    firsts = [_first(number, items) for number, (_, items, _) in enumerate(parts)]
    part_of: dict[int, int] = {}
    counts = dict.fromkeys(range(len(parts)), 0)
    besides = [rows.annotate(part=Value(part), count=Value(0)) for part, rows in ((LOG, news.newest()), (DECIDER, if_decider(user)))]
    last, decides = [], False
    for number, pk, count in firsts[0].union(*firsts[1:], *(rows.values_list("part", "pk", "count") for rows in besides), all=True):
        if number == LOG:
            last.append(pk)
        elif number == DECIDER:
            decides = True
        else:
            part_of[pk], counts[number] = number, count
    rows: dict[int, list[Row]] = defaultdict(list)
    for item in Item.objects.filter(pk__in=part_of).for_queue(user).in_queue_order():
        rows[part_of[item.pk]].append(parts[part_of[item.pk]][2](item))
    return [Group(title, counts[number], rows[number], number == 0) for number, (title, _, _) in enumerate(parts)], last, decides


def _first(number: int, items: ItemQuerySet) -> QuerySet[Item, Any]:
    counted = items.in_queue_order().annotate(part=Value(number), count=Window(Count("pk")))
    return counted.values_list("part", "pk", "count")[:AT_MOST]


def _row(icon: str, why: Callable[[Item], str]) -> Callable[[Item], Row]:
    return lambda item: Row(item, icon, why(item))


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
    if item.step.error.startswith(WAITING):
        return item.step.error.partition(" UTC")[0].replace(WAITING, WAITING.lower()) + " UTC"
    return "going out" if item.step.tries or item.is_gate else "waits for the others of its run"


def _held(item: Item) -> str:
    run = item.step.run
    return "waits for its checks" if run.state == RunState.CHECKING else "its agent is still at work"


def _ends_soon(item: Item, now: dt.datetime) -> bool:
    return item.expires_at is not None and item.expires_at - now < SOON
