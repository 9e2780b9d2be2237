"""Where a correction stands."""

from django.db import models


class CorrectionState(models.TextChoices):
    DRAFT = "draft", "Draft"
    HELD_BACK = "held_back", "Held back"
    SENDING = "sending", "Sending"
    SENT = "sent", "Sent"
    NOT_DELIVERED = "not_delivered", "Not delivered"
    DISMISSED = "dismissed", "Dismissed"


class Kind(models.TextChoices):
    """What a message says: that a signal was premature, or that what it said holds now."""

    CORRECTION = "correction", "Correction"
    BACK = "back", "It is back"


C = CorrectionState
# Somebody is still misled.
OPEN = frozenset({C.DRAFT, C.HELD_BACK, C.SENDING, C.NOT_DELIVERED})
EDITABLE = frozenset({C.DRAFT, C.HELD_BACK, C.NOT_DELIVERED})
MOVES: dict[str, frozenset[str]] = {
    C.DRAFT: frozenset({C.HELD_BACK, C.SENDING, C.DISMISSED}),
    C.HELD_BACK: frozenset({C.DRAFT, C.SENDING, C.DISMISSED}),
    C.SENDING: frozenset({C.SENT, C.NOT_DELIVERED}),
    # Held back where a person chose another place for it.
    C.NOT_DELIVERED: frozenset({C.SENDING, C.DISMISSED, C.SENT, C.HELD_BACK}),
    C.SENT: frozenset(),
    C.DISMISSED: frozenset(),
}
