"""Delivers pages: by e-mail to people, by apprise into services, with later and later tries until each is taken.

Each is due work with a lease, like a step. A worker killed between the sending and its record is the one case in which
a page may come twice: being called twice beats not being called, and the second says so and has the same Message-ID.
"""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from runs import bell
from runs.clock import Clock
from runs.engine.attempt import worker_name
from runs.models import Page
from runs.storable import text

log = logging.getLogger(__name__)
AT_ONCE = 20
# Longer than a mail server or a service may take to answer.
LEASE = 120.0
FIRST_WAIT, LONGEST_WAIT = 30, 3600
AGAIN = "\n(Sent again: an earlier attempt was cut off, and may have reached you.)\n"


class NotDeliverable(Exception):
    """Why this can't go out as things are; it is tried again later, when somebody may have put it right."""


def ring_due() -> None:
    """Calls a worker if pages are due; frozen or not, people are told."""
    if Page.objects.all().due().exists():
        bell.ring("runs.tasks.deliver_pages")


def pages_due() -> None:
    """Sends what is due. The row says what was delivered; each is taken by one process."""
    for pk in list(Page.objects.all().due().order_by("due_at").values_list("pk", flat=True)[:AT_ONCE]):
        page = _take(pk)
        if page is not None:
            _deliver(page)


def _take(pk: int) -> Page | None:
    """This page for this process alone."""
    with transaction.atomic(durable=True):
        page = Page.objects.select_for_update(skip_locked=True).due().filter(pk=pk).first()
        if page is not None:
            page.save(update_fields=page.take_lease(LEASE, worker_name()))
        return page


def _deliver(page: Page) -> None:
    # An attempt that ended left its error; one that was cut off left nothing.
    body = page.body + (AGAIN if page.attempt > 1 and not page.error else "")
    try:
        receipt = _into_service(page, body) if page.service else _by_mail(page, body)
    except Exception as exc:  # whatever the mail server or the service did, the row stays due
        log.warning("Page %s was not delivered: %s", page.pk, exc)
        wait = dt.timedelta(seconds=min(FIRST_WAIT * 2**page.attempt, LONGEST_WAIT))
        _record(page, error=text(exc), due_at=Clock() + wait)
    else:
        _record(page, delivered_at=Clock(), receipt=receipt, error="")


def _record(page: Page, **fields: Any) -> None:
    """Names the attempt, so that a late one changes nothing."""
    Page.objects.undelivered().filter(pk=page.pk, attempt=page.attempt).update(lease_until=None, **fields)


def _by_mail(page: Page, body: str) -> str:
    assert page.person is not None
    if not page.person.is_active or not page.person.email:
        raise NotDeliverable(f"{page.person} has no address, or no account any more")
    # The id is the same at every try, so that a mailbox shows a doubled one as what it is.
    headers = {"Message-ID": f"<page-{page.pk}@sagaboard>"}
    EmailMessage(page.subject, body, to=[page.person.email], headers=headers).send()
    return "taken by the mail server"


def _into_service(page: Page, body: str) -> str:
    at = settings.PAGE_SERVICES.get(page.service)
    if at is None:
        raise NotDeliverable(f"SAGABOARD_PAGE_SERVICES names no “{page.service}” any more")
    try:
        import apprise
    except ImportError:
        raise NotDeliverable("services want apprise: install the extra, sagaboard[services]") from None
    service = apprise.Apprise()
    if not service.add(at["url"]):
        raise NotDeliverable(f"apprise does not understand the address of “{page.service}”")
    if not service.notify(title=page.subject, body=body):
        raise NotDeliverable(f"“{page.service}” did not take it")
    return f"taken by {page.service}"
