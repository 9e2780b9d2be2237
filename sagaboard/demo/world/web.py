"""A request as the world's systems see it, and their answer to it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from sagaboard.demo.world.store import Store

# Where connectors leave the key of a call, when not in a header: Unleash's title, Jira's property, Slack's metadata.
MARKS = (re.compile(r"sagaboard[ .]([\w:-]+)"), re.compile(r'"key":\s*"([^"]+)"'))


@dataclasses.dataclass(frozen=True)
class Request:
    """`path` is below the system's prefix; `headers` by their lower-case names; `tokens` by system."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    system: str
    tokens: Mapping[str, str]

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def form(self) -> dict[str, Any]:
        """The fields of a JSON or form body."""
        if "json" in self.headers.get("content-type", ""):
            data = self.json()
            return data if isinstance(data, dict) else {}
        return dict(parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True))

    def bearer(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {self.tokens[self.system]}"

    def key(self) -> str:
        """The idempotency key, or our mark in the body or path."""
        if key := self.headers.get("idempotency-key"):
            return key
        text = f"{self.path} {self.body.decode(errors='replace')}"
        found = next(filter(None, (mark.search(text) for mark in MARKS)), None)
        return found.group(1) if found else ""

    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()


@dataclasses.dataclass(frozen=True)
class Reply:
    """`effect`: whether this call changed the world."""

    status: int = 200
    data: Any = None
    effect: bool = False
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    text: str = ""
    content_type: str = "application/json"

    def body(self) -> bytes:
        if self.data is not None:
            return json.dumps(self.data).encode()
        return self.text.encode()


Handler = Callable[[Request, Store], Reply]


@dataclasses.dataclass(frozen=True)
class Route:
    """One method and path of a system; groups of the pattern are handed to `handler` by name."""

    method: str
    pattern: str
    handler: Callable[..., Reply]


def find_route(routes: list[Route], request: Request, store: Store) -> Reply | None:
    """The answer of the first route that fits; None if none does."""
    for route in routes:
        if route.method == request.method and (match := re.fullmatch(route.pattern, request.path)):
            return route.handler(request, store, **match.groupdict())
    return None
