"""Sends what is due to reviewers: one mail for all that is due to a person, one signed call for each notice of a webhook.

A row is taken before anything is sent, by putting its next try off; so a lost process leaves it due, and two processes never
send one at the same time. A mail that went out just before its process died is sent again under the same Message-ID.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import logging

import httpx
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

from outbox import notices
from outbox.models import Notice
from runs.clock import Clock
from runs.storable import text
from sagaboard.accounts.models import User

log = logging.getLogger(__name__)
TIMEOUT = 5.0
PREFIX = "whsec_"


def tell() -> None:
    """Everything that is due now."""
    due = Notice.objects.filter(pk__in=notices.due())
    for person_id in set(due.exclude(person=None).values_list("person", flat=True)):
        _mail(person_id)
    for pk in list(due.filter(person=None).order_by("pk").values_list("pk", flat=True)):
        _call(pk)


def _mail(person_id: int) -> None:
    taken = _take(person=person_id)
    if not taken:
        return
    person = User.objects.get(pk=person_id)
    mail = notices.mail_of(person, taken)
    try:
        if person.email:
            # The same at every try, so that a mailbox shows a doubled one as what it is.
            headers = {"Message-ID": f"<notice-{taken[0].pk}-{len(taken)}@sagaboard>"}
            EmailMessage(mail.subject, mail.body, to=[person.email], headers=headers).send()
    except Exception as exc:  # whatever the mail server did, the rows stay due
        _failed(taken, exc)
    else:
        _told(taken, "" if person.email else "this person has no address")


def _call(pk: int) -> None:
    for notice in _take(pk=pk):
        hook = settings.SAGABOARD_WEBHOOKS.get(notice.webhook)
        if hook is None:
            _told([notice], "no webhook is called that any more")
            continue
        try:
            _post(hook, notice)
        except Exception as exc:  # whatever came back, the row stays due
            _failed([notice], exc)
        else:
            _told([notice], "")


def _post(hook: dict[str, str], notice: Notice) -> None:
    """One call as Standard Webhooks has it: the id is the same at every try."""
    now = timezone.now()
    document = {"type": f"item.{notice.kind}", "timestamp": now.isoformat(), "data": notices.facts_of(notice)}
    body = json.dumps(document, separators=(",", ":")).encode()
    name, moment = f"msg_{notice.pk}", str(int(now.timestamp()))
    headers = {
        "content-type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": signature(hook["secret"], name, moment, body),
    }
    answer = httpx.post(hook["url"], content=body, headers=headers, timeout=TIMEOUT, follow_redirects=False)
    if not answer.is_success:
        raise RuntimeError(f"it answered {answer.status_code}")


def signature(secret: str, name: str, moment: str, body: bytes) -> str:
    """The header's value: HMAC-SHA256 over id, time and body, with the secret that the receiver has too."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.new(key, b".".join([name.encode(), moment.encode(), body]), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def _take(**which: object) -> list[Notice]:
    """Due rows for this process alone. What is no longer so is closed here, unsent."""
    with transaction.atomic(durable=True):
        rows = Notice.objects.filter(delivered_at=None, due_at__lte=Clock(), **which).select_for_update(skip_locked=True, of=("self",))
        found = list(rows.select_related("item__step", "person").order_by("due_at", "pk"))
        so = [notice for notice in found if notices.still_waits(notice)]
        for notice in so:
            wait = dt.timedelta(seconds=min(30 * 2**notice.attempts, 3600))
            Notice.objects.filter(pk=notice.pk).update(attempts=notice.attempts + 1, due_at=Clock() + wait)
        _told([notice for notice in found if notice not in so], "it waited no longer")
        return so


def _told(told: list[Notice], error: str) -> None:
    Notice.objects.filter(pk__in=[notice.pk for notice in told]).update(delivered_at=Clock(), error=error)


def _failed(told: list[Notice], exc: Exception) -> None:
    log.warning("%s notices were not delivered: %s", len(told), exc)
    Notice.objects.filter(pk__in=[notice.pk for notice in told]).update(error=text(exc))
