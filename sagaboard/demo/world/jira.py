"""The tracker: the part of Jira's REST API v3 that moves a ticket, comments on it and keeps properties of it.

A transition has an id that is valid only from one status. Each one calls the project's webhook, here the client portal.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote

from sagaboard.demo.world import portal
from sagaboard.demo.world.store import JSON, Store, now
from sagaboard.demo.world.web import Reply, Request, Route, find_route

ISSUE = r"/rest/api/3/issue/(?P<issue>[^/]+)"
ACCOUNT = "sagaboard@acme.example"
US, SOMEBODY = {"accountId": "5b10-sagaboard", "displayName": "sagaboard"}, {"accountId": "5b10-ana", "displayName": "Ana Ruiz"}
STATUSES = {"To Do": "1", "In Progress": "3", "In Review": "4", "Done": "5", "Closed": "6"}
# From each status: the transitions' ids, names and where they lead. Nothing leads out of Closed.
WORKFLOW: dict[str, list[tuple[str, str, str]]] = {
    "To Do": [("11", "Start work", "In Progress"), ("19", "Close", "Closed")],
    "In Progress": [("21", "In Review", "In Review"), ("22", "Stop work", "To Do")],
    "In Review": [("31", "Done", "Done"), ("32", "Back to work", "In Progress"), ("39", "Close", "Closed")],
    "Done": [("41", "Reopen", "In Progress"), ("42", "Look again", "In Review")],
    "Closed": [],
}


def handle(request: Request, store: Store) -> Reply:
    pair = base64.b64encode(f"{ACCOUNT}:{request.tokens[request.system]}".encode()).decode()
    if request.headers.get("authorization") != f"Basic {pair}":
        return Reply(401, text="Client must be authenticated to access this resource.", content_type="text/plain")
    return find_route(ROUTES, request, store) or refuse(404, "No such resource.")


def refuse(status: int, message: str) -> Reply:
    return Reply(status, {"errorMessages": [message], "errors": {}})


def _missing() -> Reply:
    return refuse(404, "Issue does not exist or you do not have permission to see it.")


def myself(request: Request, store: Store) -> Reply:
    return Reply(data=US)


def show(request: Request, store: Store, issue: str) -> Reply:
    found = store.get("issue", issue)
    if found is None:
        return _missing()
    data: JSON = {"id": found["id"], "key": issue, "fields": {"status": _status(found["status"])}}
    if "changelog" in request.query.get("expand", ""):
        histories = found["history"][::-1]
        data["changelog"] = {"startAt": 0, "maxResults": len(histories), "total": len(histories), "histories": histories}
    return Reply(data=data)


def transitions(request: Request, store: Store, issue: str) -> Reply:
    found = store.get("issue", issue)
    if found is None:
        return _missing()
    ways = [{"id": i, "name": name, "to": _status(to), "hasScreen": True} for i, name, to in WORKFLOW[found["status"]]]
    return Reply(data={"expand": "transitions", "transitions": ways})


def transition(request: Request, store: Store, issue: str) -> Reply:
    found, given = store.get("issue", issue), request.form()
    if found is None:
        return _missing()
    number = (given.get("transition") or {}).get("id")
    to = next((to for i, _, to in WORKFLOW[found["status"]] if i == number), None)
    if to is None:
        return refuse(400, f"It seems that you have tried to perform a workflow operation ({number}) that is not valid here")
    for operation in (given.get("update") or {}).get("comment", []):
        found["comments"].append(_new_comment(store, operation["add"]))
    found["properties"].update({p["key"]: p["value"] for p in given.get("properties", [])})
    move(store, found, to, US)
    return Reply(204, effect=True)


def move(store: Store, found: JSON, to: str, by: JSON) -> None:
    """The ticket in its new status, in its history, and at the webhook."""
    item = {"field": "status", "fieldtype": "jira", "fromString": found["status"], "toString": to}
    found["history"].append({"id": str(10000 + store.next("history")), "author": by, "created": _stamp(), "items": [item]})
    found["status"] = to
    store.put("issue", found["key"], found)
    if found["webhook"]:
        portal.hear(store, {"issue": found["key"], "summary": found["summary"], "from": item["fromString"], "to": to})


def comments(request: Request, store: Store, issue: str) -> Reply:
    found = store.get("issue", issue)
    if found is None:
        return _missing()
    shown = found["comments"][::-1] if request.query.get("orderBy") == "-created" else found["comments"]
    shown = shown[: int(request.query.get("maxResults", 50))]
    if request.query.get("expand") != "properties":
        shown = [{name: value for name, value in comment.items() if name != "properties"} for comment in shown]
    return Reply(data={"startAt": 0, "maxResults": len(shown), "total": len(found["comments"]), "comments": shown})


def comment(request: Request, store: Store, issue: str) -> Reply:
    found, given = store.get("issue", issue), request.form()
    if found is None:
        return _missing()
    if not given.get("body"):
        return refuse(400, "Comment body is not valid!")
    new = _new_comment(store, given)
    store.put("issue", issue, {**found, "comments": [*found["comments"], new]})
    return Reply(201, new, effect=True)


def prop(request: Request, store: Store, issue: str, name: str) -> Reply:
    found = store.get("issue", issue)
    if found is None:
        return _missing()
    if unquote(name) not in found["properties"]:
        return refuse(404, f"The property {unquote(name)} does not exist.")
    return Reply(data={"key": unquote(name), "value": found["properties"][unquote(name)]})


def _new_comment(store: Store, given: JSON) -> JSON:
    """Jira keeps a comment as the document it was given."""
    about = {"author": US, "created": _stamp(), "properties": given.get("properties", [])}
    return {"id": str(20000 + store.next("comment")), "body": given["body"], **about}


def text_of(document: Any) -> str:
    """The plain text of an Atlassian document."""
    blocks = document.get("content", []) if isinstance(document, dict) else []
    return "\n".join("".join(part.get("text", "") for part in block.get("content", [])) for block in blocks)


def _status(name: str) -> JSON:
    return {"id": STATUSES[name], "name": name}


def _stamp() -> str:
    """As Jira writes a time, without a colon in its offset."""
    return now().replace("+00:00", "+0000")


ROUTES = [
    Route("GET", "/rest/api/3/myself", myself),
    Route("GET", ISSUE, show),
    Route("GET", f"{ISSUE}/transitions", transitions),
    Route("POST", f"{ISSUE}/transitions", transition),
    Route("GET", f"{ISSUE}/comment", comments),
    Route("POST", f"{ISSUE}/comment", comment),
    Route("GET", rf"{ISSUE}/properties/(?P<name>[^/]+)", prop),
]
