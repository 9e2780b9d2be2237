"""The world's own doors, below `/_world/`: for tests and the demo, never part of what it plays."""

from __future__ import annotations

from sagaboard.demo.world import faults, scene
from sagaboard.demo.world.store import Store
from sagaboard.demo.world.web import Reply, Request, Route, find_route


def handle(request: Request, store: Store) -> Reply:
    # A page in the visitor's browser can post to a port of this machine, but not with a header of its own.
    if request.method != "GET" and "x-world" not in request.headers:
        return Reply(403, {"message": "Say X-World: 1."})
    try:
        return find_route(ROUTES, request, store) or Reply(404, {"message": "No such door."})
    except (KeyError, ValueError, TypeError) as exc:
        return Reply(422, {"message": f"{type(exc).__name__}: {exc}"})


def health(request: Request, store: Store) -> Reply:
    return Reply(data={"ok": True})


def ledger(request: Request, store: Store) -> Reply:
    return Reply(data={"ledger": store.ledger(request.query.get("system", ""), int(request.query.get("since") or 0))})


def reading(request: Request, store: Store) -> Reply:
    return Reply(data=scene.reading(store))


def reset(request: Request, store: Store) -> Reply:
    scene.open_scene(store)
    return Reply(data={"ok": True})


def add_fault(request: Request, store: Store) -> Reply:
    return Reply(201, {"id": faults.add(store, request.json())})


def show_faults(request: Request, store: Store) -> Reply:
    return Reply(data={"faults": [body for _, body in store.faults()]})


def clear_faults(request: Request, store: Store) -> Reply:
    store.clear_faults()
    return Reply(data={"ok": True})


def change(request: Request, store: Store) -> Reply:
    """In the ledger this stands under `somebody else`, so that it is never counted as a call of ours."""
    body = request.body.decode()
    entry = store.arrived(system="somebody else", method="POST", path="/_world/change", key="", digest=request.digest(), body=body)
    done = scene.change(store, request.json())
    store.ended(entry, status=200, effect=True, answer="real")
    return Reply(data={"done": done})


ROUTES = [
    Route("GET", "/_world/health", health),
    Route("GET", "/_world/ledger", ledger),
    Route("GET", "/_world/reading", reading),
    Route("POST", "/_world/reset", reset),
    Route("POST", "/_world/faults", add_fault),
    Route("GET", "/_world/faults", show_faults),
    Route("DELETE", "/_world/faults", clear_faults),
    Route("POST", "/_world/change", change),
]
