"""Files that only their owner reads: passwords, addresses with passwords in them, Django's secret key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sagaboard import state as state_folder
from sagaboard.processes import Account


def write_private(path: Path, text: str, *, owner: Account | None = None) -> None:
    """The file holds `text`, whole or not at all, and only `owner` (else we) can read it."""
    with _beside(path, text, owner) as draft:
        draft.replace(path)


def secret_key(state: Path) -> str:
    """Django's SECRET_KEY, made at first use; of several processes that make it at once all get the same."""
    path = state / "secret_key"
    try:
        if not path.exists():
            state_folder.make(state)
            with _beside(path, secrets.token_urlsafe(64), None) as draft, suppress(FileExistsError):
                os.link(draft, path)
        return path.read_text().strip()
    except PermissionError:
        raise state_folder.belongs_to_another(state) from None


@contextmanager
def _beside(path: Path, text: str, owner: Account | None) -> Iterator[Path]:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            if owner:
                os.fchown(file.fileno(), owner.uid, owner.gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
