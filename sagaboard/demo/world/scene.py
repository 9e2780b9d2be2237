"""The world as the story finds it, what can be read off it, and what somebody else can change in it meanwhile."""

from __future__ import annotations

from typing import Any

from sagaboard.demo.world import jira, slack, unleash
from sagaboard.demo.world.store import JSON, Store

FLAG, SEGMENT_ON = "billing_panel_v1", "dogfood"
ISSUE, SANDBOX_ISSUE = "BILL-318", "SAND-1"
CHANNEL, SANDBOX_CHANNEL = "C0BILLING", "C0SANDBOX"
PEOPLE = {"U0MEERA": "Meera Joshi", "U0ANA": "Ana Ruiz", "U0TOMAS": "Tomas Lindqvist", "U0ILIR": "Ilir Hoxha"}
UNCOMPARABLE = ("id", "featureName", "sortOrder")


def open_scene(store: Store) -> None:
    """Everything as it is before the first run; the ledger starts anew."""
    store.clear()
    for environment in ("development", "sandbox"):
        dogfood = unleash.for_segment(FLAG, SEGMENT_ON, "dogfood, since spring", 0)
        about = {"project": "default", "flag": FLAG, "environment": environment, "enabled": True}
        unleash.save(store, {**about, "strategies": [dogfood]})
    _issue(store, ISSUE, "Invoices show the billing field", webhook=True)
    _issue(store, SANDBOX_ISSUE, "A ticket to rehearse with", webhook=False)
    for channel, name in ((CHANNEL, "billing-dev"), (SANDBOX_CHANNEL, "sandbox")):
        store.put("channel", channel, {"id": channel, "name": name, "is_im": False, "is_archived": False})
    for user, name in PEOPLE.items():
        store.put("user", user, {"id": user, "real_name": name})


def _issue(store: Store, key: str, summary: str, *, webhook: bool) -> None:
    fresh: JSON = {"history": [], "comments": [], "properties": {}}
    about = {"id": str(10000 + store.next("issue")), "key": key, "summary": summary, "webhook": webhook}
    store.put("issue", key, {**about, "status": "In Progress", **fresh})


def reading(store: Store) -> JSON:
    """What the systems hold, in a form in which two readings can be compared."""
    notes = [m for m in store.all("message") if m["channel"].startswith("D")]
    return {
        "flag": _flag(store),
        "ticket": _ticket(store),
        "portal": [{k: v for k, v in call.items() if k not in ("id", "at")} for call in store.all("portal")],
        "chat": {"channel": [_said(m) for m in slack.in_channel(store, CHANNEL)], "notes": [_said(m) for m in notes]},
        "partner": [{k: n[k] for k in ("subject", "message", "reference", "key")} for n in store.all("notice")],
    }


def _flag(store: Store) -> JSON:
    found = store.get("flag", f"{FLAG}/development") or {"enabled": False, "strategies": []}
    strategies = [{k: v for k, v in s.items() if k not in UNCOMPARABLE} for s in found["strategies"]]
    return {"enabled": found["enabled"], "strategies": strategies}


def _ticket(store: Store) -> JSON:
    found = store.get("issue", ISSUE) or {"status": "", "comments": []}
    return {"status": found["status"], "comments": [jira.text_of(c["body"]) for c in found["comments"]]}


def _said(message: JSON) -> JSON:
    about = {"to": f"U{message['channel'][1:]}"} if message["channel"].startswith("D") else {}
    return {"text": message["text"], "user": message["user"], "thread": message.get("thread_ts", ""), **about}


def change(store: Store, body: JSON) -> Any:
    """What somebody else does; KeyError or ValueError where there is no such thing to do."""
    return {"flags": _change_flag, "tickets": _change_ticket, "chat": _change_chat, "shelf": _change_shelf}[body["system"]](store, body)


def _change_flag(store: Store, body: JSON) -> None:
    """`segment` with `on` (and `rollout`), or `enabled`; of `flag` in `environment`."""
    found = store.get("flag", f"{body.get('flag', FLAG)}/{body.get('environment', 'development')}")
    if found is None:
        raise ValueError("no such flag")
    if "enabled" in body:
        found["enabled"] = body["enabled"]
    if segment := body.get("segment"):
        found["strategies"] = [s for s in found["strategies"] if not unleash.is_for(s, segment)]
        if body["on"]:
            order, percent = len(found["strategies"]), str(body.get("rollout", "100"))
            found["strategies"].append(unleash.for_segment(found["flag"], segment, "by hand", order, percent))
    unleash.save(store, found)


def _change_ticket(store: Store, body: JSON) -> None:
    """`status`, whatever the workflow says, or `delete`."""
    issue = body.get("issue", ISSUE)
    if body.get("delete"):
        return store.drop("issue", issue)
    if body["status"] not in jira.STATUSES or (found := store.get("issue", issue)) is None:
        raise ValueError("no such ticket or status")
    jira.move(store, found, body["status"], jira.SOMEBODY)
    return None


def _change_chat(store: Store, body: JSON) -> Any:
    """`archive` the channel, `say` something in it, or `delete` or `edit` the message `ts`."""
    channel = body.get("channel", CHANNEL)
    if body.get("archive"):
        return store.put("channel", channel, {**(store.get("channel", channel) or {}), "is_archived": True})
    if "say" in body:
        more = {"thread_ts": body["thread"]} if body.get("thread") else {}
        return slack.say(store, channel, body["say"], {"user": "U0ANA"}, more)
    if (message := store.get("message", f"{channel}/{body['ts']}")) is None:
        raise ValueError("no such message")
    if body.get("delete"):
        return slack.take_away(store, message)
    return store.put("message", f"{channel}/{message['ts']}", {**message, "text": body["edit"]})


def _change_shelf(store: Store, body: JSON) -> Any:
    """`name` with `value` as somebody else put it, or gone with `delete`."""
    shelf, name = body.get("shelf", "shelf"), body["name"]
    if body.get("delete"):
        return store.drop("item", f"{shelf}/{name}")
    about = {"shelf": shelf, "name": name, "key": body.get("key", "somebody else"), "version": 1, "at": ""}
    return store.put("item", f"{shelf}/{name}", {**about, "value": body.get("value")})
