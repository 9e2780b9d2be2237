import shutil
import tempfile
from pathlib import Path

import pytest

from runs import registry
from tests.corrections.real import mails, told  # noqa: F401  (fixtures)
from tests.factories import make_team, make_token, make_user, prove
from tests.runs.connectors.conftest import running_world, world, world_state  # noqa: F401  (fixtures)
from tests.site import Site


def pytest_collection_modifyitems(items):
    """Tests with the running site come last: its workers would take the steps that others' tests do themselves."""
    items.sort(key=lambda item: "site" in getattr(item, "fixturenames", ()))


# Gone before the next module begins: its workers and its sweep would do what other tests do themselves.
@pytest.fixture(scope="module")
def site_of_module(django_db_setup, django_db_blocker):
    folder = Path(tempfile.mkdtemp(prefix="sagaboard-site-"))
    folder.chmod(0o711)
    site = Site(folder)
    try:
        yield site.start()
    finally:
        site.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def site(site_of_module, transactional_db, settings, monkeypatch):
    """The running product, with the world as at the beginning and nothing armed."""
    settings.SAGABOARD_TARGETS = site_of_module.targets
    settings.SAGABOARD_CAPABILITIES = [*settings.SAGABOARD_CAPABILITIES, "tests.shelf"]
    registry.forget()
    registry.sync()
    site_of_module.disarm()
    site_of_module.world.clear_faults()
    site_of_module.world.reset()
    prove("blind_item", "put_item", "show_item")
    yield site_of_module
    registry.forget()


@pytest.fixture
def agent_token(site):
    team = make_team("billing")
    person = make_user("holder", team=team)
    token = make_token(team=team, person=person, patience=60, calls_per_minute=100_000)
    token.checker = make_token(scope="checker", team=team)
    token.on_call = make_token(scope="on_call", team=team)
    token.people = {
        "reviewer": make_user("rita", roles=("reviewer",), team=team),
        "oncall": make_user("otto", roles=("on-call",), team=team),
    }
    return token
