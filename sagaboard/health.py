"""Whether this process is alive, and whether what it needs answers."""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse

from runs import lateness


def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


def ready(request: HttpRequest) -> HttpResponse:
    """200 when database and broker answer; 503 names what does not. A broker that is down stops nothing, it delays."""
    found = {"database": _answers(_database), "broker": _answers(_broker)}
    return JsonResponse(found, status=200 if found["database"] == "ok" else 503)


def works(request: HttpRequest) -> HttpResponse:
    """503 while something that is due is not done: real progress is measured, not whether a worker answers."""
    late = [one for one in lateness.measure() if one.is_late]
    return JsonResponse({one.name: f"{one.number} due, the oldest for {one.seconds:.0f} s" for one in late}, status=503 if late else 200)


def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(lateness.metrics(), content_type="text/plain; version=0.0.4")


def _answers(question: object) -> str:
    try:
        question()  # type: ignore[operator]
    except Exception as exc:  # whichever client it is, the answer is that it does not answer
        return type(exc).__name__
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _broker() -> None:
    redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1).ping()
