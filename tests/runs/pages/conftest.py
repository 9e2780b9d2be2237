"""Roles for people on the pages."""

import pytest

from sagaboard import roles


@pytest.fixture(autouse=True)
def _roles(db):
    roles.make_after_migrate()
