"""What a reader of a waiting call must not miss: what can't be seen in it, and what is unusual about it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.db.models import QuerySet, Value
from django.utils import timezone

from outbox.characters import show
from outbox.models import Item, Version
from outbox.payloads import Sheet
from outbox.states import ItemState

DAY = dt.timedelta(hours=24)


def warnings_of(item: Item, sheet: Sheet, unusual: dict[int, list[str]]) -> list[str]:
    """A sentence each; none once nothing more can be decided. `unusual` is what was found of it and others."""
    if item.closed_at is not None:
        return [*sheet.warnings]
    return [*sheet.warnings, *_around(item), *_strangers(item, sheet), *unusual[item.pk]]


def recipients(sheet: Sheet) -> list[str]:
    """Everybody it is addressed to."""
    given = sheet.payload.to.get("recipient") or []
    return [str(one) for one in given] if isinstance(given, list) else [part.strip() for part in str(given).split(",")]


def _around(item: Item) -> Iterator[str]:
    """What hides in the words beside the payload, which are an agent's too."""
    run = item.step.run
    parts = {"title": str(item), "agent’s reason": item.step.why, "run’s title": run.title, "agent’s name": run.agent}
    parts["target"] = " ".join(str(value) for value in item.current.to.values())
    for name, text in parts.items():
        shown = show(text)
        if shown.count_hidden:
            yield f"The {name} has {shown.count_hidden} characters that can’t be seen"
        if shown.mixed:
            yield f"The {name} mixes alphabets"


def _strangers(item: Item, sheet: Sheet) -> Iterator[str]:
    """Recipients outside the domains that the policy names."""
    domains = [domain.lower().lstrip("@.") for domain in (item.policy.domains if item.policy else [])]
    if not domains:
        return
    for recipient in recipients(sheet):
        domain = recipient.rpartition("@")[2].rstrip(">").lower()
        if not any(domain == known or domain.endswith(f".{known}") for known in domains):
            yield f"{recipient} is outside the domains that the policy names ({', '.join(domains)})"


def unusual(items: list[Item]) -> dict[int, list[str]]:
    """Of each item: a host never written to before, and the same text sent lately. One query, however many they are."""
    asked = [(f"{what} {item.pk}", rows[:1]) for item in items if item.closed_at is None for what, rows in _sent_like(item).items()]
    parts = [rows.annotate(what=Value(name)).values_list("what", flat=True) for name, rows in asked]
    found = set(parts[0].union(*parts[1:], all=True)) if parts else set()
    names = {name for name, _ in asked}
    return {item.pk: list(_in_words(item, names, found)) for item in items}


def _in_words(item: Item, asked: set[str], found: set[str]) -> Iterator[str]:
    if f"host {item.pk}" in asked - found:
        yield "Nothing was ever sent to this host through sagaboard"
    if f"text {item.pk}" in found:
        yield "The same text went to the same recipient within the last 24 h"


def _sent_like(item: Item) -> dict[str, QuerySet[Version]]:
    """What was sent to its host, and what says the same to the same recipient."""
    version = item.current
    sent = Version.objects.filter(item__state=ItemState.SENT).exclude(item=item)
    same = sent.filter(body=version.body, to__recipient=version.to.get("recipient"), item__closed_at__gt=timezone.now() - DAY)
    parts = urlsplit(str(version.to.get("url") or ""))
    # With the slash: “https://acme.example” is the beginning of “https://acme.example.evil” too.
    host = {"host": sent.filter(to__url__startswith=f"{parts.scheme}://{parts.netloc}/")} if parts.netloc else {}
    return {**host, "text": same}
