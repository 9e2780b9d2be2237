"""Capabilities for tests with real processes: their target is the world's shelf, whose ledger counts what reached it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from runs.capability import Args, Capability, Payload, Place, Retry
from runs.connectors.targets import target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience, Kind


class Item(Args):
    name: str
    value: str = "on"
    shelf: str = "shelf"


class PutItem(Capability[Item]):
    """Put an item on the shelf."""

    name = "put_item"
    kind = Kind.REVERSIBLE
    lives_in = "the shelf"
    undo_cost = "take it away"
    undone_when = "it is gone"
    title = "put item"
    identifier = "{name}"
    identity = ("name", "shelf")
    timeout = 2.0
    probe_for = 0.5
    verify_for = 2.0
    undo_repeatable = True
    retry = Retry(attempts=5, backoff=0.2)
    Args = Item

    def prepare(self, call: Any) -> dict[str, Any]:
        return {"was": self._read(call)}

    def do(self, call: Any) -> dict[str, Any]:
        answer = self._call("PUT", call, json={"value": call.args.value}, headers={"If-None-Match": "*"})
        if answer.status_code == 412:
            raise NoEffect("there is an item of this name")
        answer.raise_for_status()
        return {"name": call.args.name, "key": call.key}

    def undo(self, call: Any) -> None:
        self._call("DELETE", call, headers={"If-Match": call.key}).raise_for_status()

    def verify_undone(self, call: Any) -> bool:
        return self._read(call) is None

    def probe(self, call: Any) -> dict[str, Any] | None:
        found = self._read(call)
        return {"name": call.args.name, "key": call.key} if found and found["key"] == call.key else None

    def verify_done(self, call: Any) -> bool:
        found = self._read(call)
        return bool(found) and found["key"] == call.key

    def touches(self, args: Item) -> list[str]:
        return [f"{args.shelf}/{args.name}"]

    def _read(self, call: Any) -> dict[str, Any] | None:
        answer = self._call("GET", call)
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise Unreadable(f"the shelf answered {answer.status_code}")
        return dict(answer.json())

    def _known(self, at: Any, call: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {Path(at['token_file']).read_text()}", "Idempotency-Key": call.key}

    def _call(self, method: str, call: Any, headers: dict[str, str] | None = None, json: Any = None) -> httpx.Response:
        at = target(call.args.shelf, "shelf")
        sent = {**self._known(at, call), **(headers or {})}
        url = f"{at['base_url']}/items/{call.args.name}"
        return httpx.request(method, url, headers=sent, json=json, timeout=call.timeout, trust_env=False)


class ShowItem(PutItem):
    """Put an item where the team sees it; what is said of it later goes through the slot."""

    name = "show_item"
    kind = Kind.COMPENSATABLE
    audience = Audience.PEOPLE
    read_by = "the team"
    human_signal = "{name} on the shelf"
    what_to_do = "Nothing."
    reverted_to = "nothing on the shelf"

    def place(self, call: Any) -> Place:
        return Place(key="shelf", label="the shelf", kind="ticket")

    def correct(self, call: Any, message: Any) -> dict[str, Any]:
        answer = self._slot("POST", call, message, content=json.dumps({"say": message.text}).encode())
        answer.raise_for_status()
        return {"id": answer.json()["id"]}

    def probe_correction(self, call: Any, message: Any) -> dict[str, Any] | None:
        found = self._slot("GET", call, message).json()["sends"]
        return {"id": found[0]["id"]} if found else None

    def _slot(self, method: str, call: Any, message: Any, content: bytes | None = None) -> httpx.Response:
        at = target("shelf-plain", "shelf")
        sent = {**self._known(at, call), "Idempotency-Key": message.key, "Content-Type": "application/json"}
        params = {"key": message.key} if method == "GET" else None
        url = f"{at['base_url']}/sends"
        return httpx.request(method, url, headers=sent, content=content, params=params, timeout=call.timeout, trust_env=False)


class BlindItem(PutItem):
    """Put an item that nobody can look for."""

    name = "blind_item"
    kind = Kind.COMPENSATABLE
    probe = Capability.probe


class SendItem(PutItem):
    """Send something that can't be taken back, by a target that honours the key."""

    name = "send_item"
    kind = Kind.IRREVERSIBLE
    audience = Audience.PEOPLE
    read_by = "the team"
    human_signal = "{name}"
    what_to_do = "Nothing."
    honours_key = True
    undo = Capability.undo
    prepare = Capability.prepare

    def do(self, call: Any) -> dict[str, Any]:
        answer = self._post(call)
        answer.raise_for_status()
        return {"id": answer.json()["id"]}

    def probe(self, call: Any) -> dict[str, Any] | None:
        answer = self._sends("GET", call)
        if answer.status_code != 200:
            raise Unreadable("no look-up")
        found = answer.json()["sends"]
        return {"id": found[0]["id"]} if found else None

    def render(self, args: Item) -> Payload:
        to = {"target": args.shelf, "url": "/sends", "account": "", "credential": "token", "recipient": "team"}
        return Payload(to=to, body=f'{{"say":"{args.value}"}}'.encode(), title=f"Send {args.name}")

    def _post(self, call: Any) -> httpx.Response:
        assert call.payload is not None
        return self._sends("POST", call, content=call.payload.body)

    def _sends(self, method: str, call: Any, content: bytes | None = None) -> httpx.Response:
        at = target(call.args.shelf, "shelf")
        sent = {**self._known(at, call), "Content-Type": "application/json"}
        params = {"key": call.key} if method == "GET" else None
        return httpx.request(
            method, f"{at['base_url']}/sends", headers=sent, content=content, params=params, timeout=call.timeout, trust_env=False
        )


class SendKeyed(SendItem):
    """Send by a target that honours the key and can't be asked."""

    name = "send_keyed"
    audience = Audience.CLIENTS
    read_by = "the client"
    probe = Capability.probe


class SendBlind(SendItem):
    """Send by a target that knows no key and can't be asked."""

    name = "send_blind"
    audience = Audience.CLIENTS
    read_by = "the client"
    honours_key = False
    probe = Capability.probe


class SendOut(SendItem):
    """Send something to a client."""

    name = "send_out"
    audience = Audience.CLIENTS
    read_by = "the client"
