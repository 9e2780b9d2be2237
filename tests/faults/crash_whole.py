"""The whole crash matrix, for tests/crash_matrix.py; no part of the tests, for its length."""

from __future__ import annotations

import os

import pytest

from tests.crash_matrix import Matrix, cells, table

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_whole_matrix(site, agent_token):
    asked = os.environ.get("SAGABOARD_CRASH_CELLS", "")
    outcomes = Matrix(site, agent_token).play(cell for cell in cells() if asked in str(cell))
    print("\n", *table(outcomes), sep="\n")
    assert [str(one.cell) for one in outcomes if not one.right] == []
