"""What every endpoint shares: who calls, what is preferred, bounded and strict bodies, refusals as problem details."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser
from ninja.security import HttpBearer

from runs import limits, strict_json
from runs.api_schemas import Problem
from runs.exceptions import Invalid, NotAllowed, Refused, TooLarge
from runs.models import Run, Step
from sagaboard.accounts.models import Token
from sagaboard.quick import Prepared

_USABLE = Prepared(lambda digest: limits.with_rules(Token.objects.usable().filter(digest=digest)), "sample")
WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*(\d{1,6})(?:$|[,;\s])")
TOO_LARGE = f"The body has more than {settings.SAGABOARD_MAX_BODY:,} bytes. Nothing was done."
problem_responses = dict.fromkeys((400, 401, 403, 404, 409, 413, 422, 429), Problem)


class TokenRequest(HttpRequest):
    """A request that a token authenticated."""

    auth: Token
    run: Callable[[int], Run]
    step: Callable[[int, int], Step]
    idempotency_key: str | None
    preferred_wait: float


class of_scope(HttpBearer):  # noqa: N801  (reads as a phrase where it is used)
    """Lets tokens of these scopes in; cookies don't count here."""

    def __init__(self, *scopes: str) -> None:
        super().__init__()
        self.scopes = scopes

    def authenticate(self, request: HttpRequest, token: str) -> Token:
        found = _USABLE.first(Token.digest_of(token))
        if found is None:
            raise AuthenticationError
        if found.scope not in self.scopes:
            raise NotAllowed(f"This is a token of the scope “{found.scope}”; this call wants {' or '.join(self.scopes)}.")
        limits.know_rules(found)
        limits.check_rate(found)
        _note_use(found)
        _equip(request, found)
        return found


def _note_use(token: Token) -> None:
    # Shown to a minute, so that a call doesn't cost a write.
    if token.last_used_at is None or timezone.now() - token.last_used_at > dt.timedelta(minutes=1):
        Token.objects.filter(pk=token.pk).update(last_used_at=timezone.now())


def _equip(request: Any, token: Token) -> None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (1 <= len(key) <= 200 and key.isprintable()):
        raise Invalid("Idempotency-Key: 1 to 200 printable characters.")
    wait = WAIT.search(request.headers.get("Prefer", ""))
    request.idempotency_key = key
    request.preferred_wait = float(min(int(wait[1]), settings.WAIT_AT_MOST)) if wait else 0.0
    request.run = lambda number: _run(token, number)
    request.step = lambda number, step: _step(token, number, step)


@cache
def _visible(scope: str, is_bound: bool) -> Prepared[Run]:
    sample = Token(pk=-2, scope=scope, team_id=-3, run_number=-4 if is_bound else None)
    return Prepared(lambda number, *_: Run.objects.of_token(sample).filter(pk=number), -1, -2, -3, -4)


def _run(token: Token, number: int) -> Run:
    # A foreign run and none at all get the same answer.
    visible = _visible(token.scope, token.run_number is not None)
    run = visible.first(number, token.pk, token.team_id, token.run_number) if 0 < number < 2**62 else None
    if run is None:
        raise Http404(f"No run {number} that this token may speak of.")
    return run


def _step(token: Token, number: int, step: int) -> Step:
    found = _run(token, number).steps.filter(number=step).first() if 0 < step < 2**31 else None
    if found is None:
        raise Http404(f"Run {number} has no step {step}.")
    return found


def Problems(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """What goes wrong below /api/ before or behind its endpoints is a problem document too: no such address, a wrong method, a fault."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        said = str(response.get("Content-Type", "")).startswith(("application/problem+json", "application/json"))
        if response.status_code < 400 or said or not request.path_info.startswith("/api/"):
            return response
        return _in_short(request, response)

    return middleware


def _in_short(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    status, allowed = response.status_code, response.get("Allow", "")
    if status == 405:
        answer = problem(405, "wrong-method", f"{request.method} is not understood here. This address takes {allowed}.")
        answer["Allow"] = allowed
        return answer
    if status == 404:
        return problem(404, "not-found", "There is no such address. GET /api/v1/openapi.json lists those there are.")
    if status >= 500:
        return problem(status, "fault", "sagaboard failed to answer. Nothing is lost: ask again, or GET the run to see where it stands.")
    return problem(status, "refused", f"{response.reason_phrase}. GET /api/v1/openapi.json says how this address is asked.")


class StrictParser(Parser):
    """Bounded bodies, read by `strict_json`."""

    def parse_body(self, request: HttpRequest) -> Any:
        if len(request.body) > settings.SAGABOARD_MAX_BODY:
            raise TooLarge(TOO_LARGE)
        return strict_json.load(request.body or b"{}")


class AgentAPI(NinjaAPI):
    """ninja's API with our parser, and with every error as a problem document."""

    def __init__(self, **options: Any) -> None:
        super().__init__(parser=StrictParser(), **options)
        self.add_exception_handler(Refused, _refused)
        self.add_exception_handler(RequestDataTooBig, _too_large)
        self.add_exception_handler(ValidationError, _invalid)
        self.add_exception_handler(AuthenticationError, _unknown_caller)
        self.add_exception_handler(Http404, _not_found)
        self.add_exception_handler(HttpError, _unreadable)


def problem(status: int, type_: str, detail: str, **extra: Any) -> HttpResponse:
    """An RFC 9457 document as an answer."""
    from ninja.responses import Response

    title = type_.replace("-", " ").capitalize()
    answer = Response({"type": f"/problems/{type_}", "title": title, "status": status, "detail": detail, **extra}, status=status)
    answer["Content-Type"] = "application/problem+json"
    return answer


def _refused(request: HttpRequest, exc: Any) -> HttpResponse:
    answer = problem(exc.status, exc.type, exc.detail, **exc.extra)
    if "retry_after" in exc.extra:
        answer["Retry-After"] = str(exc.extra["retry_after"])
    return answer


def _too_large(request: HttpRequest, exc: Any) -> HttpResponse:
    # Django refuses by the length that the caller announces, before it reads anything.
    return _refused(request, TooLarge(TOO_LARGE))


def _invalid(request: HttpRequest, exc: Any) -> HttpResponse:
    problems = [f"{'.'.join(str(part) for part in error['loc'] if part not in ('body', 'new'))}: {error['msg']}" for error in exc.errors]
    return problem(422, "invalid", f"The request does not fit: {'; '.join(problems)}. Nothing was done.", problems=problems)


def _unknown_caller(request: HttpRequest, exc: Any) -> HttpResponse:
    answer = problem(401, "unknown-token", "Send “Authorization: Bearer …” with a token that is neither expired nor revoked.")
    answer["WWW-Authenticate"] = "Bearer"
    return answer


def _unreadable(request: HttpRequest, exc: Any) -> HttpResponse:
    # ninja wraps whatever its parser raised.
    if isinstance(exc.__cause__, Refused):
        return _refused(request, exc.__cause__)
    return problem(exc.status_code, "unreadable", str(exc))


def _not_found(request: HttpRequest, exc: Any) -> HttpResponse:
    return problem(404, "not-found", str(exc) or "There is nothing here that this token may see.")
