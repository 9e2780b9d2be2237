"""What the run page, record, preview and report show from the apps above, which register themselves here in `ready()`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any

from runs.models import Run, Step


@dataclasses.dataclass(frozen=True)
class Told:
    """Who hears of an undo: `who`, about `what`, and `how` it reaches them; `url` to read and edit it, `state` where it stands."""

    who: str
    what: str
    how: str
    url: str = ""
    state: str = ""
    # Whether somebody owns the audience, and, where nobody does, its name and the page on which one is named.
    owned: bool = True
    # Whether it has anywhere to go: a note to an audience that nobody owns has not.
    reaches: bool = True
    audience: str = ""
    owner_page: str = ""
    # The numbers of the steps whose signals it is about.
    steps: frozenset[int] = frozenset()
    # From when it could be seen, when its readers were told, by whom and with which text; or why nobody had to be.
    since: dt.datetime | None = None
    told_at: dt.datetime | None = None
    by: str = ""
    text: str = ""
    why: str = ""
    # When they were told that it is back.
    back_at: dt.datetime | None = None

    @property
    def is_open(self) -> bool:
        """Somebody is still misled."""
        return self.state not in ("", "sent", "dismissed")

    @property
    def believed_for(self) -> dt.timedelta | None:
        """From the signal until its readers were told."""
        return self.told_at - self.since if self.told_at and self.since else None


@dataclasses.dataclass
class Sections:
    """The places that are filled from above; each is a function of a run or step."""

    # Names of audiences that somebody owns.
    owned_audiences: Callable[[], Iterable[str]] = lambda: ()
    # The page on which the owner of an audience is named.
    owner_page: Callable[[str], str] = lambda audience: ""
    # What a step's outbox item says: {"state", "label", "url", "said", "expires_at", "digest"}.
    item_of: Callable[[Step], dict[str, Any] | None] = lambda step: None
    # All items of a run at once, by step id.
    items_of: Callable[[Run], dict[int, dict[str, Any]]] = lambda run: {}
    # What an irreversible call of a capability to an audience waits for, in words; one look at the policies for all of them.
    goes_out: Callable[[], Callable[[str, str], str]] = lambda: lambda capability, audience: "after a yes"
    # How many calls of each run wait for a yes: run number -> count; runs without one are left out.
    awaiting: Callable[[], dict[int, int]] = dict
    # How many are still misled by each run: run number -> count; runs without one are left out.
    untold: Callable[[], dict[int, int]] = dict
    # Who was told, or would be.
    told: Callable[[Run], list[Told]] = lambda run: []
    would_tell: Callable[[Run, list[Step]], list[Told]] = lambda run, steps: []


sections = Sections()
