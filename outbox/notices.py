"""Tells reviewers what waits for them: planned as rows by the sweep, sent when due, each once, with nothing secret in them.

A notice says that something waits, where, and until when. What would be sent, and every word of an agent, stays behind the
login: mails are forwarded, and bridges keep what they are given.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import zoneinfo
from collections.abc import Iterable

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from outbox.models import Item, Notice
from outbox.policies import approvers
from outbox.states import NoticeKind
from runs.clock import Clock
from runs.paging import on_call
from sagaboard.accounts.models import User

AT_ONCE = 100
# Before the end reviewers hear of it once more, and so do the owner and on-call.
BEFORE_THE_END = dt.timedelta(minutes=30)
SAYS = {
    NoticeKind.WAITING: "waits for a decision",
    NoticeKind.REMINDER: "still waits for a decision",
    NoticeKind.ENDING: "expires soon, undecided",
}


def plan() -> None:
    """Writes down who is to be told of what came in front of people since, and when they are reminded."""
    fresh = Item.objects.decidable().filter(Q(told_for=None) | ~Q(told_for=F("awaiting_since")))
    for item in fresh.with_everything().in_queue_order()[:AT_ONCE]:
        with transaction.atomic():
            # Planned twice at once, the constraint keeps one row of each.
            Notice.objects.bulk_create(_of(item), ignore_conflicts=True)
            Item.objects.filter(pk=item.pk).update(told_for=item.awaiting_since)


def _of(item: Item) -> Iterable[Notice]:
    assert item.awaiting_since is not None and item.expires_at is not None, "in front of people"
    begun, ends = item.awaiting_since, item.expires_at
    half = begun + (ends - begun) / 2
    last = max(half + (ends - half) / 2, ends - BEFORE_THE_END)
    deciders = [person for person in approvers(item) if person.mail != User.Mail.NONE]
    others = [person for person in {item.step.run.owner, *on_call(item.step.run)} if person.is_active and person not in deciders]
    rounds = [(NoticeKind.WAITING, begun, deciders), (NoticeKind.REMINDER, half, deciders), (NoticeKind.ENDING, last, [*deciders, *others])]
    for kind, due, people in rounds:
        yield from (Notice(item=item, round=begun, kind=kind, person=person, due_at=due_for(person, due)) for person in people)
        yield from (Notice(item=item, round=begun, kind=kind, webhook=name, due_at=due) for name in settings.SAGABOARD_WEBHOOKS)


def due_for(person: User, at: dt.datetime) -> dt.datetime:
    """When this person may be told: not in their quiet hours, and together at their hour where they chose one mail a day."""
    zone = zoneinfo.ZoneInfo(person.time_zone)
    local = at.astimezone(zone)
    if person.mail == User.Mail.DIGEST:
        local = _next(local, dt.time(person.digest_hour))
    return _after_quiet(person, local).astimezone(dt.UTC)


def _after_quiet(person: User, local: dt.datetime) -> dt.datetime:
    begins, ends = person.quiet_from, person.quiet_until
    if begins is None or ends is None or begins == ends:
        return local
    now = local.time()
    quiet = begins <= now < ends if begins < ends else now >= begins or now < ends
    return _next(local, ends) if quiet else local


def _next(local: dt.datetime, hour: dt.time) -> dt.datetime:
    """The next time that clocks there show `hour`."""
    at = local.replace(hour=hour.hour, minute=hour.minute, second=0, microsecond=0)
    return at if at >= local else at + dt.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Telling:
    """One mail: the notices it is made of, and its words."""

    notices: list[Notice]
    subject: str
    body: str


def still_waits(notice: Notice) -> bool:
    """Whether it is still so: the item waits, in the same round, for this very person where it is theirs to decide."""
    item = Item.objects.decidable().filter(pk=notice.item_id, awaiting_since=notice.round).first()
    if item is None:
        return False
    if notice.person is None or notice.kind == NoticeKind.ENDING:
        return True
    return Item.objects.waiting_for(notice.person).filter(pk=item.pk).exists()


def mail_of(person: User, notices: list[Notice]) -> Telling:
    """One mail for all that is due to this person."""
    zone = zoneinfo.ZoneInfo(person.time_zone)
    lines = [line_of(notice, zone) for notice in notices]
    first = notices[0]
    subject = f"{_what(first.item)} {SAYS[NoticeKind(first.kind)]}" if len(notices) == 1 else f"{len(notices)} calls wait for a decision"
    body = (
        "\n\n".join(lines)
        + f"\n\nAll that waits for you: {settings.SAGABOARD_URL}/outbox/\nHow you are told: {settings.SAGABOARD_URL}/me/\n"
    )
    return Telling(notices, subject, body)


def line_of(notice: Notice, zone: dt.tzinfo) -> str:
    item = notice.item
    ends = f"{item.expires_at.astimezone(zone):%a %d %b %H:%M %Z}" if item.expires_at else ""
    where = f"{settings.SAGABOARD_URL}{item.get_absolute_url()}"
    return f"{_what(item)} {SAYS[NoticeKind(notice.kind)]}, until {ends}.\nRead by {item.step.audience}. Run {item.step.run_id}.\n{where}"


def facts_of(notice: Notice) -> dict[str, object]:
    """What a webhook is told: facts and addresses, nobody's words."""
    item = notice.item
    return {
        "item": item.pk,
        "run": item.step.run_id,
        "step": item.step.number,
        "capability": item.step.capability,
        "audience": item.step.audience,
        "gate": item.is_gate,
        "waiting_since": item.awaiting_since.isoformat() if item.awaiting_since else None,
        "expires_at": item.expires_at.isoformat() if item.expires_at else None,
        "url": f"{settings.SAGABOARD_URL}{item.get_absolute_url()}",
    }


def _what(item: Item) -> str:
    return f"A call of {item.step.capability}"


def due() -> list[int]:
    """What is to be told now."""
    return list(Notice.objects.filter(delivered_at=None, due_at__lte=Clock()).order_by("due_at").values_list("pk", flat=True)[:AT_ONCE])
