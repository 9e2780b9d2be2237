"""The chat: the part of Slack's Web API that posts, finds and deletes messages. A refusal is a 200 with `ok: false`."""

from __future__ import annotations

import time
from typing import Any

from sagaboard.demo.world.store import JSON, Store
from sagaboard.demo.world.web import Reply, Request

BOT = {"user": "U0SAGA", "bot_id": "B0SAGA"}
FILLED = ("thread_ts", "metadata", "client_msg_id")


class Refusal(Exception):
    """The `error` of an answer that isn't ok."""


def handle(request: Request, store: Store) -> Reply:
    method = METHODS.get(request.path.removeprefix("/api/"))
    try:
        if not request.bearer():
            raise Refusal("invalid_auth")
        if method is None:
            raise Refusal("unknown_method")
        return method(store, request.form() | dict(request.query))
    except Refusal as exc:
        return Reply(data={"ok": False, "error": str(exc)})


def ok(*, effect: bool = False, **data: Any) -> Reply:
    return Reply(data={"ok": True, **data}, effect=effect)


def auth_test(store: Store, given: JSON) -> Reply:
    return ok(team="Acme", user="sagaboard", user_id=BOT["user"], bot_id=BOT["bot_id"])


def post_message(store: Store, given: JSON) -> Reply:
    channel = _channel(store, given.get("channel", ""))
    if channel["is_archived"]:
        raise Refusal("is_archived")
    if not given.get("text"):
        raise Refusal("no_text")
    message = say(store, channel["id"], given["text"], BOT, {name: given[name] for name in FILLED if given.get(name)})
    return ok(channel=channel["id"], ts=message["ts"], message=message, effect=True)


def say(store: Store, channel: str, text: str, by: JSON, more: JSON) -> JSON:
    """A new message, by whomever; Slack takes a reply to a thread that is gone, and shows it in the channel."""
    ts = f"{int(time.time())}.{store.next('message'):06d}"
    return store.put("message", f"{channel}/{ts}", {"type": "message", "ts": ts, "text": text, "channel": channel, **by, **more})


def delete(store: Store, given: JSON) -> Reply:
    message = store.get("message", f"{given.get('channel')}/{given.get('ts')}")
    if message is None or message.get("subtype") == "tombstone":
        raise Refusal("message_not_found")
    if message["user"] != BOT["user"]:
        raise Refusal("cant_delete_message")
    take_away(store, message)
    return ok(channel=message["channel"], ts=message["ts"], effect=True)


def take_away(store: Store, message: JSON) -> None:
    """The message gone, or a tombstone where replies hang on it."""
    name = f"{message['channel']}/{message['ts']}"
    if any(m.get("thread_ts") == message["ts"] for m in in_channel(store, message["channel"])):
        store.put("message", name, {k: message[k] for k in ("type", "ts", "channel", "user")} | {"subtype": "tombstone", "text": ""})
    else:
        store.drop("message", name)


def in_channel(store: Store, channel: str) -> list[JSON]:
    return sorted((m for m in store.all("message") if m["channel"] == channel), key=lambda m: str(m["ts"]))


def permalink(store: Store, given: JSON) -> Reply:
    channel, ts = given.get("channel", ""), given.get("message_ts", "")
    if store.get("message", f"{channel}/{ts}") is None:
        raise Refusal("message_not_found")
    return ok(channel=channel, permalink=f"https://acme.slack.example/archives/{channel}/p{ts.replace('.', '')}")


def history(store: Store, given: JSON) -> Reply:
    """Newest first, without what is said in threads."""
    channel = _channel(store, given.get("channel", ""))["id"]
    roots = [m for m in in_channel(store, channel) if m.get("thread_ts", m["ts"]) == m["ts"]]
    return _page([m for m in roots[::-1] if _in_time(m, given)], given)


def replies(store: Store, given: JSON) -> Reply:
    """A thread, oldest first, always with its root."""
    channel, root = _channel(store, given.get("channel", ""))["id"], given.get("ts", "")
    if store.get("message", f"{channel}/{root}") is None:
        raise Refusal("thread_not_found")
    thread = [m for m in in_channel(store, channel) if root in (m["ts"], m.get("thread_ts"))]
    return _page([m for m in thread if m["ts"] == root or _in_time(m, given)], given)


def _in_time(message: JSON, given: JSON) -> bool:
    oldest, latest = given.get("oldest") or "0", given.get("latest") or "9999999999"
    if str(given.get("inclusive")) in ("1", "True", "true"):
        return float(oldest) <= float(message["ts"]) <= float(latest)
    return float(oldest) < float(message["ts"]) < float(latest)


def _page(messages: list[JSON], given: JSON) -> Reply:
    start, limit = int(given.get("cursor") or 0), int(given.get("limit") or 100)
    page, more = messages[start : start + limit], len(messages) > start + limit
    if str(given.get("include_all_metadata")) not in ("1", "True", "true"):
        page = [{k: v for k, v in m.items() if k != "metadata"} for m in page]
    return ok(messages=page, has_more=more, response_metadata={"next_cursor": str(start + limit) if more else ""})


def open_direct(store: Store, given: JSON) -> Reply:
    user = given.get("users", "")
    if store.get("user", user) is None:
        raise Refusal("user_not_found")
    channel = {"id": f"D{user[1:]}", "name": "", "is_im": True, "user": user, "is_archived": False}
    store.put("channel", channel["id"], channel)
    return ok(channel={"id": channel["id"]})


def list_channels(store: Store, given: JSON) -> Reply:
    channels = [c for c in store.all("channel") if not c["is_im"]]
    return ok(channels=channels, response_metadata={"next_cursor": ""})


def channel_info(store: Store, given: JSON) -> Reply:
    return ok(channel=_channel(store, given.get("channel", "")))


def user_info(store: Store, given: JSON) -> Reply:
    if (user := store.get("user", given.get("user", ""))) is None:
        raise Refusal("user_not_found")
    return ok(user=user)


def _channel(store: Store, name: str) -> JSON:
    """A channel by its id or its #name."""
    for channel in store.all("channel"):
        if name in (channel["id"], f"#{channel['name']}"):
            return channel
    raise Refusal("channel_not_found")


METHODS = {
    "auth.test": auth_test,
    "chat.postMessage": post_message,
    "chat.delete": delete,
    "chat.getPermalink": permalink,
    "conversations.history": history,
    "conversations.replies": replies,
    "conversations.open": open_direct,
    "conversations.list": list_channels,
    "conversations.info": channel_info,
    "users.info": user_info,
}
