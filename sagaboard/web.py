"""What the pages of all apps share: the signed-in request, counts in the navigation, and two small middlewares."""

from __future__ import annotations

import dataclasses
import sys
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.db import OperationalError, connection, models
from django.db.models import Value
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.csrf import csrf_failure as django_csrf_failure
from django_htmx.middleware import HtmxDetails
from psycopg import errors

from sagaboard.accounts.models import User
from sagaboard.quick import ForPerson

DEADLOCK = (errors.DeadlockDetected, errors.SerializationFailure)
BLOCKED = (errors.LockNotAvailable, errors.IdleInTransactionSessionTimeout)
HELD = "Somebody else holds what this needs. Nothing was done; try again in a few seconds."
SHUT_OUT = "The database lets nobody else in at the moment. Nothing is lost; try again in a few seconds."


class PageRequest(HttpRequest):
    """A request from a person who is signed in, with htmx's details."""

    user: User
    htmx: HtmxDetails
    # What the page has counted already of what stands beside the navigation, by the entry's name.
    counted: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Needs:
    """What needs someone whom a person may act for, as rows to count; `tone` is "red" or "hot", `says` completes it aloud."""

    # Of one table or more; they depend on the person's number and rights alone.
    rows: Callable[[User], Sequence[models.QuerySet[Any]]]
    tone: str
    says: str


@dataclasses.dataclass(frozen=True)
class Count:
    """The same, counted."""

    number: int
    tone: str
    says: str


@dataclasses.dataclass(frozen=True)
class Loud:
    """What holds for everything and stands above every page; `said` are the words of a person."""

    before: str
    said: str
    after: str


# Filled by the apps in `ready()`: the name of a navigation entry -> what it counts; what must stand above every page.
counts: dict[str, Needs] = {}
louds: list[Callable[[], list[Loud]]] = []


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context of the frame: counts beside the navigation, what holds for everything, and the server's clock."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"now": timezone.now()}
    loud = [line for say in louds for line in say()]
    return {"now": timezone.now(), "nav_counts": counts_for(user, getattr(request, "counted", {})), "loud": loud}


def counts_for(user: User, known: Mapping[str, int]) -> dict[str, Count]:
    """All counts of the navigation, those that are not `known` by one query."""
    asked = tuple(name for name in counts if name not in known)
    numbers = {**_summed(_counts.rows(user, asked)), **known}
    return {name: Count(numbers.get(name, 0), one.tone, one.says) for name, one in counts.items()}


def _needed_by(user: User, names: Iterable[str]) -> models.QuerySet[Any, Any]:
    return _together((name, rows) for name in names for rows in counts[name].rows(user))


# Every page asks for them.
_counts = ForPerson(_needed_by)


def count_together(kinds: Iterable[tuple[str | models.F, models.QuerySet[Any]]]) -> Counter[str]:
    """How many rows there are of each kind, by one query; rows of one kind may be in several tables, and none is listed twice.

    A kind is a name, or the field that holds each row's.
    """
    return _summed(_together(kinds))


def _together(kinds: Iterable[tuple[str | models.F, models.QuerySet[Any]]]) -> models.QuerySet[Any, Any]:
    first, *others = [_counted(name, rows) for name, rows in kinds]
    return first.union(*others, all=True)


def _summed(rows: Iterable[tuple[Any, ...]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, number in rows:
        found[name] += number
    return found


def _counted(name: str | models.F, rows: models.QuerySet[Any]) -> models.QuerySet[Any, Any]:
    number = models.Count("pk")
    counted: models.QuerySet[Any, Any] = (
        rows.order_by()
        .annotate(what=Value(name) if isinstance(name, str) else name)
        .values("what")
        .annotate(number=number)
        .values_list("what", "number")
    )
    return counted


def HtmxLoginRedirect(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Sends the whole page to the login, never a login form into a part of it, and back to the page it came from."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        location = response.get("Location", "")
        to_login = response.status_code == 302 and urlsplit(location).path == _login_path()
        if to_login and getattr(request, "htmx", None):
            return _to_login(request)
        if to_login and request.method == "POST":
            # The address of an action answers no GET: after the login one is back on the page, and looks before pressing again.
            response["Location"] = f"{_login_path()}?next={quote(page_of(request))}"
        return response

    return middleware


def _to_login(request: HttpRequest) -> HttpResponse:
    here = request.htmx.current_url_abs_path or "/"  # type: ignore[attr-defined]
    answer = HttpResponse(status=204)
    answer["HX-Redirect"] = f"{_login_path()}?next={quote(here)}"
    return answer


def page_of(request: HttpRequest) -> str:
    """The page of ours that a form was on."""
    came = urlsplit(request.headers.get("Referer", ""))
    return f"{came.path}{f'?{came.query}' if came.query else ''}" if came.netloc == request.get_host() and came.path else "/"


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without its token: a whole page that says so, never a page inside a part of one."""
    if not getattr(request, "htmx", None):
        return django_csrf_failure(request, reason)
    if not request.user.is_authenticated:
        return _to_login(request)
    # Signed in anew in another window: the page is loaded again, with the token of now.
    answer = HttpResponse(status=204)
    answer["HX-Refresh"] = "true"
    return answer


def _login_path() -> str:
    from django.urls import reverse

    return str(reverse(settings.LOGIN_URL))


class RetryWhole:
    """For a transaction that PostgreSQL gave up: it was rolled back, so nothing of it happened.

    After a deadlock the whole request is made once more. Who waited for a lock too long is told to come again.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponseBase | None:
        match = request.resolver_match
        if isinstance(exc.__cause__, DEADLOCK) and match is not None:
            try:
                found: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
            except OperationalError as again:
                exc = again
            else:
                return found
        return _later(request, HELD, "503.html", framed=True) if isinstance(exc.__cause__, (*DEADLOCK, *BLOCKED)) else None


def broken(request: HttpRequest) -> HttpResponse:
    """The answer to what nobody expected. A database that lets nobody in, full or restarting, is asked again later."""
    if isinstance(sys.exc_info()[1], OperationalError) and connection.connection is None:
        return _later(request, SHUT_OUT, "500.html")
    return HttpResponse(render_to_string("500.html"), status=500)


def _later(request: HttpRequest, detail: str, template: str, *, framed: bool = False) -> HttpResponse:
    """503, with when to come again. The frame is made from the database."""
    if request.path.startswith("/api/"):
        document = {"type": "/problems/busy", "title": "Busy", "status": 503, "detail": detail}
        answer: HttpResponse = JsonResponse(document, status=503, content_type="application/problem+json")
    else:
        answer = HttpResponse(render_to_string(template, {"detail": detail}, request if framed else None), status=503)
    answer["Retry-After"] = "2"
    return answer


def PersonsTimeZone(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Shows times in the zone the person chose; UTC unless they did."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        user = getattr(request, "user", None)
        if user is not None and user.is_authenticated:
            with timezone.override(zoneinfo.ZoneInfo(user.time_zone)):
                return get_response(request)
        return get_response(request)

    return middleware
