"""Where an item stands, and what its people can do then."""

from django.db import models


class ItemState(models.TextChoices):
    HELD = "held", "Held"
    AWAITING = "awaiting", "Awaiting approval"
    APPROVED = "approved", "Approved"
    SENT = "sent", "Sent"
    EXPIRED = "expired", "Expired"
    REJECTED = "rejected", "Rejected"
    WITHDRAWN = "withdrawn", "Withdrawn"
    DROPPED = "dropped", "Dropped"


# Nothing of its run goes out before these are decided.
UNDECIDED = frozenset({ItemState.HELD, ItemState.AWAITING, ItemState.EXPIRED})


class Verdict(models.TextChoices):
    APPROVE = "approve", "approved"
    REJECT = "reject", "rejected"


class Fate(models.TextChoices):
    """What becomes of the run when its item is rejected."""

    DROP = "drop", "Drop only this item"
    COMPENSATE = "compensate", "Compensate the run"
    SEND_BACK = "send_back", "Send it back to the agent"


class NoticeKind(models.TextChoices):
    """What reviewers are told of a waiting item, and when: at once, at half its time, before its end."""

    WAITING = "waiting", "waits"
    REMINDER = "reminder", "still waits"
    ENDING = "ending", "expires soon"
