"""Secret arguments: an agent names one, a worker looks it up for the call, and nothing that is stored holds its text."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, TypeVar

from django.conf import settings

from runs.capability import Call, Capability
from runs.exceptions import NoEffect, TryLater

HIDDEN = "•••"
REFERENCE = re.compile(r"secret:([A-Za-z0-9_.-]{1,80})")
T = TypeVar("T")


class CallFailed(Exception):
    """What a call raised, in its own words but for the secrets in them."""


def problems(capability: Capability[Any], args: dict[str, Any]) -> list[str]:
    """What is wrong with the secret arguments, a sentence each; a raw value is, and is not repeated."""
    given = {name: args[name] for name in capability.secret if name in args}
    return [
        f"{name}: this is secret; give a reference, “secret:NAME”, never the text itself"
        for name, value in given.items()
        if not isinstance(value, str) or not REFERENCE.fullmatch(value)
    ]


def revealed(call: Call[Any]) -> tuple[Call[Any], tuple[str, ...]]:
    """The call with the texts its references stand for, and those texts; NoEffect for one that this worker does not have."""
    found = {name: _text(name, getattr(call.args, name)) for name in call.secret if getattr(call.args, name, None)}
    return dataclasses.replace(call, args=call.args.model_copy(update=found)), tuple(found.values())


def _text(argument: str, reference: str) -> str:
    match = REFERENCE.fullmatch(reference)
    text = settings.SAGABOARD_SECRETS.get(match[1]) if match else None
    if not isinstance(text, str) or not text:
        raise NoEffect(f"{argument}: this worker has no secret “{reference}”. Add it to SAGABOARD_SECRETS. Nothing was called.")
    return text


def scrubbed(value: T, texts: tuple[str, ...]) -> T:
    """The same document without these texts."""
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, HIDDEN)  # type: ignore[assignment]
        return value
    if isinstance(value, dict):
        return {scrubbed(name, texts): scrubbed(inner, texts) for name, inner in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)):
        return [scrubbed(inner, texts) for inner in value]  # type: ignore[return-value]
    return value


def scrubbed_error(exc: Exception, texts: tuple[str, ...]) -> Exception:
    """An error that says the same, and of the same outcome, without these texts."""
    if isinstance(exc, TryLater):
        return TryLater(scrubbed(exc.reason, texts), exc.after)
    if isinstance(exc, NoEffect):
        return NoEffect(scrubbed(exc.reason, texts))
    return CallFailed(f"{type(exc).__name__}: {scrubbed(str(exc), texts)}")
