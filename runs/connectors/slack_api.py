"""Slack's Web API, bounded: a client, what its refusals mean, and the messages that are ours, found by their mark.

Slack's SDK builds the requests; they go through our own exchange, since the SDK's follows redirects, reads proxies from the
environment and takes an answer of any size.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from slack_sdk import WebClient
from slack_sdk.web import SlackResponse

from runs.capability import JSON
from runs.connectors.credentials import credential, short
from runs.connectors.http import Answer, Service, Unclear, looking, refusal, service
from runs.connectors.targets import target
from runs.exceptions import NoEffect, TryLater, Unreadable

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PAGE = 200
# How many messages a search for our own goes back.
SEARCHED = 2000
PAUSE = 30.0
BAD_CREDENTIAL = {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope", "no_permission"}
# By Slack's own words for these, some part of the operation may have succeeded.
UNKNOWN = {"fatal_error", "internal_error", "service_unavailable", "request_timeout"}
SENTENCES = {
    "is_archived": "the channel is archived",
    "channel_not_found": "there is no such channel, or the bot may not see it",
    "not_in_channel": "the bot is not in that channel: invite it",
}


class Refused(NoEffect):
    """Slack's `ok: false`, with its `error`."""

    def __init__(self, error: str, where: str) -> None:
        super().__init__(f"{where} refused the call: {SENTENCES.get(error, short(error))}. Nothing was posted.")
        self.error = error


class Client(WebClient):
    """Slack's client on our exchange. Every method of the SDK ends in `api_call`, the one that is replaced."""

    def __init__(self, to: Service) -> None:
        super().__init__(base_url=to.target["base_url"], retry_handlers=[])
        self._to = to

    def api_call(self, api_method: str, **given: Any) -> SlackResponse:
        """As the SDK has it: what it gives as `json` goes as JSON, the rest as a form, since Slack's reads take nothing else."""
        fields = {name: value for name, value in (given.get("json") or given.get("params") or {}).items() if value is not None}
        if given.get("json"):
            answer = self._to.exchange("POST", f"/{api_method}", fields)
        else:
            answer = self._to.exchange("POST", f"/{api_method}", body=_form(fields), headers=FORM)
        if not answer.ok:
            raise refusal(answer, self._to.where, *self._to.secrets) or Unclear(f"{self._to.where} answered {answer.status}")
        return self._response(api_method, fields, answer)

    def _response(self, api_method: str, fields: JSON, answer: Answer) -> SlackResponse:
        response = SlackResponse(
            client=self,
            http_verb="POST",
            api_url=api_method,
            req_args={"json": fields},
            data=self._to.parse(answer),
            headers=dict(answer.headers),
            status_code=answer.status,
        )
        if response.get("ok") is not True:
            raise _meaning(str(response.get("error")), self._to.where)
        return response


def _form(fields: JSON) -> bytes:
    return urlencode({name: int(value) if isinstance(value, bool) else value for name, value in fields.items()}).encode()


def _meaning(error: str, where: str) -> Exception:
    if error in ("ratelimited", "rate_limited"):
        return TryLater(f"{where} asks to slow down. Nothing was posted.", PAUSE)
    if error in UNKNOWN:
        return Unclear(f"{where} answered {error}, which may be after the effect")
    if error in BAD_CREDENTIAL:
        return NoEffect(f"{where} refused the credential ({error}). Nothing was posted. Check the token of this target and its scopes.")
    return Refused(error, where)


def connect(name: str, timeout: float) -> Client:
    """A client of the target called `name`, for one call."""
    with looking():
        at = target(name, "slack")
        token = credential(at)
    return Client(service(at, {"Authorization": f"Bearer {token}"}, timeout, token))


@contextmanager
def looks() -> Iterator[None]:
    """Inside, whatever isn't an answer is `Unreadable`."""
    try:
        with looking():
            yield
    except Unclear as exc:
        raise Unreadable(str(exc)) from None


def plain_text(text: str) -> JSON:
    """The fields of a message that says `text`, and makes nothing of it: no mention, no link, no markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped, "mrkdwn": False, "link_names": False, "unfurl_links": False, "unfurl_media": False}


def metadata(event: str, key: str) -> JSON:
    return {"event_type": event, "event_payload": {"key": key}}


def message_id(key: str) -> str:
    """The same for the same key, as Slack's own clients send one to have a doubled message noticed."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"sagaboard:{key}"))


def find_channel(client: Client, name: str) -> str:
    """The id of the channel `name`; an id is taken for what it is."""
    if not name.startswith("#"):
        return name
    for page in _pages(client, "conversations.list", "channels", types="public_channel,private_channel"):
        for channel in page:
            if channel["name"] == name[1:]:
                if channel.get("is_archived"):
                    raise Refused("is_archived", name)
                return str(channel["id"])
    raise Refused("channel_not_found", name)


def _pages(client: Client, method: str, field: str, **fields: Any) -> Iterator[list[JSON]]:
    cursor, seen = "", 0
    while seen == 0 or cursor:
        answer = client.api_call(method, params={**fields, "limit": PAGE, "cursor": cursor or None})
        yield answer[field]
        seen += PAGE
        cursor = (answer.get("response_metadata") or {}).get("next_cursor", "")
        if cursor and seen >= SEARCHED:
            raise Unreadable(f"Not among the newest {SEARCHED}, and there are more: a person has to look.")


def search(client: Client, event: str, key: str, *, channel: str, thread: str = "", oldest: str = "0") -> JSON | None:
    """The message with our mark, of a channel or of one thread in it."""
    method, where = ("conversations.replies", {"ts": thread}) if thread else ("conversations.history", {})
    for page in _pages(client, method, "messages", channel=channel, oldest=oldest, include_all_metadata=True, **where):
        for message in page:
            mark = message.get("metadata") or {}
            if mark.get("event_type") == event and (mark.get("event_payload") or {}).get("key") == key:
                return message
    return None


def count_after(client: Client, *, channel: str, ts: str, thread: str = "") -> int:
    """How many messages of people are newer than `ts`, in a channel or in one thread of it."""
    method, where = ("conversations.replies", {"ts": thread}) if thread else ("conversations.history", {})
    pages = _pages(client, method, "messages", channel=channel, oldest=ts, **where)
    return sum(float(m["ts"]) > float(ts) and not m.get("bot_id") for page in pages for m in page)


def message_at(client: Client, channel: str, ts: str, root: str) -> JSON | None:
    """The message `ts`; None if it is gone, also where Slack keeps a tombstone for the sake of its replies."""
    try:
        found = client.conversations_replies(channel=channel, ts=root, oldest=ts, latest=ts, inclusive=True, limit=PAGE)["messages"]
    except Refused as exc:
        if exc.error in ("thread_not_found", "message_not_found"):
            return None
        raise
    return next((m for m in found if m["ts"] == ts and m.get("subtype") != "tombstone"), None)


def permalink(client: Client, channel: str, ts: str) -> str:
    """The message's address, or nothing: a link that can't be had must not make a posted message look unposted."""
    try:
        return str(client.chat_getPermalink(channel=channel, message_ts=ts)["permalink"])
    except (NoEffect, Unclear):
        return ""
