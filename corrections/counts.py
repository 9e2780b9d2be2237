"""The count beside “Corrections” in the navigation."""

from corrections.models import Correction
from sagaboard.accounts.models import User
from sagaboard.web import Count, counts


def drafts_of(user: User) -> Count:
    return Count(Correction.objects.sendable_by(user).editable().count(), "hot", "for you to send")


counts["corrections"] = drafts_of
