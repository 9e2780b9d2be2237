"""Where connectors talk to: named targets from the settings. Arguments name a target, never a host."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.conf import settings

from runs.exceptions import NoEffect


@dataclasses.dataclass(frozen=True)
class Target:
    """One configured system: its options as in the setting `SAGABOARD_TARGETS`, under the name arguments use."""

    name: str
    system: str
    # Not shown: it may hold a token.
    options: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def sandbox(self) -> bool:
        return bool(self.options.get("sandbox"))

    def __getitem__(self, option: str) -> Any:
        try:
            return self.options[option]
        except KeyError:
            raise NoEffect(f"The target “{self.name}” has no “{option}”: add it to SAGABOARD_TARGETS.") from None

    def get(self, option: str, default: Any = None) -> Any:
        return self.options.get(option, default)


def target(name: str, system: str) -> Target:
    """The target called `name`; `NoEffect`, naming the ones there are, if none of this system is called so."""
    options = settings.SAGABOARD_TARGETS.get(name)
    if options is None or options.get("system") != system:
        known = sorted(n for n, o in settings.SAGABOARD_TARGETS.items() if o.get("system") == system)
        raise NoEffect(f"No {system} target is called “{name}”. There are: {', '.join(known) or 'none; set SAGABOARD_TARGETS'}.")
    return Target(name, system, options)
