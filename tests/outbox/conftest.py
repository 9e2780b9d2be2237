"""The policies an installation begins with."""

import pytest

from outbox.models import Policy


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    # Policies are kept over tests, since a migration makes the first ones.
    Policy.objects.exclude(capability="").delete()
