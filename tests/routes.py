"""Every address of the product, from its URL list, and what stands behind each: a new route without a row fails the build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import get_resolver
from django.urls.resolvers import URLResolver

# What a route shows or changes: "public" answers anybody, "own" whoever is signed in, "run", "item" and "correction" those who
# see that object, "govern" those with the right, "api" a token, "admin" the admin site's staff.
ROWS = {
    "": "own",
    "runs/": "own",
    "runs/<int:number>/": "run",
    "runs/<int:number>/live/": "run",
    "runs/<int:number>/compensate/": "run",
    "runs/<int:number>/take/": "run",
    "runs/<int:number>/step-back/": "run",
    "runs/<int:number>/leave/": "run",
    "runs/<int:number>/pause/": "run",
    "runs/<int:number>/stop/": "run",
    "runs/<int:number>/retry-sending/": "run",
    "runs/<int:number>/confirm/": "run",
    "runs/<int:number>/steps/<int:step>/": "run",
    "runs/<int:number>/steps/<int:step>/settle/": "run",
    "runs/<int:number>/steps/<int:step>/let-through/": "run",
    "runs/<int:number>/steps/<int:step>/refuse/": "run",
    "runs/<int:number>/steps/<int:step>/drop/": "run",
    "runs/<int:number>/log/": "run",
    "runs/<int:number>/log.jsonl": "run",
    "runs/<int:number>/report/": "run",
    "runs/<int:number>/report.md": "run",
    "runs/<int:number>/report.json": "run",
    "capabilities/": "own",
    "capabilities/<str:name>/": "own",
    "capabilities/<str:name>/drill/": "govern",
    "capabilities/<str:name>/drills/<int:number>/": "govern",
    "drills/": "own",
    "go/": "own",
    "me/": "own",
    "audit/": "own",
    "outbox/": "own",
    "outbox/live/": "own",
    "outbox/bulk/": "own",
    "outbox/<int:item_id>/": "item",
    "outbox/<int:item_id>/approve/": "item",
    "outbox/<int:item_id>/edit/": "item",
    "outbox/<int:item_id>/show-all/": "item",
    "outbox/<int:item_id>/versions/<int:number>/": "item",
    "outbox/<int:item_id>/reject/": "item",
    "outbox/<int:item_id>/ask-again/": "item",
    "outbox/<int:item_id>/drop/": "item",
    "people/": "govern",
    "people/<int:person_id>/": "govern",
    "policies/": "govern",
    "policies/new/": "govern",
    "policies/<int:policy_id>/": "govern",
    "corrections/": "own",
    "corrections/live/": "own",
    "corrections/<int:correction_id>/": "correction",
    "corrections/<int:correction_id>/preview/": "correction",
    "corrections/<int:correction_id>/send/": "correction",
    "corrections/<int:correction_id>/dismiss/": "correction",
    "corrections/<int:correction_id>/hold/": "correction",
    "corrections/<int:correction_id>/save/": "correction",
    "corrections/<int:correction_id>/elsewhere/": "correction",
    "corrections/<int:correction_id>/another/": "correction",
    "corrections/<int:correction_id>/back/": "correction",
    "audiences/": "own",
    "audiences/new/": "govern",
    "audiences/<int:audience_id>/": "govern",
    "templates/": "own",
    "templates/<str:kind>/<str:place_kind>/": "govern",
    "templates/<str:kind>/<str:place_kind>/preview/": "own",
    "api/v1/openapi.json": "public",
    "api/v1/capabilities": "api",
    "api/v1/runs": "api",
    "api/v1/runs/<number>": "api",
    "api/v1/runs/<number>/resume": "api",
    "api/v1/runs/<number>/steps": "api",
    "api/v1/runs/<number>/steps/skip": "api",
    "api/v1/runs/<number>/steps/<step>": "api",
    "api/v1/runs/<number>/heartbeat": "api",
    "api/v1/runs/<number>/finish": "api",
    "api/v1/runs/<number>/fail": "api",
    "api/v1/runs/<number>/checks/<name>": "api",
    "api/v1/runs/<number>/compensate": "api",
    "api/v1/runs/<number>/log": "api",
    "api/v1/": "nothing",
    "login/": "public",
    "logout/": "public",
    "healthz": "public",
    "readyz": "public",
    "workz": "public",
    "metrics": "public",
}


def routes() -> list[str]:
    """All of them, as the resolver knows them; those of the admin site too."""
    return list(dict.fromkeys(_walk(get_resolver().url_patterns)))


def kind_of(route: str) -> str:
    """The row of a route; KeyError for one that has none."""
    if route.startswith("admin/"):
        return "public" if route in ("admin/login/", "admin/logout/") else "admin"
    return ROWS[route]


def path_of(route: str, ids: dict[str, Any]) -> str:
    """An address of this route. `ids` are run, item, correction, policy, step; what is missing is 1."""
    given = {
        "number": ids.get("version", 1) if "versions/" in route else ids.get("run", 1),
        "step": ids.get("step", 1),
        "item_id": ids.get("item", 1),
        "correction_id": ids.get("correction", 1),
        "policy_id": ids.get("policy", 1),
        "person_id": ids.get("person", 1),
        "name": "ci" if "checks/" in route else "put_thing",
    }
    plain = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route).replace("^", "").replace("$", "").replace("\\Z", "")
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(given.get(found[1], 1)), plain)


def paths(**ids: Any) -> list[str]:
    """An address of every route; objects stand for their ids."""
    numbers = {name: getattr(value, "pk", value) for name, value in ids.items()}
    return [path_of(route, numbers) for route in routes()]


def _walk(patterns: Any, lead: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = lead + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        else:
            yield route
