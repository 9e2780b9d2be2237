"""Counting and listing in sentences, for what pages say of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from runs import naming
from runs.models import Step
from sagaboard.templatetags.words import counted as counted_word


def word(number: int) -> str:
    """`three`, `none`."""
    return counted_word(number, "x").split()[0] if number else "none"


def counted(things: Sized, one: str, many: str = "") -> str:
    """`Three effects`, at the beginning of a sentence."""
    return capital(counted_word(len(things), one, many))


def is_are(things: Sized, one: str = "is", many: str = "are") -> str:
    return one if len(things) == 1 else many


def calls(steps: Sized, one: str = "is", many: str = "are") -> str:
    """`Two calls wait`."""
    return f"{counted(steps, 'call')} {is_are(steps, one, many)}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(names: Iterable[str]) -> str:
    """`ticket, summary, partner and 2 more`."""
    found = [name for name in names if name]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def names(steps: Iterable[Step]) -> str:
    return listed(naming.short_name(step) for step in steps)
