"""How a payload is laid out for a reader: the very bytes that will be sent, line by line, with nothing left out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import rfc8785

from outbox.characters import Line, Segment, Shown, ascii_host, segments, show
from runs.capability import Payload

INDENT = "  "
HEAD_LINES, HEAD_SIZE = 200, 64 * 1024


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A payload as the card shows it. `shown` is None for bytes that are no text; then `sha256` stands for them."""

    payload: Payload
    shown: Shown | None
    sha256: str

    @property
    def size(self) -> int:
        return len(self.payload.body)

    @property
    def head(self) -> list[Line]:
        """The first lines of a long one, as many as fit."""
        lines: list[Line] = []
        room = HEAD_SIZE
        for line in self.shown.lines[:HEAD_LINES] if self.shown else []:
            room -= len(str(line))
            if room < 0:
                break
            lines.append(line)
        return lines

    @property
    def where(self) -> str:
        """The address it goes to; for a call without one, the system it lives in."""
        return str(self.payload.to.get("url") or self.payload.to.get("lives_in") or "its system")

    @property
    def host(self) -> str:
        return urlsplit(str(self.payload.to.get("url", ""))).netloc

    @property
    def host_in_ascii(self) -> str:
        """The host's name as the network knows it, where it is written otherwise."""
        return ascii_host(urlsplit(str(self.payload.to.get("url", ""))).hostname or "")

    @property
    def target(self) -> list[tuple[str, str]]:
        """What else the decision is bound to: account, credential, recipient and the rest of the target."""
        return [
            (name.replace("_", " "), str(value)) for name, value in self.payload.to.items() if value and name not in ("url", "lives_in")
        ]

    @property
    def warnings(self) -> list[str]:
        """What a reader would miss in it."""
        found = []
        if self.shown is not None and (hidden := self.shown.count_hidden):
            found.append(f"{hidden} {'character' if hidden == 1 else 'characters'} can’t be seen")
        if self.shown is not None and self.shown.mixed:
            found.append("Some words mix alphabets: a letter may not be the one it looks like")
        if self.host_in_ascii:
            found.append(f"The host {self.host} is {self.host_in_ascii} on the network")
        return found


def sheet(payload: Payload) -> Sheet:
    """The payload, laid out."""
    return Sheet(payload, _shown(payload), hashlib.sha256(payload.body).hexdigest())


def _shown(payload: Payload) -> Shown | None:
    try:
        text = payload.body.decode()
    except UnicodeDecodeError:
        return None
    return _as_json(payload) or show(text)


def _as_json(payload: Payload) -> Shown | None:
    """JSON is set out over lines only where that loses nothing: where its canonical form is the very body."""
    if "json" not in payload.content_type:
        return None
    try:
        document = json.loads(payload.body)
        if rfc8785.dumps(document) == payload.body:
            return Shown(list(_lines(document, [], "", 0, payload.was)))
    except (ValueError, RecursionError):
        pass
    return None


def _lines(value: Any, lead: list[Segment], tail: str, depth: int, was: dict[str, Any]) -> Iterator[Line]:
    if not isinstance(value, (dict, list)) or not value:
        yield Line([*lead, *segments(_written(value), role="value", trailing=False), Segment(tail)])
        return
    opens, closes = "{}" if isinstance(value, dict) else "[]"
    yield Line([*lead, Segment(opens)])
    inside = list(value.items()) if isinstance(value, dict) else [(None, one) for one in value]
    for at, (name, one) in enumerate(inside, 1):
        comma = "," if at < len(inside) else ""
        lines = list(_lines(one, [Segment(INDENT * (depth + 1)), *_key(name)], comma, depth + 1, was))
        if name in was:
            lines[0].was = _written(was[name])
        yield from lines
    yield Line([Segment(INDENT * depth + closes + tail)])


def _key(name: str | None) -> list[Segment]:
    return [] if name is None else [*segments(_written(name), role="key", trailing=False), Segment(": ")]


def _written(value: Any) -> str:
    return rfc8785.dumps(value).decode()
