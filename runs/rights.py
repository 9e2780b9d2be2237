"""What one person may do to one run, read once for a page. The services check again, by name, in their transaction."""

from __future__ import annotations

import dataclasses

from runs.models import Run
from runs.paging import on_call
from sagaboard.accounts import rights
from sagaboard.accounts.models import User


@dataclasses.dataclass(frozen=True)
class Rights:
    """`on_call` names those who may undo this run; only filled for somebody who may not."""

    take: bool
    compensate: bool
    override: bool
    settle: bool
    on_call: list[str]


def of(user: User, run: Run) -> Rights:
    has = rights.held(user, run.team)
    compensate = "runs.compensate_run" in has
    names = [] if compensate else [str(person) for person in on_call(run)]
    return Rights("runs.take_run" in has, compensate, "runs.override_pivot" in has, "runs.settle_step" in has, names)


def who_may_override(run: Run) -> list[str]:
    """Those who may undo past a call that went out."""
    return [str(person) for person in rights.holders("runs.override_pivot", run.team)]
