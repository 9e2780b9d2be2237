"""The counts beside “Runs” and “Capabilities” in the navigation, and the lines about what holds for everything: frozen, delayed, alerts."""

from runs import lateness
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


def trouble() -> Loud | None:
    found = lateness.trouble()
    if found is None:
        return None
    at, alert = found
    if alert:
        return Loud(f"Alert of {short(at)}:", alert.rstrip("."), "An admin looks into it and deletes the alert.")
    after = "Nothing is lost; it goes on by itself."
    return Loud(f"Sending and undoing are delayed since {short(at)}:", "no worker takes what is due", after)


counts["runs"] = needing_someone
counts["capabilities"] = without_undo
louds["frozen"] = frozen
louds["trouble"] = trouble
