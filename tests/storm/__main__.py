"""`python -m tests.storm`: what the suite has no time for, with servers and processes of its own."""

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(["-s", "-p", "no:cacheprovider", str(Path(__file__).with_name("whole.py"))]))
