"""The count beside “Corrections” in the navigation."""

from corrections.models import Correction
from sagaboard.accounts.models import User
from sagaboard.web import Count, counts


def drafts_of(user: User) -> Count:
    return Count(Correction.objects.visible_to(user).open().count(), "hot", "not told yet")


counts["corrections"] = drafts_of
