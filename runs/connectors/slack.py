"""Messages in Slack, by its Web API: a post to a channel, its correction in the same thread, and notes to one person.

What is posted carries its call's key as message metadata, by which it is found again.

Target: `{"system": "slack", "base_url": "https://slack.com/api", "token" | "token_env" | "token_file"}`; a bot token with
chat:write, channels:read, channels:history, groups:read, groups:history, im:write, im:history; the bot is in the channel.
"""

from __future__ import annotations

import pydantic

from runs.capability import JSON, Args, Call, Capability, Message, Payload, Place
from runs.connectors.credentials import short
from runs.connectors.http import before_sending
from runs.connectors.payload import KEY_SLOT, approved, canonical, destination
from runs.connectors.slack_api import (
    Client,
    Refused,
    connect,
    count_after,
    find_channel,
    looks,
    message_at,
    message_id,
    metadata,
    permalink,
    plain_text,
    search,
)
from runs.connectors.targets import target
from runs.exceptions import NoEffect
from runs.states import Audience, Kind

POSTED, CORRECTED = "sagaboard_call", "sagaboard_correction"
# Slack advises to stay below this many characters, and cuts much longer ones.
LONGEST = 4000


class PostSummaryArgs(Args):
    channel: str = pydantic.Field(description="#name or id of the channel.", pattern=r"^(#[^\s#]{1,80}|[CGD][A-Z0-9]{2,30})$")
    text: str = pydantic.Field(description="What to say, as plain text.", min_length=1, max_length=4000)
    thread: str = pydantic.Field("", description="The ts of the thread's root, to answer in it.", pattern=r"^(\d{1,12}\.\d{1,9})?$")
    target: str = pydantic.Field("chat", description="The configured chat.")


class PostSummary(Capability[PostSummaryArgs]):
    """Post a message to one of the team's channels."""

    name = "post_summary"
    kind = Kind.IRREVERSIBLE
    lives_in = "Slack"
    audience = Audience.PEOPLE
    read_by = "the team"
    undo_cost = "delete the message"
    undo_note = "being read can’t be undone"
    undone_when = "message is gone; reading stays read"
    human_signal = "message in {channel_name}: {said}"
    what_to_do = "Nothing. Please don’t act on that message."
    reverted_to = "not said; the message is deleted"
    title = "post summary"
    identifier = "{channel}"
    undo_repeatable = True
    connector_version = "slack-1"
    Args = PostSummaryArgs

    def prepare(self, call: Call[PostSummaryArgs]) -> JSON:
        with before_sending(), looks():
            client = connect(call.args.target, call.timeout)
            channel = find_channel(client, call.args.channel)
            newest = client.conversations_history(channel=channel, limit=1)["messages"]
        return {"channel": channel, "since": newest[0]["ts"] if newest else "0"}

    def do(self, call: Call[PostSummaryArgs]) -> JSON:
        with before_sending():
            client = connect(call.args.target, call.timeout)
        body = approved(call, self.render(call.args))
        body["metadata"]["event_payload"]["key"] = call.key
        posted = client.api_call("chat.postMessage", json={**body, "client_msg_id": message_id(call.key)})
        return _effect(call, client, posted["channel"], {**posted["message"], "ts": posted["ts"]})

    def undo(self, call: Call[PostSummaryArgs]) -> None:
        with before_sending():
            client = connect(call.args.target, call.timeout)
        try:
            client.chat_delete(channel=call.effect["channel"], ts=call.effect["ts"])
        except Refused as exc:
            if exc.error != "message_not_found":
                raise

    def verify_undone(self, call: Call[PostSummaryArgs]) -> bool:
        return _now(call) is None

    def verify_done(self, call: Call[PostSummaryArgs]) -> bool:
        now = _now(call)
        return now is not None and now.get("text") == call.effect["text"]

    def probe(self, call: Call[PostSummaryArgs]) -> JSON | None:
        channel, since = call.prepared["channel"], call.prepared["since"]
        with looks():
            client = connect(call.args.target, call.timeout)
            found = search(client, POSTED, call.key, channel=channel, thread=call.args.thread, oldest=since)
        return found and _effect(call, client, channel, found)

    def correct(self, call: Call[PostSummaryArgs], message: Message) -> JSON:
        with before_sending(), looks():
            client = connect(call.args.target, call.timeout)
            if found := self.probe_correction(call, message):
                return found
            if not message.at and _now(call) is None:
                where = f"The message to be corrected is gone from {call.args.channel}"
                raise NoEffect(f"{where}. Nothing was posted elsewhere: choose where it should go.")
        if message.at:
            return _post(client, message, channel=message.at["channel"])
        return _post(client, message, channel=call.effect["channel"], thread_ts=call.effect["root"])

    def probe_correction(self, call: Call[PostSummaryArgs], message: Message) -> JSON | None:
        channel, root = call.effect["channel"], call.effect["root"]
        with looks():
            client = connect(call.args.target, call.timeout)
            if message.at:
                found = search(client, CORRECTED, message.key, channel=message.at["channel"])
                return found and _posted(client, message.at["channel"], found["ts"])
            if message_at(client, channel, root, root) is None:
                return None
            found = search(client, CORRECTED, message.key, channel=channel, thread=root)
        return found and _posted(client, channel, found["ts"])

    def place(self, call: Call[PostSummaryArgs]) -> Place:
        channel, root = call.effect["channel"], call.effect["root"]
        label = f"a reply in the thread of the message in {call.args.channel}"
        key, address, readers = (
            f"thread:{call.args.target}/{channel}/{root}",
            {"channel": channel, "root": root},
            f"everybody in {call.args.channel}",
        )
        return Place(key, label, "thread", address, limit=LONGEST, readers=readers, above=call.args.text)

    def elsewhere(self, call: Call[PostSummaryArgs]) -> list[Place]:
        """The channel itself: nobody finds a reply to a message that is gone."""
        channel, name = call.effect["channel"], call.args.channel
        quote = f"The message this is about is no longer there. It said: “{call.effect['said']}”"
        key, label = f"channel:{call.args.target}/{channel}", f"a new message in {name}, which quotes the one that is gone"
        readers = f"everybody in {name}"
        return [Place(key, label, "channel", {"channel": channel}, limit=LONGEST, readers=readers, quote=quote)]

    def replies(self, call: Call[PostSummaryArgs], message: Message, posted: JSON) -> int | None:
        with looks():
            client = connect(call.args.target, call.timeout)
            root = posted["id"] if message.at else call.effect["root"]
            return count_after(client, channel=posted["channel"], thread=root, ts=posted["id"])

    def render(self, args: PostSummaryArgs) -> Payload:
        """The message, as Slack gets it; only its key, and the message id made from that, are added when it goes out."""
        body = {"channel": args.channel, **plain_text(args.text), "metadata": metadata(POSTED, KEY_SLOT)}
        if args.thread:
            body["thread_ts"] = args.thread
        to = destination(target(args.target, "slack"), "/chat.postMessage", args.channel)
        return Payload(to=to, body=canonical(body), title=f"Message to {args.channel}", as_read=args.text)

    def audience_name(self, args: PostSummaryArgs) -> str:
        return args.channel


def note(message: Message, timeout: float) -> JSON:
    """A direct message to `message.to` (`{"target", "user"}`); posted once for one `message.key`."""
    with before_sending():
        if found := find_note(message, timeout):
            return found
        client, channel = _direct(message, timeout)
    return _post(client, message, channel=channel)


def find_note(message: Message, timeout: float) -> JSON | None:
    """The note with the key of `message`, where its addressee reads it; None when it is not there."""
    client, channel = _direct(message, timeout)
    with looks():
        found = search(client, CORRECTED, message.key, channel=channel)
    return found and _posted(client, channel, found["ts"])


def replies_to(message: Message, posted: JSON, timeout: float) -> int:
    """What the one who got the note wrote after it, below it or beside it."""
    client, channel = _direct(message, timeout)
    with looks():
        below = count_after(client, channel=channel, thread=posted["id"], ts=posted["id"])
        return below + count_after(client, channel=channel, ts=posted["id"])


def _direct(message: Message, timeout: float) -> tuple[Client, str]:
    """The client and the channel of a conversation with the one who is to be told; Slack opens it without telling anybody."""
    with looks():
        if not message.to.get("user"):
            raise NoEffect("Nobody is named to be told: say who owns this audience, and their address.")
        client = connect(message.to.get("target", "chat"), timeout)
        return client, str(client.conversations_open(users=message.to["user"])["channel"]["id"])


def _now(call: Call[PostSummaryArgs]) -> JSON | None:
    """Our message as it is now; None when it is gone."""
    with looks():
        client = connect(call.args.target, call.timeout)
        return message_at(client, call.effect["channel"], call.effect["ts"], call.effect["root"])


def _post(client: Client, message: Message, **where: str) -> JSON:
    body = {**where, **plain_text(message.text), "metadata": metadata(CORRECTED, message.key)}
    posted = client.api_call("chat.postMessage", json={**body, "client_msg_id": message_id(message.key)})
    return _posted(client, posted["channel"], posted["ts"])


def _posted(client: Client, channel: str, ts: str) -> JSON:
    return {"id": ts, "channel": channel, "link": permalink(client, channel, ts)}


def _effect(call: Call[PostSummaryArgs], client: Client, channel: str, message: JSON) -> JSON:
    ts = message["ts"]
    return {
        "channel": channel,
        "channel_name": call.args.channel,
        "ts": ts,
        "root": message.get("thread_ts") or ts,
        "link": permalink(client, channel, ts),
        "text": message.get("text", ""),
        "said": short(call.args.text, 120),
    }
