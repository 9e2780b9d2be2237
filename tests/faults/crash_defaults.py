"""How long recovery takes as sagaboard is delivered, for tests/crash_matrix.py; no part of the tests, for its length."""

from __future__ import annotations

import pytest

from tests import site as running
from tests.crash_matrix import KILL, Cell, Matrix, table

pytestmark = pytest.mark.django_db(transaction=True)
CELLS = [
    Cell("do", "put_item", "do.after", KILL),
    Cell("undo", "put_item", "undo.after", KILL),
    Cell("send", "send_keyed", "do.after", KILL),
]


@pytest.fixture(scope="module", autouse=True)
def as_delivered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "BOUNDS", {"WEB_CONCURRENCY": "2"})
        yield


def test_recovery_at_default_settings(as_delivered, site, agent_token):
    outcomes = Matrix(site, agent_token, within=300).play(CELLS)
    print("\nAt default settings:", *table(outcomes), sep="\n")
    assert all(one.right and one.recovery is not None and one.recovery < 60 for one in outcomes)
