"""Whether a process still runs, and patience."""

import time
from pathlib import Path


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=10.0):
    """What `condition` gives, as soon as that is true."""
    ends = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
    return found
