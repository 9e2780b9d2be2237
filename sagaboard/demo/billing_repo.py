"""The demo's repository `acme/billing`: a small program with tests, as commits that come out the same every time."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


@dataclasses.dataclass(frozen=True)
class Commit:
    """One commit onto the tip of `branch`, which begins at main where it does not exist yet."""

    branch: str
    author: str
    subject: str
    files: dict[str, str]


README = "# billing\n\nWhat customers owe. `python -m unittest` runs the tests.\n"
INVOICE = '''"""Invoices: lines with a net amount, and what they come to."""

from decimal import ROUND_HALF_UP, Decimal

from billing.rates import rate


def gross(net: Decimal, country: str) -> Decimal:
    return (net * (1 + rate(country))).quantize(Decimal("0.01"), ROUND_HALF_UP)


def total(lines: list[Decimal], country: str) -> Decimal:
    """The sum of the lines, each rounded by itself, as it stands on the paper."""
    return sum((gross(net, country) for net in lines), Decimal(0))
'''
RATES = '''"""VAT by country: built in, or from the JSON file that BILLING_RATES names."""

import json
import os
from decimal import Decimal

BUILT_IN = {"DE": "0.19", "FR": "0.20", "CH": "0.081"}


def rate(country: str) -> Decimal:
    path = os.environ.get("BILLING_RATES")
    table = json.load(open(path)) if path else BUILT_IN
    return Decimal(table[country])
'''
TEST_INVOICE = """import unittest
from decimal import Decimal

from billing.invoice import total


class Totals(unittest.TestCase):
    def test_each_line_is_rounded_by_itself(self):
        self.assertEqual(total([Decimal("0.05")] * 3, "DE"), Decimal("0.18"))

    def test_no_lines_come_to_nothing(self):
        self.assertEqual(total([], "FR"), 0)
"""
TEST_RATES = """import unittest
from decimal import Decimal

from billing.rates import rate


class Rates(unittest.TestCase):
    def test_germany_has_nineteen_percent(self):
        self.assertEqual(rate("DE"), Decimal("0.19"))

    def test_an_unknown_country_is_an_error(self):
        self.assertRaises(KeyError, rate, "XX")
"""
HISTORY = [
    Commit("main", "Priya Raman", "Say what this is", {"README.md": README}),
    Commit("main", "Priya Raman", "Look VAT up by country", {"billing/__init__.py": "", "billing/rates.py": RATES}),
    Commit("main", "Jonas Weber", "Round totals by line", {"billing/invoice.py": INVOICE}),
    Commit(
        "main", "Jonas Weber", "Test totals and rates",
        {"tests/__init__.py": "", "tests/test_invoice.py": TEST_INVOICE, "tests/test_rates.py": TEST_RATES},
    ),
    Commit("release/0141", "Priya Raman", "Name the release", {"VERSION": "0141\n"}),
    Commit("docs/rounding", "Mei Tanaka", "Explain rounding", {"docs/rounding.md": "Half up, line by line.\n"}),
]  # fmt: skip


def make(repository: Path) -> None:
    """The bare repository, new, with the whole history."""
    shutil.rmtree(repository, ignore_errors=True)
    repository.parent.mkdir(parents=True, exist_ok=True)
    git(None, "init", "--quiet", "--bare", "--initial-branch=main", str(repository))
    # Agents and their tools fetch single commits without files.
    git(repository, "config", "uploadpack.allowFilter", "true")
    for number, commit in enumerate(HISTORY):
        add(repository, commit, at=1_795_000_000 + 3600 * number)


def add(repository: Path, commit: Commit, *, at: int = 1_796_000_000) -> str:
    """The hash of `commit`, made at `at` (Unix time) and put onto its branch, as a push would."""
    branch = f"refs/heads/{commit.branch}"
    mail = commit.author.lower().replace(" ", ".") + "@acme.example"
    lines = [f"commit {branch}", f"committer {commit.author} <{mail}> {at} +0000", _data(commit.subject)]
    parent = refs(repository).get(commit.branch) or refs(repository).get("main")
    lines += [f"from {parent}"] if parent else []
    for path, text in commit.files.items():
        lines += [f"M 100644 inline {path}", _data(text)]
    git(repository, "fast-import", "--quiet", text="\n".join([*lines, ""]))
    return refs(repository)[commit.branch]


def refs(repository: Path) -> dict[str, str]:
    """Every ref and where it stands: branches by their short names, others by their full ones."""
    out = git(repository, "for-each-ref", "--format=%(objectname) %(refname)")
    pairs = (line.split(" ", 1) for line in out.splitlines())
    return {name.removeprefix("refs/heads/"): sha for sha, name in pairs}


def git(repository: Path | None, *arguments: str, text: str | None = None) -> str:
    where = [f"--git-dir={repository}"] if repository else []
    done = subprocess.run(
        ["git", *where, *arguments], input=text, env=ENVIRONMENT, capture_output=True, text=True, encoding="utf-8", timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"
