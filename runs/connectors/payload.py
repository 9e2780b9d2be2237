"""What a reviewer approves and what is sent for it: canonical bytes, their destination, and the mark of the call in them."""

from __future__ import annotations

import json
from typing import Any

import rfc8785

from runs.capability import JSON, Call, Payload
from runs.connectors.credentials import credential_name
from runs.connectors.targets import Target

# Stands in the approved bytes for the call's key, by which the target is asked later whether it got the call. It is the
# one thing in a body that isn't known when the arguments are.
KEY_SLOT = "(key of this call)"


def canonical(body: JSON) -> bytes:
    return rfc8785.dumps(body)


def destination(target: Target, path: str, recipient: str) -> JSON:
    """The resolved target, as a decision is bound to it."""
    return {
        "target": target.name,
        "url": target["base_url"].rstrip("/") + path,
        "account": str(target.get("account", "")),
        "credential": credential_name(target),
        "recipient": recipient,
    }


def approved(call: Call[Any], rendered: Payload) -> JSON:
    """The body to send: the approved one where a person approved one, else as rendered now; both without their key."""
    body: JSON = json.loads((call.payload or rendered).body)
    return body
