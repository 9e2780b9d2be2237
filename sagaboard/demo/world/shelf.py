"""A shelf to put things on and a slot to send things through, for tests of the engine and for measuring it.

Under `/shelf` a key is honoured and can be looked up; under `/shelf-plain` it isn't honoured but can be looked up; under
`/shelf-blind` neither. An item knows the key that put it; it is deleted only by who knows that key (`If-Match`).
"""

from __future__ import annotations

from urllib.parse import unquote

from sagaboard.demo.world.store import JSON, Store, now
from sagaboard.demo.world.web import Reply, Request, Route, find_route

HONOURS, BLIND = "shelf", "shelf-blind"


def handle(request: Request, store: Store) -> Reply:
    if request.headers.get("authorization") != f"Bearer {request.tokens['shelf']}":
        return refuse(401, "Unknown token.")
    return find_route(ROUTES, request, store) or refuse(404, "No such resource.")


def refuse(status: int, message: str) -> Reply:
    return Reply(status, {"message": message})


def items(request: Request, store: Store) -> Reply:
    return Reply(data={"items": [i for i in store.all("item") if i["shelf"] == request.system]})


def item(request: Request, store: Store, name: str) -> Reply:
    found = store.get("item", _name(request, name))
    return Reply(data=found, headers={"ETag": found["key"]}) if found else refuse(404, "No such item.")


def put(request: Request, store: Store, name: str) -> Reply:
    """The item with its new value; `If-None-Match: *` refuses one that is there, unless it is this key's own."""
    key, old = request.headers.get("idempotency-key", ""), store.get("item", _name(request, name))
    if old and request.system == HONOURS and key and old["key"] == key:
        return Reply(200, old)
    if old and request.headers.get("if-none-match") == "*":
        return refuse(412, "There is an item of this name.")
    new: JSON = {"shelf": request.system, "name": unquote(name), "key": key, "at": now(), "version": old["version"] + 1 if old else 1}
    new["value"] = request.json()
    return Reply(200 if old else 201, store.put("item", _name(request, name), new), effect=True)


def delete(request: Request, store: Store, name: str) -> Reply:
    found = store.get("item", _name(request, name))
    if found is None:
        return refuse(404, "No such item.")
    if request.headers.get("if-match", "*") not in ("*", found["key"]):
        return refuse(412, "The item was put there by somebody else.")
    store.drop("item", _name(request, name))
    return Reply(204, effect=True)


def send(request: Request, store: Store) -> Reply:
    key = request.headers.get("idempotency-key", "")
    if request.system == HONOURS and key and (old := _sent(request, store, key)):
        return Reply(200, old[0])
    number = store.next("send")
    sent = {"shelf": request.system, "id": f"snd_{number}", "key": key, "at": now(), "body": request.json()}
    return Reply(201, store.put("send", str(number), sent), effect=True)


def sends(request: Request, store: Store) -> Reply:
    if request.system == BLIND:
        return refuse(501, "There is no look-up here.")
    return Reply(data={"sends": _sent(request, store, request.query.get("key", ""))})


def _sent(request: Request, store: Store, key: str) -> list[JSON]:
    return [s for s in store.all("send") if s["shelf"] == request.system and key in ("", s["key"])]


def _name(request: Request, name: str) -> str:
    return f"{request.system}/{unquote(name)}"


ROUTES = [
    Route("GET", "/items", items),
    Route("GET", r"/items/(?P<name>[^/]+)", item),
    Route("PUT", r"/items/(?P<name>[^/]+)", put),
    Route("DELETE", r"/items/(?P<name>[^/]+)", delete),
    Route("POST", "/sends", send),
    Route("GET", "/sends", sends),
]
