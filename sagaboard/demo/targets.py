"""The setting SAGABOARD_TARGETS for the demo world's HTTP systems, and for the sandboxes in it where undos are rehearsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sagaboard.demo.world.jira import ACCOUNT

Options = dict[str, Any]


def targets(world_url: str, tokens: Path) -> dict[str, Options]:
    """The targets by name; `tokens` is the folder of token files that the world keeps in its state."""
    flags = {"system": "unleash", "base_url": f"{world_url}/unleash", "token_file": str(tokens / "flags"), "project": "default"}
    tickets = {"system": "jira", "base_url": f"{world_url}/jira", "account": ACCOUNT, "token_file": str(tokens / "tickets")}
    chat = {"system": "slack", "base_url": f"{world_url}/slack/api", "token_file": str(tokens / "chat")}
    return {
        "flags": {**flags, "environment": "development"},
        "flags-sandbox": {**flags, "environment": "sandbox", "sandbox": True},
        "tickets": {**tickets, "webhook": True, "audience": "client portal"},
        "tickets-sandbox": {**tickets, "webhook": False, "audience": "nobody", "sandbox": True},
        "chat": chat,
        "chat-sandbox": {**chat, "sandbox": True},
        "northpay": _partner(world_url, tokens),
        **{name: _shelf(world_url, tokens, name) for name in ("shelf", "shelf-plain", "shelf-blind")},
    }


def _partner(world_url: str, tokens: Path) -> Options:
    return {
        "system": "partner",
        "base_url": f"{world_url}/partner",
        "token_file": str(tokens / "partner"),
        "path": "/v2/notices",
        "lookup": "/v2/notices/by-key/{key}",
        "correction_path": "/v2/notices/{id}/corrections",
        "audience": "NorthPay",
    }


def _shelf(world_url: str, tokens: Path, name: str) -> Options:
    return {"system": "shelf", "base_url": f"{world_url}/{name}", "token_file": str(tokens / "shelf")}
