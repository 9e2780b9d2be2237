"""The counts beside “Runs” and “Capabilities” in the navigation, and the line that says that everything is frozen."""

from runs.models import CapabilityRecord, Run, System
from sagaboard.accounts.models import User
from sagaboard.templatetags.words import name_of, short
from sagaboard.web import Count, Loud, counts, louds


def needing_someone(user: User) -> Count:
    return Count(Run.objects.visible_to(user).needing_someone().count(), "red", "need someone")


def without_undo(user: User) -> Count:
    return Count(CapabilityRecord.objects.without_undo().count(), "red", "without undo")


def frozen() -> Loud | None:
    found = System.objects.exclude(frozen_at=None).first()
    if found is None or found.frozen_at is None:
        return None
    after = "Nothing is called, sent or undone until it is lifted."
    return Loud(f"Frozen since {short(found.frozen_at)} by {name_of(found.frozen_by)}:", found.frozen_why.rstrip("."), after)


counts["runs"] = needing_someone
counts["capabilities"] = without_undo
louds["frozen"] = frozen
