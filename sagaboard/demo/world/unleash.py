"""The flag service: the part of Unleash's admin API that concerns strategies, as Unleash 7.5.1 behaves.

Two of its habits matter to whoever undoes something: a flag's environment is switched off with its last live strategy, and
one that is switched on without any strategy gets one for everybody.
"""

from __future__ import annotations

import uuid
from urllib.parse import unquote

from sagaboard.demo.world.store import JSON, Store
from sagaboard.demo.world.web import Reply, Request, Route, find_route

AT = r"/api/admin/projects/(?P<project>[^/]+)/features/(?P<flag>[^/]+)/environments/(?P<environment>[^/]+)"
FIELDS = ("name", "title", "disabled", "constraints", "parameters", "variants", "segments", "sortOrder")


def handle(request: Request, store: Store) -> Reply:
    if request.headers.get("authorization") != request.tokens[request.system]:
        return problem(401, "UnauthorizedError", "You must log in to use Unleash.")
    return find_route(ROUTES, request, store) or problem(404, "NotFoundError", f"The path {request.path} does not exist.")


def problem(status: int, name: str, message: str) -> Reply:
    return Reply(status, {"id": str(uuid.uuid4()), "name": name, "message": message, "details": [{"message": message}]})


class Missing(Exception):
    """There is no such flag, environment or strategy."""


def _environment(store: Store, project: str, flag: str, environment: str) -> JSON:
    found = store.get("flag", f"{unquote(flag)}/{unquote(environment)}")
    if found is None or found["project"] != unquote(project):
        raise Missing(f'There\'s no feature named "{flag}" in project "{project}".')
    return found


def show(request: Request, store: Store, project: str, flag: str, environment: str) -> Reply:
    try:
        found = _environment(store, project, flag, environment)
    except Missing as exc:
        return problem(404, "NotFoundError", str(exc))
    strategies = [{k: v for k, v in s.items() if k != "segments" or v} | {"featureName": flag} for s in found["strategies"]]
    return Reply(data={"name": flag, "environment": environment, "enabled": found["enabled"], "strategies": strategies})


def add(request: Request, store: Store, project: str, flag: str, environment: str) -> Reply:
    try:
        found = _environment(store, project, flag, environment)
        given = _given(request)
    except Missing as exc:
        return problem(404, "NotFoundError", str(exc))
    except ValueError as exc:
        return problem(400, "BadDataError", str(exc))
    strategy = {"id": str(uuid.uuid4()), **blank(len(found["strategies"])), **given}
    found["strategies"].append(strategy)
    save(store, found)
    return Reply(data=strategy, effect=True)


def change(request: Request, store: Store, project: str, flag: str, environment: str, strategy: str) -> Reply:
    try:
        found = _environment(store, project, flag, environment)
        old = _strategy(found, strategy)
        given = _given(request)
    except Missing as exc:
        return problem(404, "NotFoundError", str(exc))
    except ValueError as exc:
        return problem(400, "BadDataError", str(exc))
    new = {"id": old["id"], **blank(old["sortOrder"]), **given}
    found["strategies"] = [new if s is old else s for s in found["strategies"]]
    save(store, _switched_off_with_its_last(found))
    return Reply(data=new, effect=new != old)


def remove(request: Request, store: Store, project: str, flag: str, environment: str, strategy: str) -> Reply:
    try:
        found = _environment(store, project, flag, environment)
        found["strategies"].remove(_strategy(found, strategy))
    except Missing as exc:
        return problem(404, "NotFoundError", str(exc))
    save(store, _switched_off_with_its_last(found))
    return Reply(effect=True)


def switch(request: Request, store: Store, project: str, flag: str, environment: str, word: str) -> Reply:
    try:
        found = _environment(store, project, flag, environment)
    except Missing as exc:
        return problem(404, "NotFoundError", str(exc))
    before = found["enabled"]
    found["enabled"] = word == "on"
    if found["enabled"] and not found["strategies"]:
        found["strategies"].append({"id": str(uuid.uuid4()), **blank(0), "parameters": rollout(flag)})
    save(store, found)
    return Reply(effect=before != found["enabled"])


def blank(order: int) -> JSON:
    """A strategy before anything is said about it."""
    empty: JSON = {"constraints": [], "parameters": {}, "variants": [], "segments": []}
    return {"name": "flexibleRollout", **empty, "title": None, "disabled": False, "sortOrder": order}


def rollout(flag: str, percent: str = "100") -> JSON:
    return {"groupId": flag, "rollout": percent, "stickiness": "default"}


def for_segment(flag: str, segment: str, title: str, order: int, percent: str = "100") -> JSON:
    constraint = {"values": [segment], "operator": "IN", "contextName": "cohort"}
    parts = {"parameters": rollout(flag, percent), "constraints": [constraint], "title": title}
    return {"id": str(uuid.uuid4()), **blank(order), **parts}


def is_for(strategy: JSON, segment: str) -> bool:
    return any(segment in c["values"] for c in strategy["constraints"])


def save(store: Store, found: JSON) -> None:
    store.put("flag", f"{found['flag']}/{found['environment']}", found)


def _switched_off_with_its_last(found: JSON) -> JSON:
    if all(s["disabled"] for s in found["strategies"]):
        found["enabled"] = False
    return found


def _strategy(found: JSON, strategy: str) -> JSON:
    candidates: list[JSON] = found["strategies"]
    for candidate in candidates:
        if candidate["id"] == unquote(strategy):
            return candidate
    raise Missing(f"Could not find strategy with id={strategy}")


def _given(request: Request) -> JSON:
    data = request.json()
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise ValueError("Request validation failed: the `/body/name` property is required.")
    return {name: data[name] for name in FIELDS if name in data}


ROUTES = [
    Route("GET", AT, show),
    Route("POST", f"{AT}/strategies", add),
    Route("PUT", rf"{AT}/strategies/(?P<strategy>[^/]+)", change),
    Route("DELETE", rf"{AT}/strategies/(?P<strategy>[^/]+)", remove),
    Route("POST", rf"{AT}/(?P<word>on|off)", switch),
]
