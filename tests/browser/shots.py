"""Pictures for people to look at, where SAGABOARD_SCREENSHOTS names a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def shoot(page: Any, name: str, *, full: bool = True) -> None:
    folder = os.environ.get("SAGABOARD_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=full)
