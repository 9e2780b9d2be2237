"""Targets that asked for a pause: until it is over no call goes to them, from whichever run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models.functions import Greatest

from runs.models import TargetPause

WAITING = "Waiting for "


def in_words(target: str, until: dt.datetime, why: str) -> str:
    """What a step that waits says of itself."""
    return f"{WAITING}{target} until {until:%H:%M:%S} UTC: {why}"


def targets_in(value: Any) -> Iterator[str]:
    """Every configured target that is named anywhere in a call's arguments."""
    if isinstance(value, str):
        if value in settings.SAGABOARD_TARGETS:
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from targets_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from targets_in(part)


def pause(args: Any, *, until: dt.datetime, why: str) -> None:
    """No call to these targets before `until`; a pause never gets shorter by a later word."""
    for target in sorted(set(targets_in(args))):
        made = TargetPause.objects.get_or_create(target=target, defaults={"until": until, "why": why})[1]
        if not made:
            TargetPause.objects.filter(target=target).update(until=Greatest("until", until), why=why)


def paused(args: Any, now: dt.datetime) -> TargetPause | None:
    """The longest pause that holds at `now` for a target of this call."""
    targets = set(targets_in(args))
    return TargetPause.objects.filter(target__in=targets, until__gt=now).order_by("-until").first() if targets else None
