"""Who changed what about a row of the registry or a person: kept where the admin site keeps what is changed there."""

from __future__ import annotations

from django.contrib.admin.models import CHANGE
from django.contrib.admin.models import LogEntry as AdminEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model, QuerySet

from sagaboard.accounts.models import User


def note(row: Model, says: str, *, by: User) -> None:
    """Adds a change, in the caller's transaction."""
    AdminEntry.objects.create(
        user=by,
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row),
        action_flag=CHANGE,
        change_message=says,
    )


def history(row: Model) -> QuerySet[AdminEntry]:
    """What people changed about it, newest first."""
    kind = ContentType.objects.get_for_model(row)
    return AdminEntry.objects.filter(content_type=kind, object_id=str(row.pk)).select_related("user").order_by("-action_time")
