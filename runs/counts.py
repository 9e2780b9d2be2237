"""The counts beside “Runs” and “Capabilities” in the navigation."""

from runs.models import CapabilityRecord, Run
from sagaboard.accounts.models import User
from sagaboard.web import Count, counts


def needing_someone(user: User) -> Count:
    return Count(Run.objects.visible_to(user).needing_someone().count(), "red", "need someone")


def without_undo(user: User) -> Count:
    return Count(CapabilityRecord.objects.without_undo().count(), "red", "without undo")


counts["runs"] = needing_someone
counts["capabilities"] = without_undo
