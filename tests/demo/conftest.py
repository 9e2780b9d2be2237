"""The demo world, as the connectors' tests have it."""

from tests.runs.connectors.conftest import running_world, world, world_state

__all__ = ["running_world", "world", "world_state"]
