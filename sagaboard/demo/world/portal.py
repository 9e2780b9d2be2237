"""The client portal: what the tracker's webhook tells it, clients read."""

from __future__ import annotations

import hashlib
import json

from sagaboard.demo.world.store import JSON, Store, now


def hear(store: Store, event: JSON) -> None:
    """Takes one call of the webhook, which stands in the ledger as the call of its own that it is."""
    body = json.dumps(event)
    digest = hashlib.sha256(body.encode()).hexdigest()
    entry = store.arrived(system="portal", method="POST", path="/portal/hooks/jira", key="", digest=digest, body=body)
    number = store.next("portal")
    store.put("portal", str(number), {"id": number, "at": now(), **event})
    store.ended(entry, status=200, effect=True, answer="real")
