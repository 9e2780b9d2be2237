"""Delivers pages to people by e-mail, each once as far as mail can tell, with later and later tries until it is taken."""

from __future__ import annotations

import datetime as dt
import logging

from django.core.mail import EmailMessage
from django.db import transaction

from runs.clock import Clock
from runs.models import Page
from runs.storable import text

log = logging.getLogger(__name__)
AT_ONCE = 20


def pages_due() -> None:
    """Sends what is due. The row says what was delivered; each is taken by one process."""
    for pk in list(Page.objects.filter(delivered_at=None, due_at__lte=Clock()).values_list("pk", flat=True)[:AT_ONCE]):
        page = _take(pk)
        if page is not None:
            _deliver(page)


def _take(pk: int) -> Page | None:
    """This page for this process alone: its next try is put off before it is sent, never after."""
    with transaction.atomic(durable=True):
        page = Page.objects.select_for_update(skip_locked=True).filter(pk=pk, delivered_at=None, due_at__lte=Clock()).first()
        if page is not None:
            page.attempts += 1
            wait = dt.timedelta(seconds=min(30 * 2**page.attempts, 3600))
            Page.objects.filter(pk=pk).update(attempts=page.attempts, due_at=Clock() + wait)
        return page


def _deliver(page: Page) -> None:
    try:
        if page.person.email:
            # The id is the same at every try, so that a mailbox shows a doubled one as what it is.
            headers = {"Message-ID": f"<page-{page.pk}@sagaboard>"}
            EmailMessage(page.subject, page.body, to=[page.person.email], headers=headers).send()
    except Exception as exc:  # whatever the mail server did, the row stays due
        log.warning("Page %s was not delivered: %s", page.pk, exc)
        Page.objects.filter(pk=page.pk).update(error=text(exc))
    else:
        error = "" if page.person.email else "this person has no address"
        Page.objects.filter(pk=page.pk).update(delivered_at=Clock(), error=error)
