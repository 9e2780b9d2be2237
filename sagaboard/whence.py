"""From where somebody asks: by which door, and from which address the connection came."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponseBase

# "page 192.0.2.7"; "" where nobody asks over HTTP: a worker, a command.
whence: ContextVar[str] = ContextVar("whence", default="")
DOORS = {"api": "API", "admin": "admin site"}
LONGEST = 60


def NotesWhence(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Keeps it for what the request writes down."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        before = whence.set(_of(request))
        try:
            return get_response(request)
        finally:
            whence.reset(before)

    return middleware


def _of(request: HttpRequest) -> str:
    """What a proxy says of whom it asks for stands beside its own address, since anybody can say it."""
    door = DOORS.get(request.path.split("/")[1], "page")
    said = "".join(char for char in request.headers.get("X-Forwarded-For", "") if char.isascii() and char.isprintable())
    return f"{door} {request.META.get('REMOTE_ADDR', '')}{f', says it asks for {said[:LONGEST]}' if said else ''}".rstrip()
