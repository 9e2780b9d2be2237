"""Refusals and outcomes, each named after the fact, each carrying what the page or the agent needs."""

from __future__ import annotations

from typing import Any


class NoEffect(Exception):
    """Raised by a capability: the call did nothing, certainly. `reason` is a sentence a person can act on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TryLater(NoEffect):
    """The target refused for now (429, maintenance): nothing happened, and `after` seconds must pass before another call."""

    def __init__(self, reason: str, after: float) -> None:
        super().__init__(reason)
        self.after = after


class Unreadable(Exception):
    """Raised by a look (`probe`, `verify_…`) that got no definite answer: a dead host, a refused credential, a 5xx."""


class Refused(Exception):
    """The request was understood and can't be done; `type` is stable, `detail` says what to do next."""

    type = "refused"
    status = 409

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class Invalid(Refused):
    type = "invalid"
    status = 422


class NotOpen(Refused):
    type = "run-not-open"


class KeyReused(Refused):
    """The same Idempotency-Key with other content."""

    type = "key-reused"
    status = 422


class Improvised(Refused):
    """A variation on a call that already ran: here is the step that exists."""

    type = "improvised-retry"


class OffPlanCall(Refused):
    type = "off-plan"


class Overlaps(Refused):
    type = "overlap"


class StaleSession(Refused):
    type = "stale-session"


class Unfinished(Refused):
    type = "unfinished-steps"


class NotCompensatable(Refused):
    type = "not-compensatable"


class StalePreview(Refused):
    type = "stale-preview"


class NotSettleable(Refused):
    type = "not-settleable"


class NotAllowed(Refused):
    type = "not-allowed"
    status = 403


class TooLarge(Refused):
    type = "too-large"
    status = 413


class TooMany(Refused):
    type = "too-many"
    status = 429


class OverBudget(TooMany):
    """More steps than this run may ever have: it is over."""

    type = "over-budget"


class NotReleasable(Exception):
    """A queued call may not go out now; raised by the outbox inside the claim."""
