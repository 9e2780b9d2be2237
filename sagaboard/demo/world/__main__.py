"""`python -m sagaboard.demo.world --state DIR --port P`: the world on 127.0.0.1; its first line of output is its address.

Tokens are made at the first start, in `DIR/tokens/`, a file a system. The ledger and all else are `DIR/world.sqlite3`.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import threading
from pathlib import Path

from sagaboard.demo.world.scene import open_scene
from sagaboard.demo.world.server import World
from sagaboard.demo.world.store import Store

SYSTEMS = ("flags", "tickets", "chat", "partner", "shelf", "shelf-plain", "shelf-blind")


def main() -> None:
    options = _options()
    options.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store(options.state / "world.sqlite3")
    if not store.all("flag"):
        with store.changing():
            open_scene(store)
    try:
        world = World(options.port, store, {system: token(options.state, system) for system in SYSTEMS})
    except OSError as exc:
        sys.exit(f"The demo world can't have port {options.port}: {exc.strerror}. Stop what is there, or choose another --port.")
    if options.until_stdin_closes:
        threading.Thread(target=_end_with_starter, daemon=True).start()
    sys.stdout.write(f"{world.url}\n")
    sys.stdout.flush()
    world.serve_forever()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sagaboard.demo.world", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder for what the world remembers")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with whoever holds the other end of standard input")
    return parser.parse_args()


def token(state: Path, system: str) -> str:
    """The token that `system` wants, made when it is first asked for."""
    path = state / "tokens" / system
    path.parent.mkdir(exist_ok=True, mode=0o700)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text()


def _end_with_starter() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
