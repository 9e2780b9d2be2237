"""What makes two calls the same: RFC 8785 canonical JSON, hashed with SHA-256."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import rfc8785

from runs.capability import Capability
from runs.exceptions import Invalid

LONGEST_RESOURCE = 300


def canonical(value: Any) -> bytes:
    """RFC 8785's bytes for `value`; Invalid for what it can't express (a number beyond 2^53, say)."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as exc:
        raise Invalid(f"The arguments have no canonical form: {exc}. Send such a value as a string.") from None


def digest(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def intent(capability: Capability[Any], ref: str | None, args: dict[str, Any]) -> str:
    """The key of a call: the same call under the same ref has the same key, on every machine and in every version."""
    return digest([capability.name, ref, identity(capability, args)])


def of_call(nonce: uuid.UUID, intent_key: str, args_digest: str) -> str:
    """The key a target gets: the same over all attempts at one intent, another for other arguments or another run."""
    return digest([str(nonce), intent_key, args_digest])


def resource(name: str) -> str:
    """What a claim on `name` is stored under; of a long one its digest tells it apart."""
    return name if len(name) <= LONGEST_RESOURCE else f"{name[:200]}…{digest(name)}"


def identity(capability: Capability[Any], args: dict[str, Any]) -> dict[str, Any]:
    """The arguments that make the intent."""
    if capability.identity is None:
        return args
    return {name: args[name] for name in capability.identity if name in args}
