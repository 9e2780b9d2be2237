"""The partner's API: notices, each kept once for one Idempotency-Key, found by it, and corrected below it."""

from __future__ import annotations

from urllib.parse import unquote

from sagaboard.demo.world.store import JSON, Store, now
from sagaboard.demo.world.web import Reply, Request, Route, find_route


def handle(request: Request, store: Store) -> Reply:
    if not request.bearer():
        return refuse(401, "Unknown or expired token.")
    return find_route(ROUTES, request, store) or refuse(404, "No such resource.")


def refuse(status: int, message: str) -> Reply:
    return Reply(status, {"message": message})


def create(request: Request, store: Store) -> Reply:
    return _once(request, store, "notice", ("subject", "message", "reference"))


def _once(request: Request, store: Store, kind: str, fields: tuple[str, ...], **more: str) -> Reply:
    """A new document of `kind`, or the one that was made for this key."""
    key, given = request.headers.get("idempotency-key", ""), request.json()
    if not key:
        return refuse(400, "Idempotency-Key is missing.")
    if not isinstance(given, dict) or not given.get(fields[0]):
        return refuse(422, f"{fields[0]} is missing.")
    if old := store.get(kind, key):
        return Reply(200, old) if old["digest"] == request.digest() else refuse(422, "This key was used for something else.")
    about = {"id": f"{kind[:3]}_{store.next(kind)}", "key": key, "received_at": now(), "digest": request.digest(), **more}
    return Reply(201, store.put(kind, key, {**about, **{f: given.get(f, "") for f in fields}}), effect=True)


def by_key(request: Request, store: Store, key: str) -> Reply:
    found = store.get("notice", unquote(key))
    return Reply(data=found) if found else refuse(404, "No notice was received with this key.")


def correct(request: Request, store: Store, notice: str) -> Reply:
    if not _notice(store, notice):
        return refuse(404, "No such notice.")
    return _once(request, store, "correction", ("text",), notice=notice)


def corrections(request: Request, store: Store, notice: str) -> Reply:
    if not _notice(store, notice):
        return refuse(404, "No such notice.")
    return Reply(data={"corrections": of_notice(store, notice)})


def of_notice(store: Store, notice: str) -> list[JSON]:
    return [c for c in store.all("correction") if c["notice"] == notice]


def _notice(store: Store, notice: str) -> bool:
    return any(n["id"] == notice for n in store.all("notice"))


ROUTES = [
    Route("POST", "/v2/notices", create),
    Route("GET", r"/v2/notices/by-key/(?P<key>[^/]+)", by_key),
    Route("GET", r"/v2/notices/(?P<notice>[^/]+)/corrections", corrections),
    Route("POST", r"/v2/notices/(?P<notice>[^/]+)/corrections", correct),
]
