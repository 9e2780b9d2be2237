"""Refused edits and sends, each a sentence about what is so now."""

from __future__ import annotations


class NotSendable(Exception):
    """Nothing was sent; the text says why."""


class StaleEdit(Exception):
    """Somebody saved meanwhile; `stored` is what stands there now, nothing typed is lost."""

    def __init__(self, by: str) -> None:
        super().__init__(f"{by or 'The log'} changed this draft while you wrote. Nothing was saved; both texts are below.")
