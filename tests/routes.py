"""Every address of the product, from its URL list, and what stands behind each: a new route without a row fails the build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.urls import get_resolver
from django.urls.resolvers import URLResolver


class Row(NamedTuple):
    """What stands behind a route, by which methods, and who may change something there.

    `kind` is "public" for what answers anybody, "own" for whoever is signed in, "run", "item" and "correction" for those who see
    that object, "govern" for those with the right, "api" for a token. `who` is the right that a change wants, or "anybody" who
    may see it (what comes of it is another test's); of the API, the scopes of tokens.
    """

    kind: str
    methods: str = ""
    who: str = "nobody"


ROWS = {
    "": Row("own", "GET"),
    "runs/": Row("own", "GET"),
    "runs/<int:number>/": Row("run", "GET"),
    "runs/<int:number>/live/": Row("run", "GET"),
    "runs/<int:number>/compensate/": Row("run", "GET POST", "compensate_run"),
    "runs/<int:number>/take/": Row("run", "POST", "take_run"),
    "runs/<int:number>/step-back/": Row("run", "POST", "anybody"),
    "runs/<int:number>/leave/": Row("run", "GET POST", "compensate_run"),
    "runs/<int:number>/pause/": Row("run", "GET POST", "compensate_run"),
    "runs/<int:number>/stop/": Row("run", "GET POST", "take_run"),
    "runs/<int:number>/retry-sending/": Row("run", "POST", "compensate_run"),
    "runs/<int:number>/confirm/": Row("run", "GET POST", "compensate_run"),
    "runs/<int:number>/steps/": Row("run", "GET"),
    "runs/<int:number>/steps/<int:step>/": Row("run", "GET"),
    "runs/<int:number>/steps/<int:step>/settle/": Row("run", "GET POST", "settle_step"),
    "runs/<int:number>/steps/<int:step>/let-through/": Row("run", "POST", "take_run"),
    "runs/<int:number>/steps/<int:step>/refuse/": Row("run", "GET POST", "take_run"),
    "runs/<int:number>/steps/<int:step>/drop/": Row("run", "GET POST", "compensate_run"),
    "runs/<int:number>/plan/": Row("run", "GET"),
    "runs/<int:number>/log/": Row("run", "GET"),
    "runs/<int:number>/log.jsonl": Row("run", "GET"),
    "runs/<int:number>/report/": Row("run", "GET"),
    "runs/<int:number>/report.md": Row("run", "GET"),
    "runs/<int:number>/report.json": Row("run", "GET"),
    "capabilities/": Row("own", "GET"),
    "capabilities/<str:name>/": Row("own", "GET"),
    "capabilities/<str:name>/disable/": Row("govern", "GET POST", "change_capabilityrecord"),
    "capabilities/<str:name>/enable/": Row("govern", "GET POST", "change_capabilityrecord"),
    "capabilities/<str:name>/drill/": Row("govern", "GET POST", "drill_capability"),
    "capabilities/<str:name>/drills/<int:number>/": Row("own", "GET"),
    "drills/": Row("own", "GET POST", "anybody"),
    "go/": Row("own", "GET"),
    "me/": Row("own", "GET POST", "anybody"),
    "audit/": Row("own", "GET"),
    "audit.csv": Row("govern", "GET", "view_logentry"),
    "audit.jsonl": Row("govern", "GET", "view_logentry"),
    "outbox/": Row("own", "GET"),
    "outbox/live/": Row("own", "GET"),
    "outbox/bulk/": Row("own", "GET POST", "decide_capability"),
    "outbox/<int:item_id>/": Row("item", "GET"),
    "outbox/<int:item_id>/evidence/": Row("item", "GET"),
    "outbox/<int:item_id>/approve/": Row("item", "POST", "decide_capability"),
    "outbox/<int:item_id>/edit/": Row("item", "POST", "decide_capability"),
    "outbox/<int:item_id>/show-all/": Row("item", "POST", "anybody"),
    "outbox/<int:item_id>/versions/<int:number>/": Row("item", "GET"),
    "outbox/<int:item_id>/reject/": Row("item", "POST", "decide_capability"),
    "outbox/<int:item_id>/ask-again/": Row("item", "POST", "anybody"),
    "outbox/<int:item_id>/drop/": Row("item", "POST", "anybody"),
    "people/": Row("govern", "GET", "change_user"),
    "people/<int:person_id>/": Row("govern", "GET POST", "change_user"),
    "policies/": Row("govern", "GET", "change_policy"),
    "policies/new/": Row("govern", "GET POST", "change_policy"),
    "policies/<int:policy_id>/": Row("govern", "GET POST", "change_policy"),
    "corrections/": Row("own", "GET"),
    "corrections/live/": Row("own", "GET"),
    "corrections/<int:correction_id>/": Row("correction", "GET POST", "send_correction"),
    "corrections/<int:correction_id>/preview/": Row("correction", "POST", "anybody"),
    "corrections/<int:correction_id>/send/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/dismiss/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/hold/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/save/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/elsewhere/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/another/": Row("correction", "POST", "send_correction"),
    "corrections/<int:correction_id>/back/": Row("correction", "POST", "send_correction"),
    "audiences/": Row("own", "GET"),
    "audiences/new/": Row("own", "GET POST", "add_audience"),
    "audiences/<int:audience_id>/": Row("own", "GET POST", "change_audience"),
    "templates/": Row("own", "GET"),
    "templates/<str:kind>/<str:place_kind>/": Row("own", "GET POST", "add_template"),
    "templates/<str:kind>/<str:place_kind>/preview/": Row("own", "POST", "anybody"),
    "api/v1/openapi.json": Row("public"),
    "api/v1/capabilities": Row("api", "GET", "agent checker auditor on_call"),
    "api/v1/runs": Row("api", "POST", "agent"),
    "api/v1/runs/<number>": Row("api", "GET", "agent checker auditor on_call"),
    "api/v1/runs/<number>/resume": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/steps": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/steps/skip": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/steps/<step>": Row("api", "GET", "agent on_call"),
    "api/v1/runs/<number>/heartbeat": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/finish": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/fail": Row("api", "POST", "agent"),
    "api/v1/runs/<number>/checks/<name>": Row("api", "PUT", "checker"),
    "api/v1/runs/<number>/compensate": Row("api", "POST", "on_call"),
    "api/v1/runs/<number>/log": Row("api", "GET", "auditor"),
    "api/v1/": Row("nothing"),
    "login/": Row("public"),
    "logout/": Row("public"),
    "healthz": Row("public"),
    "readyz": Row("public"),
    "workz": Row("public"),
    "metrics": Row("public"),
}


def routes() -> list[str]:
    """All of them, as the resolver knows them; those of the admin site too."""
    return list(dict.fromkeys(_walk(get_resolver().url_patterns)))


def kind_of(route: str) -> str:
    """The row of a route; KeyError for one that has none."""
    if route.startswith("admin/"):
        return "public" if route in ("admin/login/", "admin/logout/") else "admin"
    return ROWS[route].kind


def path_of(route: str, ids: dict[str, Any]) -> str:
    """An address of this route. `ids` are run, item, correction, policy, step; what is missing is 1."""
    given = {
        "number": ids.get("version", 1) if "versions/" in route else ids.get("run", 1),
        "step": ids.get("step", 1),
        "item_id": ids.get("item", 1),
        "correction_id": ids.get("correction", 1),
        "policy_id": ids.get("policy", 1),
        "person_id": ids.get("person", 1),
        "audience_id": ids.get("audience", 1),
        "kind": ids.get("kind", 1),
        "place_kind": ids.get("place_kind", 1),
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
