"""Flags in Unleash: one flag for one segment, by Unleash's admin API (tried with 7.5.1).

A segment is a strategy with the constraint `cohort IN [segment]` (the context field's name is the target's `context`).
Turning it on adds such a strategy, or enables the disabled one; turning it off disables it. Either is one call that touches
one strategy, so nothing is ever half done and other segments can't be caught by it. The strategy's title carries the call's
key: that is how a strategy is known to be ours, and not a stranger's for the same segment.

Target: `{"system": "unleash", "base_url", "token" | "token_env" | "token_file", "project": "default",
"environment": "development", "context": "cohort"}`; the token needs the rights to edit strategies in that environment.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any
from urllib.parse import quote

import pydantic

from runs.capability import JSON, Args, Call, Capability, Message, Payload, Place
from runs.capability import Reading as Reach
from runs.connectors import notes
from runs.connectors.credentials import credential
from runs.connectors.http import Service, before_sending, looking, service
from runs.connectors.payload import KEY_SLOT, approved, canonical, destination
from runs.connectors.targets import Target, target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience

# What Unleash makes of a strategy by itself: new when it is made again, or no part of what it does.
INCIDENTAL = ("id", "featureName", "sortOrder", "milestoneId")


class SetFlagArgs(Args):
    flag: str = pydantic.Field(description="The flag's name, as Unleash has it.", pattern=r"^[A-Za-z0-9_.~-]{1,100}$")
    segment: str = pydantic.Field(description="The one segment (cohort) to change; others stay as they are.", min_length=1, max_length=100)
    value: bool = pydantic.Field(description="true turns the flag on for this segment, false off.")
    target: str = pydantic.Field("flags", description="The configured flag service.")


@dataclasses.dataclass(frozen=True)
class Reading:
    """A flag in one environment, seen from one segment: its own strategies apart from everybody else's."""

    enabled: bool
    ours: list[JSON]
    others: list[JSON]

    @property
    def on(self) -> bool:
        return self.enabled and any(not s.get("disabled") for s in self.ours)

    def part(self) -> list[JSON]:
        """The segment's own state, in a form that can be compared."""
        return [plain(s) for s in self.ours]


def plain(strategy: JSON) -> JSON:
    return {name: value for name, value in strategy.items() if name not in INCIDENTAL and not (name == "segments" and not value)}


def word(*, on: bool) -> str:
    return "on" if on else "off"


class SetFlag(Capability[SetFlagArgs]):
    """Turn a feature flag on or off for one segment; every other segment stays as it is."""

    name = "set_flag"
    lives_in = "flag service"
    audience = Audience.PEOPLE
    read_by = "the segment"
    undo_cost = "restore snapshot"
    undo_note = "other segments keep what they have"
    undone_when = "flag matches the snapshot"
    human_signal = "flag {flag} turned {after} for {segment}"
    what_to_do = "Nothing. What was tried with the flag {after} can be discarded."
    reverted_to = "{before} for {segment}"
    title = "set flag for {segment}"
    identifier = "{flag} @ {segment}"
    undo_repeatable = True
    connector_version = "unleash-1"
    Args = SetFlagArgs

    def prepare(self, call: Call[SetFlagArgs]) -> JSON:
        with before_sending():
            reading = read(_service(call), call.args)
        _refuse_what_reaches_others(reading, call.args)
        snapshot = {"enabled": reading.enabled, "ours": reading.part(), "others": [plain(s) for s in reading.others]}
        return {**snapshot, "snapshot": f"fs_{hashlib.sha256(canonical(snapshot)).hexdigest()[:8]}", "before": word(on=reading.on)}

    def do(self, call: Call[SetFlagArgs]) -> JSON:
        with before_sending():
            unleash = _service(call)
            reading = read(unleash, call.args)
        if reading.part() != call.prepared["ours"] or reading.enabled != call.prepared["enabled"]:
            if late := _marked(call, unleash, reading):
                return late  # An earlier attempt's call, which was slow to arrive.
            raise NoEffect(f"{call.args.flag} was changed for {call.args.segment} since the snapshot. Nothing was done; ask again.")
        strategy = {**approved(call, self.render(call.args))["strategy"], "title": _mark(call)}
        if not reading.ours:
            answer = unleash.send("POST", _path(unleash.target, call.args, "/strategies"), strategy)
        else:
            kept = {**reading.ours[0], "title": strategy["title"], "disabled": strategy["disabled"]}
            answer = _replace(unleash, call.args, kept)
        return _effect(call, unleash, unleash.parse(answer))

    def undo(self, call: Call[SetFlagArgs]) -> None:
        with before_sending():
            unleash = _service(call)
            reading = read(unleash, call.args)
        if reading.part() == call.prepared["ours"]:
            return
        if reading.part() != call.effect["strategies"] and not call.over:
            raise NoEffect(f"{call.args.flag} was changed for {call.args.segment} by someone else. It was left as it is now.")
        if any(map(_shares, reading.ours)):
            raise NoEffect(f"{call.args.flag} for {call.args.segment} is decided by a strategy that it shares now. It was left as it is.")
        _put_back(unleash, call, reading.ours)

    def verify_undone(self, call: Call[SetFlagArgs]) -> bool:
        return bool(read(_service(call), call.args).part() == call.prepared["ours"])

    def probe(self, call: Call[SetFlagArgs]) -> JSON | None:
        unleash = _service(call)
        return _marked(call, unleash, read(unleash, call.args))

    def verify_done(self, call: Call[SetFlagArgs]) -> bool:
        return bool(read(_service(call), call.args).part() == call.effect["strategies"])

    def correct(self, call: Call[SetFlagArgs], message: Message) -> JSON:
        return notes.note(message, call.timeout)

    def probe_correction(self, call: Call[SetFlagArgs], message: Message) -> JSON | None:
        return notes.find_note(message, call.timeout)

    def replies(self, call: Call[SetFlagArgs], message: Message, posted: JSON) -> int | None:
        return notes.replies(message, posted, call.timeout)

    def place(self, call: Call[SetFlagArgs]) -> Place:
        segment = call.args.segment
        return Place(key=f"cohort:{segment}", label=f"a note to the owner of {segment}", kind="note", address={"cohort": segment})

    def render(self, args: SetFlagArgs) -> Payload:
        """What is asked of the flag; the strategy in it is what Unleash gets, its title then holding the call's key."""
        at = target(args.target, "unleash")
        to = destination(at, _path(at, args), args.segment)
        strategy = {
            "name": "flexibleRollout",
            "title": KEY_SLOT,
            "disabled": not args.value,
            "parameters": {"rollout": "100", "stickiness": "default", "groupId": args.flag},
            "constraints": [{"contextName": at.get("context", "cohort"), "operator": "IN", "values": [args.segment]}],
        }
        said = f"Flag {args.flag} {word(on=args.value)} for {args.segment}"
        return Payload(to=to, body=canonical({"segment": args.segment, "strategy": strategy}), title=said, as_read=said)

    def classify(self, args: SetFlagArgs) -> Reach:
        return Reach(read_by=f"humans ({args.segment})")

    def audience_name(self, args: SetFlagArgs) -> str:
        return args.segment

    def touches(self, args: SetFlagArgs) -> list[str]:
        return [f"flag:{args.target}/{args.flag}@{args.segment}"]


def read(unleash: Service, args: SetFlagArgs) -> Reading:
    """The flag as it is now; `Unreadable` when that can't be said, also where there is no such flag."""
    found = unleash.read(_path(unleash.target, args), absent=True)
    if found is None:
        project, environment = _home(unleash.target)
        raise Unreadable(f"{unleash.where} has no flag {args.flag} in project {project}, environment {environment}.")
    context = unleash.target.get("context", "cohort")
    ours = [s for s in found["strategies"] if args.segment in _segments(s, context)]
    return Reading(bool(found["enabled"]), ours, [s for s in found["strategies"] if s not in ours])


def _segments(strategy: JSON, context: str) -> list[str]:
    """Those it is for: what its constraints on `context` list."""
    constraints = (c for c in strategy.get("constraints", []) if c.get("contextName") == context)
    return [value for c in constraints if c.get("operator") == "IN" and not c.get("inverted") for value in c.get("values", [])]


def _shares(strategy: JSON) -> bool:
    constraints = strategy.get("constraints", [])
    return len(constraints) != 1 or len(constraints[0].get("values", [])) != 1


def _refuse_what_reaches_others(reading: Reading, args: SetFlagArgs) -> None:
    """`NoEffect` where this segment can't be changed alone, or is as wanted already."""
    what = f"{args.flag} for {args.segment}"
    if reading.on is args.value:
        raise NoEffect(f"{what} is {word(on=args.value)} already. Nothing was done.")
    if not reading.enabled:
        raise NoEffect(f"{args.flag} is off in this environment. Turning that on reaches others than {args.segment}: a person has to.")
    if len(reading.ours) > 1 or any(map(_shares, reading.ours)):
        raise NoEffect(f"{what} is decided by a strategy that it shares, or by several: split them in Unleash first.")
    if not any(not s.get("disabled") for s in reading.others):
        # Unleash turns a flag's environment off with its last live strategy, and a flag without any is on for everybody.
        raise NoEffect(f"{args.flag} has no other live strategy, so that this would switch it for everybody: a person has to.")


def _home(at: Target) -> tuple[str, str]:
    return at.get("project", "default"), at.get("environment", "development")


def _path(at: Target, args: SetFlagArgs, rest: str = "") -> str:
    project, environment = (quote(name, safe="") for name in _home(at))
    return f"/api/admin/projects/{project}/features/{quote(args.flag, safe='')}/environments/{environment}{rest}"


def _replace(unleash: Service, args: SetFlagArgs, strategy: JSON) -> Any:
    body = {name: value for name, value in strategy.items() if name not in INCIDENTAL}
    return unleash.send("PUT", _path(unleash.target, args, f"/strategies/{quote(strategy['id'], safe='')}"), body)


def _put_back(unleash: Service, call: Call[SetFlagArgs], now: list[JSON]) -> None:
    """The segment's strategy as the snapshot has it, in the place of those it has now; by a person's choice there may be none."""
    for before in call.prepared["ours"]:
        if now:
            _replace(unleash, call.args, {**before, "id": now[0]["id"]})
        else:
            unleash.send("POST", _path(unleash.target, call.args, "/strategies"), before)
    for extra in now[len(call.prepared["ours"]) :]:
        unleash.send("DELETE", _path(unleash.target, call.args, f"/strategies/{quote(extra['id'], safe='')}"))


def _service(call: Call[SetFlagArgs]) -> Service:
    with looking():
        at = target(call.args.target, "unleash")
        token = credential(at)
    return service(at, {"Authorization": token}, call.timeout, token)


def _mark(call: Call[SetFlagArgs]) -> str:
    return f"sagaboard {call.key}"


def _marked(call: Call[SetFlagArgs], unleash: Service, reading: Reading) -> JSON | None:
    """The effect of this very call, if it is there."""
    found = (s for s in reading.ours if s.get("title") == _mark(call))
    return next((_effect(call, unleash, strategy) for strategy in found), None)


def _effect(call: Call[SetFlagArgs], unleash: Service, strategy: JSON) -> JSON:
    _, environment = _home(unleash.target)
    return {
        "flag": call.args.flag,
        "segment": call.args.segment,
        "environment": environment,
        "before": call.prepared["before"],
        "after": word(on=not strategy.get("disabled")),
        "strategy": strategy.get("id"),
        "strategies": [plain(strategy)],
        "snapshot": call.prepared["snapshot"],
    }
