"""The secrets of targets: where they come from, what they are called on a page, and how they stay out of every text."""

from __future__ import annotations

import os
from pathlib import Path

from runs.connectors.targets import Target
from runs.exceptions import NoEffect

MAX_TEXT = 300
HIDDEN = "•••"


def credential(target: Target) -> str:
    """The token of `target`, from its option `token_file`, `token_env` or `token`; `NoEffect` saying which to set, if there is none."""
    if path := target.get("token_file"):
        return _from_file(target, Path(path))
    if name := target.get("token_env"):
        if token := os.environ.get(name, "").strip():
            return token
        raise NoEffect(f"The environment has no {name}, which holds the credential of “{target.name}”. Nothing was sent.")
    return str(target["token"])


def _from_file(target: Target, path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as exc:
        raise NoEffect(f"The credential of “{target.name}” can't be read from {path}: {exc.strerror}. Nothing was sent.") from None


def credential_name(target: Target) -> str:
    """What a person may know of the credential: what it is called, never its text, nor where this machine keeps it."""
    if path := target.get("token_file"):
        return f"file “{Path(path).name}”"
    return f"variable {name}" if (name := target.get("token_env")) else f"token of {target.name}"


def scrub(text: str, *secrets: str) -> str:
    """`text` without `secrets`: targets like to quote what they refuse."""
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    return text


def short(text: str, limit: int = MAX_TEXT) -> str:
    """`text` on one line, cut to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
