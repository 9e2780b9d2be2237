"""Reads a plan: classifies each call as far as it is known, and says what its reader should worry about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pydantic

from runs import keys, registry, secret_args
from runs.capability import Capability
from runs.exceptions import Invalid, NoEffect
from runs.models import CapabilityRecord, Claim
from runs.registry import Effective
from runs.states import Audience, Kind


@dataclasses.dataclass(frozen=True)
class PlannedCall:
    """One call of a plan, and how it will be treated if its arguments stay as they are."""

    ref: str
    capability: Capability[Any]
    args: dict[str, Any]
    needs_result: bool
    effective: Effective
    known: Any = None

    @property
    def waits(self) -> bool:
        return self.effective.kind == Kind.IRREVERSIBLE and self.capability.leaves_effect


def read(plan: list[dict[str, Any]]) -> list[PlannedCall]:
    """The calls of a plan; Invalid names every one that is unknown, disabled, a double ref, or has a wrong argument."""
    records = {record.name: record for record in CapabilityRecord.objects.usable()}
    problems: list[str] = []
    calls: list[PlannedCall] = []
    refs: set[str] = set()
    for place, entry in enumerate(plan, 1):
        ref = entry.get("ref") or f"step-{place}"
        capability, record = registry.find(entry["capability"]), records.get(entry["capability"])
        if capability is None or record is None:
            problems.append(f"{ref}: no capability “{entry['capability']}” is registered and enabled")
            continue
        if ref in refs:
            problems.append(f"{ref}: the ref is used twice")
        refs.add(ref)
        args = entry.get("args") or {}
        problems += [f"{ref}: {problem}" for problem in wrong_arguments(capability, args)]
        known = validated(capability, args)
        try:
            how = registry.effective(capability, record, known)
        except NoEffect as exc:
            problems.append(f"{ref}: {exc.reason}")
            continue
        calls.append(PlannedCall(ref, capability, args, bool(entry.get("needs_result")), how, known))
    if problems:
        raise Invalid("The plan can't be used: " + "; ".join(problems) + ".", problems=problems)
    return calls


def validated(capability: Capability[Any], args: dict[str, Any]) -> Any:
    """The arguments as the capability's own model, or None while something in them is missing or wrong."""
    try:
        return capability.Args.model_validate_json(keys.canonical(args))
    except pydantic.ValidationError:
        return None


def wrong_arguments(capability: Capability[Any], args: dict[str, Any], *, complete: bool = False) -> list[str]:
    """What is wrong with these arguments, a sentence each. Missing ones count only when they should be `complete`."""
    if raw := secret_args.problems(capability, args):
        return raw
    try:
        capability.Args.model_validate_json(keys.canonical(args))
    except pydantic.ValidationError as exc:
        return [
            f"{'.'.join(str(part) for part in error['loc']) or 'arguments'}: {error['msg']}"
            for error in exc.errors(include_url=False, include_input=False)
            if complete or error["type"] != "missing"
        ]
    return []


def warnings(calls: list[PlannedCall], owned: Iterable[str], team_id: int) -> list[str]:
    """What the plan's reader should know before it runs. `owned` are the audiences somebody owns."""
    return [*_order(calls), *_unproven(calls), *_unowned(calls, set(owned)), *_overlaps(calls)]


def _order(calls: list[PlannedCall]) -> list[str]:
    waiting = [call.ref for call in calls if call.waits and not call.needs_result]
    first = next((place for place, call in enumerate(calls) if call.waits and not call.needs_result), None)
    if first is None:
        return []
    after = [call.ref for call in calls[first:] if not call.waits]
    if not after:
        return []
    better = [call.ref for call in calls if call.ref not in waiting] + waiting
    return [
        f"{waiting[0]} can't be taken back and stands before {', '.join(after)}; it waits until all of them are done. "
        f"Better: {', '.join(better)}."
    ]


def _unproven(calls: list[PlannedCall]) -> list[str]:
    return [f"{call.ref}: {call.effective.why}, so it is treated as irreversible." for call in calls if call.effective.why]


def _unowned(calls: list[PlannedCall], owned: set[str]) -> list[str]:
    found = []
    for call in calls:
        if call.effective.audience == Audience.MACHINES or call.known is None or not call.capability.leaves_effect:
            continue
        name = call.capability.audience_name(call.known)
        if name not in owned:
            found.append(f"{call.ref}: nobody owns the audience “{name or call.effective.read_by}”; a correction would reach no one.")
    return found


def _overlaps(calls: list[PlannedCall]) -> list[str]:
    known = [call for call in calls if call.known is not None]
    touched = {keys.resource(name): call.ref for call in known for name in call.capability.touches(call.known)}
    claims = Claim.objects.filter(live=True, resource__in=touched).order_by("resource").values_list("resource", "run_id")
    return [f"{touched[resource]}: run {run} still has an effect on {resource}." for resource, run in claims]
