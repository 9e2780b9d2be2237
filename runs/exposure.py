"""How long people could see an effect: from when `do` is known to have worked until `verify_undone` said that it is gone."""

from __future__ import annotations

import dataclasses
import datetime as dt

from runs.models import Step
from runs.states import Audience, StepState

S = StepState
NEVER = frozenset({S.PLANNED, S.SKIPPED, S.REQUESTED, S.ON_HOLD, S.QUEUED, S.CLOSED, S.FAILED, S.NOTHING_TO_UNDO})


@dataclasses.dataclass(frozen=True)
class Exposure:
    """One step's: whom it reaches, from when to when. `at_most` where it is not known that anything happened."""

    reach: Audience
    started: dt.datetime | None = None
    ended: dt.datetime | None = None
    at_most: bool = False
    # It waits, or waited, and was not sent.
    waits: bool = False
    went_out: bool = False
    # It was closed unsent: nobody will ever see it.
    never: bool = False

    @property
    def is_machines(self) -> bool:
        return self.reach == Audience.MACHINES

    @property
    def is_visible(self) -> bool:
        """People can see it now."""
        return not self.is_machines and self.started is not None and self.ended is None

    @property
    def was_visible(self) -> bool:
        return not self.is_machines and self.started is not None and self.ended is not None

    @property
    def is_endless(self) -> bool:
        """A client has it: that can't be ended."""
        return self.is_visible and self.went_out and self.reach == Audience.CLIENTS

    @property
    def lasted(self) -> dt.timedelta | None:
        return self.ended - self.started if self.ended and self.started else None

    def seconds(self, now: dt.datetime) -> float:
        return ((self.ended or now) - self.started).total_seconds() if self.started else 0.0


def of(step: Step) -> Exposure:
    reach = Audience(step.audience) if step.leaves_effect else Audience.MACHINES
    if step.state in NEVER:
        return Exposure(reach, waits=step.is_irreversible, never=step.state == S.CLOSED)
    started = step.done_at or step.started_at
    return Exposure(reach, started, step.undone_at, at_most=step.done_at is None, went_out=step.is_irreversible)
