"""Capabilities for tests of the engine: their world is a dictionary, with a ledger of every call that reached it."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from django.db import connection

from runs.capability import Args, Capability, Payload, Place, Reading, Retry
from runs.exceptions import NoEffect
from runs.states import Audience, Kind


@dataclasses.dataclass(frozen=True)
class Seen:
    """A call, for the checker: when it came, and whether its caller held a transaction open or took away another's thing."""

    verb: str
    name: str
    key: str
    at: float
    in_transaction: bool
    trampled: bool


class World:
    """What is out there, and who called. A test can make the next calls of one kind fail, lie, hang or be slow."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.things: dict[str, Any] = {}
        self.ledger: list[tuple[str, str, str]] = []
        self.seen: list[Seen] = []
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.lock = threading.RLock()

    def call(self, what: str, name: str, key: str) -> None:
        found = self.things.get(name)
        trampled = what == "undo" and isinstance(found, dict) and found.get("key") != key
        with self.lock:
            self.ledger.append((what, name, key))
            self.seen.append(Seen(what, name, key, time.time(), _in_transaction(), trampled))

    def calls(self, what: str) -> list[str]:
        return [name for verb, name, _ in self.ledger if verb == what]


def _in_transaction() -> bool:
    """Whether the caller has one open, other than the one that a test may run in."""
    return connection.in_atomic_block and not getattr(connection.atomic_blocks[-1], "_from_testcase", False)


world = World()


class Thing(Args):
    name: str
    value: str = "on"


class PutThing(Capability[Thing]):
    """Put a thing into the world."""

    name = "put_thing"
    kind = Kind.REVERSIBLE
    lives_in = "the shelf"
    undo_cost = "take it away"
    undone_when = "it is gone"
    title = "put {name}"
    identifier = "{name}"
    identity = ("name",)
    timeout = 2.0
    probe_for = 0.0
    verify_for = 0.3
    undo_repeatable = True
    retry = Retry(attempts=3, backoff=0.0)
    Args = Thing

    def prepare(self, call: Any) -> dict[str, Any]:
        self._hook("prepare", call)
        return {"was": world.things.get(call.args.name)}

    def do(self, call: Any) -> dict[str, Any]:
        self._hook("do", call)
        world.call("do", call.args.name, call.key)
        world.things[call.args.name] = {"value": call.args.value, "key": call.key}
        self._after("do", call)
        return {"name": call.args.name, "value": call.args.value}

    def undo(self, call: Any) -> None:
        self._hook("undo", call)
        world.call("undo", call.args.name, call.key)
        world.things.pop(call.args.name, None)
        self._after("undo", call)

    def verify_undone(self, call: Any) -> bool:
        self._hook("verify_undone", call)
        world.call("verify_undone", call.args.name, call.key)
        return call.args.name not in world.things

    def probe(self, call: Any) -> dict[str, Any] | None:
        self._hook("probe", call)
        world.call("probe", call.args.name, call.key)
        found = world.things.get(call.args.name)
        return {"name": call.args.name, "value": found["value"]} if found and found["key"] == call.key else None

    def verify_done(self, call: Any) -> bool:
        found = world.things.get(call.args.name)
        return found is not None and found["key"] == call.key and found["value"] == call.args.value

    def _hook(self, what: str, call: Any) -> None:
        if hook := world.before.get(what) or world.before.get(f"{what} {call.args.name}"):
            hook(call)

    def _after(self, what: str, call: Any) -> None:
        if hook := world.after.get(what) or world.after.get(f"{what} {call.args.name}"):
            hook(call)


class ShowThing(PutThing):
    """Put a thing where the team sees it."""

    name = "show_thing"
    kind = Kind.COMPENSATABLE
    audience = Audience.PEOPLE
    read_by = "humans (the team)"
    human_signal = "{name} on the board"
    what_to_do = "Take {name} off your list."
    reverted_to = "nothing on the board"

    def audience_name(self, args: Any) -> str:
        return "team"

    def place(self, call: Any) -> Place:
        return Place(key="board", label="the board", kind="note")

    def correct(self, call: Any, message: Any) -> dict[str, Any]:
        self._hook("correct", call)
        world.call("correct", message.text, message.key)
        world.things[f"note {message.key}"] = message.text
        self._after("correct", call)
        return {"id": message.key}

    def probe_correction(self, call: Any, message: Any) -> dict[str, Any] | None:
        return {"id": message.key} if f"note {message.key}" in world.things else None


class BlindThing(PutThing):
    """Put a thing that nobody can look for."""

    name = "blind_thing"
    kind = Kind.COMPENSATABLE
    probe = Capability.probe


class ReadThing(Capability[Thing]):
    """Look at a thing."""

    name = "read_thing"
    kind = Kind.REVERSIBLE
    leaves_effect = False
    no_effect_reason = "it only reads"
    timeout = 2.0
    retry = Retry(attempts=2, backoff=0.0)
    Args = Thing

    def do(self, call: Any) -> dict[str, Any]:
        world.call("read", call.args.name, call.key)
        if world.things.get("red"):
            raise NoEffect("it is red")
        return {"value": world.things.get(call.args.name)}


class TellClient(PutThing):
    """Tell a client."""

    name = "tell_client"
    kind = Kind.IRREVERSIBLE
    audience = Audience.CLIENTS
    read_by = "the client"
    human_signal = "{name}"
    what_to_do = "Nothing."
    honours_key = True

    def do(self, call: Any) -> dict[str, Any]:
        effect = super().do(call)
        assert call.payload is not None
        return {**effect, "sent": call.payload.body.decode()}

    def render(self, args: Any) -> Payload:
        to = {"target": "client", "url": "https://client.example/notices", "account": "", "credential": "key", "recipient": "client"}
        return Payload(to=to, body=f'{{"say":"{args.value}"}}'.encode(), title=f"Tell the client about {args.name}", as_read=args.value)

    def classify(self, args: Any) -> Reading:
        return Reading(audience=Audience.CLIENTS)

    def place(self, call: Any) -> Place:
        return Place(key=f"client:{call.args.name}", label="the client", kind="ticket")

    def correct(self, call: Any, message: Any) -> dict[str, Any]:
        world.call("correct", message.text, message.key)
        return {"id": message.key}


class TellTeam(TellClient):
    """Tell the team."""

    name = "tell_team"
    audience = Audience.PEOPLE

    def classify(self, args: Any) -> Reading:
        return Reading()
