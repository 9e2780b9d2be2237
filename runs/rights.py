"""What one person may do to one run, read once for a page. The services check again, by name, in their transaction."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from runs.models import Run
from runs.paging import on_call
from sagaboard.accounts import rights
from sagaboard.accounts.models import User


@dataclasses.dataclass(frozen=True)
class Rights:
    run: Run
    take: bool
    compensate: bool
    override: bool
    settle: bool

    @cached_property
    def on_call(self) -> list[str]:
        """Who to turn to, by name; asked only where the page says so."""
        return [str(person) for person in on_call(self.run)]


def of(user: User, run: Run) -> Rights:
    has = rights.held(user, run.team)
    return Rights(run, "runs.take_run" in has, "runs.compensate_run" in has, "runs.override_pivot" in has, "runs.settle_step" in has)


def who_may_override(run: Run) -> list[str]:
    """Those who may undo past a call that went out."""
    return [str(person) for person in rights.holders("runs.override_pivot", run.team)]
