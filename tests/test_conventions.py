"""Habits of this code that a reviewer would otherwise have to watch."""

import re
import subprocess
from pathlib import Path

import pytest

from runs.failpoints import POINTS
from runs.models.log import EVENTS
from tests.guarded import GUARDS

ROOT = Path(__file__).parents[1]
CODE = [path for app in ("sagaboard", "runs", "outbox", "corrections") for path in sorted((ROOT / app).rglob("*.py"))]
PRODUCT = [path for path in CODE if "migrations" not in path.parts]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
_HTMX = """
get post trigger target swap swap-oob select select-oob vals headers include indicator sync disabled-elt preserve push-url
replace-url boost ext confirm params encoding history history-elt request validate disinherit inherit
"""
HTMX = set(_HTMX.split())


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_every_file_opens_with_what_it_holds():
    named = [path for path in PRODUCT if path.read_text().strip() and path.name not in ("apps.py", "__init__.py")]
    silent = [path for path in named if not re.match(r'(#!.*\n)?r?"""', path.read_text())]
    assert silent == []


def test_no_file_holds_two_subjects():
    assert {path.name: count for path in PRODUCT if (count := path.read_text().count("\n")) > 400} == {}


def test_nothing_marks_data_as_safe():
    marked = [path for path in PRODUCT if "mark_safe" in path.read_text() or "SafeString(" in path.read_text()]
    marked += [path for path in TEMPLATES if re.search(r"\|\s*safe\b|autoescape off", path.read_text())]
    assert marked == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_keeps_to_the_content_security_policy(path):
    text = path.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|hx-on|javascript:|hx-vals=.js:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r'hx-trigger="[^"]*\[', text)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_htmx_attributes_are_spelled_right_and_forms_carry_the_token(path):
    text = path.read_text()
    assert set(re.findall(r"\shx-([a-z-]+)", text)) <= HTMX
    for form in re.findall(r"<form\b.*?</form>", text, re.S):
        if 'method="post"' in form:
            assert "csrf_token" in form, form[:200]


def test_failpoints_are_the_ones_that_are_reached():
    reached = {name for path in PRODUCT for name in re.findall(r'reach\("([a-z.]+)"', path.read_text())}
    assert reached == set(POINTS)


def test_every_event_that_is_written_is_in_the_closed_list():
    written = {name for path in PRODUCT for name in re.findall(r'\.append\(\s*"([a-z_]+\.[a-z_]+)"', path.read_text())}
    assert written
    assert written <= set(EVENTS)


def test_no_file_names_a_package_registry_or_a_path_of_one_machine():
    hosts = re.compile("py" + r"pi\.org|registry\.npm|files\.python" + r"hosted")
    assert [path for path in tracked() if path.suffix not in (".png", ".ico") and hosts.search(path.read_text(errors="replace"))] == []


def test_only_runs_append_and_nobody_writes_log_rows():
    writers = [
        path for path in PRODUCT if re.search(r"\bLogEntry\.objects\.(create|bulk_create)|(?<!class )\bLogEntry\(", path.read_text())
    ]
    assert writers == []


def test_the_run_is_locked_in_one_place():
    lockers = [path.name for path in PRODUCT if re.search(r"Run\.objects\.select_for_update", path.read_text())]
    assert lockers == ["locking.py"]


def test_the_pictures_of_the_readme_are_kept_and_small():
    shown = re.findall(r"!\[[^]]+\]\(([^)]+\.png)\)|<img src=\"([^\"]+\.png)\"", (ROOT / "README.md").read_text())
    pictures = [ROOT / (one or other) for one, other in shown]
    assert len(pictures) == 3
    assert {path.name: path.stat().st_size for path in pictures if path.stat().st_size > 150_000} == {}


def test_every_guard_stands_where_it_would_be_taken_out():
    stale = [(guard.fault, guard.file) for guard in GUARDS if (ROOT / guard.file).read_text().count(guard.old) != 1]
    assert stale == []
