"""Whether a capability may be called at all: a person says so, with a reason, and who said what when stays readable."""

from __future__ import annotations

from django.db import transaction

from runs.clock import Clock
from runs.exceptions import Invalid, NotAllowed
from runs.models import CapabilityRecord
from sagaboard.accounts import changes
from sagaboard.accounts.models import User

GOVERN = "runs.change_capabilityrecord"


def check_govern_right(by: User) -> None:
    if not by.has_perm(GOVERN):
        raise NotAllowed("You may not do this: it wants the right “change capability”.")


def disable(record: CapabilityRecord, *, by: User, reason: str) -> None:
    """Calls of it are refused from now on, with the reason. What is in effect can still be undone."""
    check_govern_right(by)
    with transaction.atomic(durable=True):
        locked = CapabilityRecord.objects.select_for_update(no_key=True).get(pk=record.pk)
        if locked.disabled_at:
            raise Invalid(f"{locked.name} is disabled already, by {locked.disabled_by}: {locked.disabled_why}")
        locked.disabled_at, locked.disabled_by, locked.disabled_why = Clock(), str(by), reason
        _save(locked)
        changes.note(locked, f"disabled: {reason}", by=by)


def enable(record: CapabilityRecord, *, by: User, reason: str) -> None:
    """It can be called again."""
    check_govern_right(by)
    with transaction.atomic(durable=True):
        locked = CapabilityRecord.objects.select_for_update(no_key=True).get(pk=record.pk)
        if not locked.disabled_at:
            raise Invalid(f"{locked.name} is not disabled.")
        locked.disabled_at, locked.disabled_by, locked.disabled_why = None, "", ""
        _save(locked)
        changes.note(locked, f"enabled: {reason}", by=by)


def _save(record: CapabilityRecord) -> None:
    # Only these: a sync of the code may write the others meanwhile.
    record.save(update_fields=["disabled_at", "disabled_by", "disabled_why"])
