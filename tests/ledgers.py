"""What reached a target, in one form for the checker: from the dictionary of tests/tools.py, or from the demo world's ledger."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from tests import shelf, tools


@dataclasses.dataclass(frozen=True)
class Call:
    """One call that reached the target: `do`, `undo`, `correct`, `other`, or `theirs` for somebody else's change.

    `effect`: it changed something. `on` is the object it was about. `trampled`: it took away what somebody else had put there.
    """

    verb: str
    key: str
    on: str
    started: float
    ended: float
    effect: bool = True
    in_transaction: bool = False
    trampled: bool = False


@dataclasses.dataclass(frozen=True)
class Ledger:
    """How to read a target's calls, and the capabilities every effect of which stands in it."""

    read: Callable[[], list[Call]]
    watches: frozenset[str]


def _names(base: type[Any]) -> frozenset[str]:
    return frozenset({base.name}.union(*(_names(one) for one in base.__subclasses__())))


def of_tools() -> Ledger:
    """The dictionary that the capabilities of tests/tools.py change."""

    def read() -> list[Call]:
        return [
            Call(
                one.verb if one.verb in ("do", "undo", "correct") else "other",
                one.key,
                one.name,
                one.at,
                one.at,
                effect=one.verb in ("do", "undo", "correct"),
                in_transaction=one.in_transaction,
                trampled=one.trampled,
            )
            for one in tools.world.seen
        ]

    return Ledger(read, _names(tools.PutThing))


def of_world(world: Any, since: float = 0.0) -> Ledger:
    """The ledger of a running demo world, from the time `since`."""

    def read() -> list[Call]:
        calls = [_of_world(entry) for entry in world.ledger() if entry["started"] >= since]
        return [dataclasses.replace(call, trampled=_tramples(call, calls)) for call in calls]

    return Ledger(read, _names(shelf.PutItem))


def _of_world(entry: dict[str, Any]) -> Call:
    times = {"started": entry["started"], "ended": entry["ended"] or entry["started"], "effect": entry["effect"]}
    if entry["system"] == "somebody else":
        change = json.loads(entry["body"])
        on = f"/{change.get('shelf', 'shelf')}/items/{change.get('name')}" if change["system"] == "shelf" else change["system"]
        return Call("theirs", "gone" if change.get("delete") else "there", on, **times)
    verbs = {"PUT": "do", "POST": "do", "DELETE": "undo"} if entry["system"].startswith("shelf") else {}
    return Call(verbs.get(entry["method"], "other"), entry["key"], entry["path"], **times)


def _tramples(call: Call, calls: list[Call]) -> bool:
    """Whether it changed an object that at that time was somebody else's."""
    if not call.effect or call.verb not in ("do", "undo"):
        return False
    before = [one for one in calls if one.verb == "theirs" and one.on == call.on and one.ended <= call.started]
    return bool(before) and before[-1].key == "there"
