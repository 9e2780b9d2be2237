"""One bounded HTTP exchange with a target, and the three answers a call can get: accepted, refused, unknown.

Made on httpcore, the transport below httpx, since that is all there is to it: no redirects, no retries, nothing read from
the environment, one connection an exchange. Two bounds are added: on the whole time, which httpx has for each read only,
and on the size of the answer.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import time
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import httpcore

from runs.connectors.credentials import scrub, short
from runs.connectors.targets import Target
from runs.exceptions import NoEffect, TryLater, Unreadable

MAX_ANSWER = 4_000_000
# What a target that says "slow down" without saying for how long is given, and the longest it is believed.
PAUSE, LONGEST_PAUSE = 10.0, 3600.0
STANDING = {"Accept": "application/json", "User-Agent": "sagaboard"}
Headers = Mapping[str, str]
HAS_BODY = {"Content-Type": "application/json"}


class Unclear(Exception):
    """The request left, and nothing that came back tells what became of it: it may have taken effect."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a target answered; `headers` by their lower-case names, `body` cut at `MAX_ANSWER`."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def said(self) -> str:
        """The message in the answer, as one short line."""
        try:
            found = _message(json.loads(self.body))
        except ValueError:
            found = ""
        return short(found or self.body.decode(errors="replace"))


def _message(data: Any) -> str:
    """The sentence in an error document: Unleash's and most others' `message`, Jira's `errorMessages` and `errors`."""
    if not isinstance(data, dict):
        return ""
    several, by_field = data.get("errorMessages"), data.get("errors")
    texts = [*(several if isinstance(several, list) else []), *(by_field.values() if isinstance(by_field, dict) else [])]
    return str(data.get("message") or data.get("detail") or data.get("error") or "; ".join(map(str, texts)))


def within(timeout: float) -> float:
    """The seconds to allow for a call of `timeout`: a little less, so that it can end with a reason instead of being cut off."""
    return timeout - min(1.0, timeout * 0.05)


class Deadline:
    """The moment at which a call must be over."""

    def __init__(self, timeout: float) -> None:
        self.ends = time.monotonic() + within(timeout)

    def left(self) -> float:
        return self.ends - time.monotonic()


class _Stream(httpcore.NetworkStream):
    """A connection on which each wait ends at the deadline, so that an answer that drips can't outlast it."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def _left(self, late: type[Exception]) -> float:
        left = self._deadline.left()
        if left <= 0:
            raise late("the time for this call is over")
        return left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._left(httpcore.WriteTimeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> httpcore.NetworkStream:
        left = self._left(httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left()
        if left <= 0:
            raise httpcore.ConnectTimeout("the time for this call is over")
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options), self._deadline)


def exchange(method: str, url: str, headers: Mapping[str, str], body: bytes | None, deadline: Deadline) -> Answer:
    """One request and its answer. httpcore's exceptions go through; only its Connect… ones mean that nothing was sent."""
    pairs = [(name.encode("ascii"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    with (
        httpcore.ConnectionPool(network_backend=_Backend(deadline)) as pool,
        pool.stream(method, url, headers=pairs, content=body) as response,
    ):
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, named, _bounded(typing.cast(Iterable[bytes], response.iter_stream())))


def _bounded(chunks: Iterable[bytes]) -> bytes:
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_ANSWER:
            break
    return body[:MAX_ANSWER]


# By these nothing was sent: the connection was never made, or the request couldn't be written down as HTTP.
NEVER_LEFT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol, httpcore.LocalProtocolError)
LOST = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)


@dataclasses.dataclass(frozen=True)
class Service:
    """A target that speaks HTTP, for the length of one call of a capability. Its deadline spans all exchanges of that call."""

    # Not in its text, which error reports quote: what they hold of credentials.
    target: Target = dataclasses.field(repr=False)
    headers: Mapping[str, str] = dataclasses.field(repr=False)
    secrets: tuple[str, ...] = dataclasses.field(repr=False)
    deadline: Deadline

    @property
    def where(self) -> str:
        return f"“{self.target.name}” ({self.target['base_url']})"

    def send(self, method: str, path: str, data: Any = None, *, body: bytes | None = None, headers: Headers | None = None) -> Answer:
        """The answer to a call that was accepted. `NoEffect` or `TryLater` when it was refused, `Unclear` when nobody can tell."""
        answer = self.exchange(method, path, data, body=body, headers=headers)
        if answer.ok:
            return answer
        if refused := refusal(answer, self.where, *self.secrets):
            raise refused
        raise Unclear(f"{self.where} answered {answer.status}, which may be after the effect: {scrub(answer.said(), *self.secrets)}")

    def exchange(self, method: str, path: str, data: Any = None, *, body: bytes | None = None, headers: Headers | None = None) -> Answer:
        """Whatever was answered; `NoEffect` if nothing could be sent, `Unclear` if no answer came."""
        if data is not None:
            body = json.dumps(data).encode()
        full = {**STANDING, **(HAS_BODY if body is not None else {}), **self.headers, **(headers or {})}
        try:
            return exchange(method, self.target["base_url"].rstrip("/") + path, full, body, self.deadline)
        except NEVER_LEFT as exc:
            raise NoEffect(dead_host(self.where, exc)) from None
        except LOST as exc:
            raise Unclear(f"{self.where} took the call and gave no answer ({type(exc).__name__})") from None

    def read(self, path: str, *, absent: bool = False) -> Any:
        """The document at `path`; with `absent`, None where a 404 says that it isn't there. `Unreadable` on anything else."""
        try:
            answer = self.exchange("GET", path)
        except (NoEffect, Unclear) as exc:
            raise Unreadable(str(exc)) from None
        if absent and answer.status == 404:
            return None
        if not answer.ok:
            raise self._unreadable(answer)
        return self.parse(answer, Unreadable)

    def parse(self, answer: Answer, otherwise: type[Exception] = Unclear) -> Any:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            said = scrub(answer.said(), *self.secrets)
            raise otherwise(f"{self.where} answered {answer.status} with something that is no JSON: {said}") from None

    def _unreadable(self, answer: Answer) -> Unreadable:
        refused = refusal(answer, self.where, *self.secrets)
        if refused is None:
            return Unreadable(f"{self.where} answered {answer.status}: {scrub(answer.said(), *self.secrets)}")
        unreadable = Unreadable(refused.reason)
        unreadable.__cause__ = refused
        return unreadable


def service(target: Target, headers: Mapping[str, str], timeout: float, *secrets: str) -> Service:
    """`target` for a call that may take `timeout` seconds in all; `secrets` appear in no text that comes out of it."""
    return Service(target, headers, secrets, Deadline(timeout))


def dead_host(where: str, exc: Exception) -> str:
    return f"Nothing answers at {where}: {short(str(exc)) or type(exc).__name__}. Nothing was sent. Is it running, and is base_url right?"


def refusal(answer: Answer, where: str, *secrets: str) -> NoEffect | None:
    """What a refusal before acceptance says, for a person; None where `answer` is no such refusal, and may follow an effect."""
    status, said = answer.status, scrub(answer.said(), *secrets)
    if status == 429 or (status == 503 and "retry-after" in answer.headers):
        return TryLater(f"{where} asks to slow down ({status}). Nothing was done.", pause(answer.headers.get("retry-after", "")))
    if status in (401, 403):
        return NoEffect(f"{where} refused the credential ({status}: {said}). Nothing was done. Check this target's token and its rights.")
    # A 302 or 303 may follow a call that was carried out; these three say that it was not.
    if status in (301, 307, 308):
        elsewhere = short(answer.headers.get("location", "elsewhere"))
        return NoEffect(f"{where} points to {elsewhere} ({status}). Redirects are not followed: correct its base_url.")
    if 400 <= status < 500 and status != 408:
        return NoEffect(f"{where} refused the call ({status}): {said}")
    return None


def pause(retry_after: str) -> float:
    """The seconds in a Retry-After header, which holds a number or a date."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(retry_after) - dt.datetime.now(dt.UTC)).total_seconds()
        except (ValueError, TypeError):
            seconds = PAUSE
    # Written so that NaN ends as a pause, too.
    return min(seconds, LONGEST_PAUSE) if seconds >= 1 else 1.0


@contextmanager
def before_sending() -> Iterator[None]:
    """Inside, a look that fails is a refusal: nothing was sent yet, so nothing happened."""
    try:
        yield
    except Unreadable as exc:
        raise exc.__cause__ if isinstance(exc.__cause__, TryLater) else NoEffect(f"{exc}") from None


@contextmanager
def looking() -> Iterator[None]:
    """Inside, a refusal is no answer to a look: `NoEffect` would say that nothing happened, which nobody has seen."""
    try:
        yield
    except NoEffect as exc:
        raise Unreadable(exc.reason) from exc
