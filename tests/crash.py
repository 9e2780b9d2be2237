"""`make crash`, or `python -m tests.crash [--cell TEXT] [--spread]`: plays the crash matrix of tests/crash_matrix.py.

Without a choice also how long recovery takes at default settings. Exit code 1 if a cell did not end as it must.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "faults"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--cell", default="", help="only cells whose name, part/capability/point/blow, contains this")
    chosen.add_argument("--spread", action="store_true", help="only those that the tests play too")
    asked = parser.parse_args()
    whole = ["crash_whole.py"] if asked.cell else ["crash_whole.py", "crash_defaults.py"]
    files = ["test_crash.py"] if asked.spread else whole
    return max([_session(HERE / file, asked.cell) for file in files])


def _session(file: Path, cell: str) -> int:
    """In a process of its own: a session of tests has its database and its servers for itself."""
    env = {**os.environ, "SAGABOARD_CRASH_CELLS": cell}
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-s", file], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
