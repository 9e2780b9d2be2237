"""A real demo world, one process for the session, at its opening scene in every test."""

from pathlib import Path

import pytest

from sagaboard.demo.client import World, start_world
from sagaboard.demo.targets import targets


@pytest.fixture(scope="session")
def world_state(tmp_path_factory):
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="session")
def running_world(world_state):
    process, url = start_world(world_state)
    yield World(url)
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.fixture
def world(running_world, world_state, settings):
    """The world, with the settings pointing at it."""
    running_world.reset()
    settings.SAGABOARD_TARGETS = targets(running_world.url, Path(world_state) / "tokens")
    return running_world
