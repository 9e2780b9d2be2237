"""Pages look things up, also where a test hands them their facts."""

import pytest


@pytest.fixture(autouse=True)
def _may_read(db):
    yield
