"""Builds the demo's scene before the workers start: `python -m sagaboard.demo.build STATE WORLD_URL`.

Writes the file that SAGABOARD_TARGETS names. It is a process of its own, since it needs the database server and no more.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sagaboard.demo import scene
from sagaboard.demo.targets import targets
from sagaboard.secrets_file import write_private


def targets_file(state: Path) -> Path:
    return state / "demo" / "targets.json"


def world_folder(state: Path) -> Path:
    return state / "demo" / "world"


def main() -> None:
    state, world_url = Path(sys.argv[1]), sys.argv[2]
    (state / "demo").mkdir(parents=True, exist_ok=True)
    built = scene.build(state, os.environ["DATABASE_URL"])
    write_private(targets_file(state), json.dumps({**built.targets(), **targets(world_url, world_folder(state) / "tokens")}))


if __name__ == "__main__":
    main()
