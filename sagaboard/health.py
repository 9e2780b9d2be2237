"""Whether this process is alive, and whether what it needs answers."""

import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse


def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


def ready(request: HttpRequest) -> HttpResponse:
    """200 when database and broker answer; 503 names what does not. A broker that is down stops nothing, it delays."""
    found = {"database": _answers(_database), "broker": _answers(_broker)}
    return JsonResponse(found, status=200 if found["database"] == "ok" else 503)


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
