"""The demo's CI: `python -m sagaboard.demo.pipeline FOLDER` tests the branch `$CI_REF` of acme/billing, as it is there now.

Exit code 0 is green. A file `pipeline` in the folder (see Scene.pipeline) makes it go wrong in a way that is not the
branch's fault: `red` runs the same tests with an outdated table of VAT rates, `hang` never comes to an end, and `die`
kills the pipeline in the middle.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from sagaboard.demo.billing_repo import ENVIRONMENT

OUTDATED = {"DE": "0.16", "FR": "0.196", "CH": "0.077"}


def main() -> int:
    folder, ref = Path(sys.argv[1]), os.environ.get("CI_REF", "main")
    with tempfile.TemporaryDirectory(prefix="sagaboard-ci-") as checkout:
        if not check_out(folder / "git/acme/billing.git", ref, Path(checkout)):
            sys.exit(f"acme/billing has no {ref}")
        return test(Path(checkout), mood(folder))


def mood(folder: Path) -> str:
    try:
        return (folder / "pipeline").read_text().strip()
    except FileNotFoundError:
        return "green"


def check_out(repository: Path, ref: str, into: Path) -> bool:
    """Whether `ref` exists; its files lie in `into` then."""
    argv = ["git", f"--git-dir={repository}", "archive", "--format=tar", f"--prefix={into.name}/", "--end-of-options", ref]
    done = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, timeout=60)
    if done.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        if hasattr(tarfile, "data_filter"):
            files.extractall(into.parent, filter="data")
        else:  # Python before 3.11.4; the archive is git's own, of a repository that the demo made
            files.extractall(into.parent)  # noqa: S202
    return True


def test(checkout: Path, mood: str) -> int:
    """The exit code of the repository's own tests."""
    env = {**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}
    if mood == "hang":
        sys.stdout.write("waiting for a runner\n")
        sys.stdout.flush()
        time.sleep(24 * 3600)
    if mood == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if mood == "red":
        (checkout / "rates.json").write_text(json.dumps(OUTDATED))
        env["BILLING_RATES"] = str(checkout / "rates.json")
    return subprocess.run([sys.executable, "-m", "unittest"], cwd=checkout, env=env, timeout=120).returncode


if __name__ == "__main__":
    sys.exit(main())
