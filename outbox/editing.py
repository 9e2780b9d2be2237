"""What a reviewer may change in a waiting call, and what comes of it: validated and rendered like a new request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from outbox import release
from outbox.exceptions import NotDecidable, WrongEdit
from outbox.models import Item
from runs import keys, plan, registry
from runs.capability import Capability, Payload
from runs.exceptions import Invalid, NoEffect
from runs.models import CapabilityRecord
from runs.states import AUDIENCE_ORDER


@dataclasses.dataclass(frozen=True)
class Field:
    """One argument: how its schema describes it, what it is now, and why it is locked; "" where it may be changed."""

    name: str
    schema: dict[str, Any]
    value: Any
    locked: str


@dataclasses.dataclass(frozen=True)
class Revised:
    """The arguments as they would be now, and what would be sent."""

    args: dict[str, Any]
    changed: list[str]
    read_by: str
    payload: Payload
    version: str


def fields_of(item: Item) -> list[Field]:
    """Every argument of the call, in the order of its schema."""
    capability = registry.find(item.step.capability)
    if capability is None:
        return []
    properties = capability.schema().get("properties", {})
    args = item.step.args
    return [
        Field(name, schema, args.get(name, schema.get("default")), _why_locked(item, capability, name))
        for name, schema in properties.items()
    ]


def is_editable(item: Item) -> bool:
    return any(not field.locked for field in fields_of(item))


def _why_locked(item: Item, capability: Capability[Any], name: str) -> str:
    if name in capability.secret:
        return "it names a secret"
    return "" if item.policy is not None and item.policy.lets_edit(name) else "the policy lets nobody change it here"


def revise(item: Item, fields: Mapping[str, Any]) -> Revised:
    """What `fields` make of the call. NotDecidable if the policy forbids one, WrongEdit if the result can't be sent."""
    capability, record = registry.find(item.step.capability), CapabilityRecord.objects.filter(name=item.step.capability).first()
    if capability is None or record is None:
        raise NotDecidable(f"No code defines {item.step.capability} any more, so nothing of it can be edited.")
    known = {field.name: field for field in fields_of(item)}
    for name in fields:
        if name not in known or known[name].locked:
            raise NotDecidable(f"“{name}” can't be edited: {known[name].locked if name in known else 'there is no such field'}.")
    changed = [name for name, value in fields.items() if name not in item.step.args or item.step.args[name] != value]
    if not changed:
        raise WrongEdit({"": "Nothing was changed."})
    args = {**item.step.args, **fields}
    try:
        return _rendered(item, capability, record, args, changed)
    except NoEffect as exc:
        raise WrongEdit({"": f"It can't be sent like this: {exc.reason}."}) from exc
    except Invalid as exc:
        raise WrongEdit({"": exc.detail}) from exc


def _rendered(item: Item, capability: Capability[Any], record: CapabilityRecord, args: dict[str, Any], changed: list[str]) -> Revised:
    if problems := plan.wrong_arguments(capability, args, complete=True):
        raise WrongEdit(dict(problem.partition(": ")[::2] for problem in problems))
    was, now = plan.validated(capability, item.step.args), plan.validated(capability, args)
    how = registry.effective(capability, record, now)
    if AUDIENCE_ORDER.index(how.audience) > AUDIENCE_ORDER.index(item.step.audience):  # type: ignore[arg-type]
        raise WrongEdit({"": f"With this it would be read by {how.audience}: another call. Reject it, and the agent asks anew."})
    if was is not None and set(capability.touches(was)) != set(capability.touches(now)):
        raise WrongEdit({"": "With this it would change something else: another call. Reject it, and the agent asks anew."})
    keys.canonical(args)
    return Revised(args, changed, how.read_by, release.payload_of(capability, now, args), capability.version())
