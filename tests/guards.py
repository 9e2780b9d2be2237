"""`python -m tests.guards [FAULT …]`: takes each guard out in a copy of the checkout and shows that its tests turn red.

A test that stays green without the guard it is named after proves nothing. The list of guards is in tests/guarded.py.
Each is taken out in a copy of its own, where only the tests of its fault run, on servers of their own; the checkout is
only read. Exit code 1 if a removal left its tests green, or could not be judged.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.guarded import GUARDS, Guard

ROOT = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=0", "--color=no")
# The test run in the copy starts its own servers and reads its own settings.
NOT_PASSED_ON = re.compile("DATABASE_URL|REDIS_URL|SAGABOARD_(?!CHROMIUM).*|DJANGO_.*|PYTEST_.*|PYTHONPATH")
AT_MOST = 300.0
ROW = "{0:<7} {1:<7} {2:>6}  {3:<88} {4}"


@dataclass(frozen=True)
class Ended:
    """How the tests of one guard ended: `red` without it, GREEN in spite of it, or why that can't be told."""

    word: str
    seconds: float
    why: str = ""
    failed: tuple[str, ...] = ()


def main() -> int:
    asked = _asked()
    known = sorted({guard.fault for guard in GUARDS})
    if strange := [name for name in asked.faults if not any(fault.startswith(name) for fault in known)]:
        print(f"No guard of {', '.join(strange)} is listed. There are: {', '.join(known)}.")
        return 1
    guards = [guard for guard in GUARDS if not asked.faults or guard.fault.startswith(tuple(asked.faults))]
    with checkout() as whole:
        if asked.sound and not sound(whole, guards):
            return 1
        print(ROW.format("fault", "tests", "s", "taken out", "tests run"))
        with ThreadPoolExecutor(asked.jobs) as pool:
            return report(guards, pool.map(partial(judge, whole), guards), why=asked.why)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("faults", nargs="*", type=str.upper, metavar="FAULT", help="ENG-11, or ENG for all of these; default all")
    parser.add_argument("--sound", action="store_true", help="first see that the same tests are green with all guards in place")
    parser.add_argument("--jobs", type=int, default=2, help="so many guards at a time (default 2)")
    parser.add_argument("--why", action="store_true", help="show what made the tests fail")
    return parser.parse_args()


def report(guards: Sequence[Guard], ends: Iterator[Ended], *, why: bool) -> int:
    """Prints a row for each guard as it is judged; 1 unless all turned red."""
    words = []
    for guard, ended in zip(guards, ends, strict=True):
        print(ROW.format(guard.fault, ended.word, f"{ended.seconds:.1f}", guard.taken_out, guard.names()), flush=True)
        if ended.why and (why or ended.word != "red"):
            print(f"{'':15} {ended.why}", flush=True)
        words.append(ended.word)
    print(f"{words.count('red')} of {len(words)} removals turned their tests red.")
    return int(set(words) != {"red"})


def sound(whole: Path, guards: Sequence[Guard]) -> bool:
    """Whether the tests are green with every guard in place, all in one go."""
    tests = list(dict.fromkeys(test for guard in guards for test in guard.tests))
    with copied(whole) as folder:
        ended = run(folder, tests, at_most=AT_MOST * 4)
    print(f"With all guards in place {len(tests)} tests are {ended.word}, in {ended.seconds:.0f} s.", *ended.failed, sep="\n", flush=True)
    return ended.word == "GREEN"


def judge(whole: Path, guard: Guard) -> Ended:
    with copied(whole) as folder:
        file = folder / guard.file
        text = file.read_text() if file.is_file() else ""
        if (times := text.count(guard.old)) != 1:
            return Ended("STALE", 0.0, f"{guard.file} holds what is to be taken out {times} times: bring tests/guarded.py up to date.")
        file.write_text(text.replace(guard.old, guard.new))
        return run(folder, ["-x", *guard.tests])


@contextmanager
def checkout() -> Iterator[Path]:
    """What git tracks or would add, as it is at this moment: all guards are judged in the same code."""
    with tempfile.TemporaryDirectory(prefix="sagaboard-guards-") as name:
        listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        for path in filter(None, listed.stdout.split("\0")):
            if (ROOT / path).is_file():
                (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, Path(name) / path)
        yield Path(name)


@contextmanager
def copied(whole: Path) -> Iterator[Path]:
    """A copy to change and to run in, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sagaboard-guard-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        # PostgreSQL may run as another account, in a folder below.
        folder.chmod(0o711)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


def run(folder: Path, arguments: Sequence[str], *, at_most: float = AT_MOST) -> Ended:
    """Runs pytest in the copy. All that it leaves behind is below it."""
    env = {name: value for name, value in os.environ.items() if not NOT_PASSED_ON.fullmatch(name)}
    env["TMPDIR"] = str(folder / "tmp")
    began = time.monotonic()
    try:
        done = subprocess.run([*PYTEST, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=at_most)
    except subprocess.TimeoutExpired:
        return Ended("LATE", time.monotonic() - began, f"They did not end within {at_most:g} s.")
    failed = tuple(re.findall(r"^(?:FAILED|ERROR) .+", done.stdout, re.M))
    return Ended(_word(done), time.monotonic() - began, _why(done), failed)


def _word(done: subprocess.CompletedProcess[str]) -> str:
    """A test has to fail: that nothing could be collected or set up shows nothing."""
    if done.returncode == 0 and re.search(r"^\d+ passed", done.stdout, re.M):
        return "GREEN"
    return "red" if done.returncode == 1 and re.search(r"^\d+ failed", done.stdout, re.M) else "BROKEN"


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """The first line that pytest marks as the error, or the last of all."""
    if done.returncode == 0:
        return ""
    marked = re.search(r"^E +(.+)", done.stdout, re.M)
    return marked[1][:200] if marked else "\n".join((done.stdout + done.stderr).splitlines()[-5:])


if __name__ == "__main__":
    sys.exit(main())
