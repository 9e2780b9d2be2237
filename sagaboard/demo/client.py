"""What tests and the demo use to start the world, look at it, and make it go wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

JSON = dict[str, Any]
STARTS_WITHIN = 15.0
ROOT = Path(__file__).resolve().parents[2]


class World:
    """A running world, at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def ledger(self, system: str | None = None, since: int = 0) -> list[JSON]:
        """The calls that reached it, oldest first."""
        entries: list[JSON] = self._call("GET", f"/_world/ledger?system={system or ''}&since={since}")["ledger"]
        return entries

    def effects(self, system: str | None = None) -> list[JSON]:
        """Those of the calls that changed something."""
        return [entry for entry in self.ledger(system) if entry["effect"] and entry["system"] != "somebody else"]

    def reset(self) -> None:
        self._call("POST", "/_world/reset", {})

    def fault(self, system: str = "", **fault: Any) -> None:
        """What happens to the next call that fits; see `sagaboard.demo.world.faults`."""
        self._call("POST", "/_world/faults", {"system": system, **fault})

    def clear_faults(self) -> None:
        self._call("DELETE", "/_world/faults", {})

    def change(self, system: str, **change: Any) -> Any:
        """Somebody else does something; see `sagaboard.demo.world.scene.change`."""
        return self._call("POST", "/_world/change", {"system": system, **change})["done"]

    def reading(self) -> JSON:
        return self._call("GET", "/_world/reading")

    def _call(self, method: str, path: str, body: JSON | None = None) -> JSON:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-World": "1"}
        answer = httpx.request(method, self.url + path, content=data, headers=headers, timeout=30, trust_env=False)
        answer.raise_for_status()
        found: JSON = answer.json()
        return found


def start_world(state: Path, port: int | None = None) -> tuple[subprocess.Popen[bytes], str]:
    """A world that answers, and its address; it ends with the returned process's `stdin`, so also with this process."""
    command = [sys.executable, "-m", "sagaboard.demo.world", "--state", str(state), "--port", str(port or 0), "--until-stdin-closes"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    if url:
        return process, url
    with process:
        raise RuntimeError(f"The demo world didn't start; it ended with {process.wait(STARTS_WITHIN)}.")
