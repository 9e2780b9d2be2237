"""A spread of the crash matrix; `make crash` plays all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.crash_matrix import KILL, SORTS, WORKER, Cell, Matrix, cells, spread, table

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_matrix_has_every_sort_and_enough_points():
    every = cells()
    assert {cell.sort for cell in every} == set(SORTS)
    assert len({cell.point for cell in every}) >= 20
    assert len(spread()) >= 20
    assert {cell.sort for cell in spread()} == set(SORTS)
    assert len({cell.blow for cell in spread()}) == 5


def test_unknown_is_right_only_where_nobody_can_know():
    assert Cell("do", "blind_item", "do.after", KILL).expected == "unknown"
    assert Cell("do", "put_item", "do.after", KILL).expected == "done"
    assert Cell("do", "blind_item", "done.committed", WORKER).expected == "done"
    assert Cell("undo", "blind_item", "undo.after", KILL).expected == "undone"
    assert Cell("send", "send_keyed", "do.after", KILL).expected == "sent"


def test_whatever_dies_where_nothing_is_doubled_lost_or_left_to_nobody(site, agent_token):
    outcomes = Matrix(site, agent_token).play(spread())
    print("\n", *table(outcomes), sep="\n")
    assert [str(one.cell) for one in outcomes if not one.right] == [], "\n".join(table(outcomes))


def test_the_command_knows_its_words():
    asked = subprocess.run([sys.executable, "-m", "tests.crash", "--help"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "--spread" in asked.stdout
