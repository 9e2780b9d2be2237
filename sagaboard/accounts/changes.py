"""Who changed what about a row of the registry or a person: kept where the admin site keeps what is changed there."""

from __future__ import annotations

from django.contrib.admin.models import CHANGE
from django.contrib.admin.models import LogEntry as AdminEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import F, Model, QuerySet, Value
from django.db.models.functions import Concat
from django.forms import BaseForm

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


def named(form: BaseForm) -> str:
    """The fields that this form changes, in words."""
    return ", ".join(name.replace("_", " ") for name in form.changed_data) or "nothing"


def found(*, who: str = "", on: str = "") -> QuerySet[AdminEntry]:
    """All changes, by people whose name holds `who`, of what has the name `on`."""
    changes = AdminEntry.objects.select_related("user", "content_type").order_by("-action_time", "-pk")
    if who:
        name = Concat(F("user__first_name"), Value(" "), F("user__last_name"), Value(" "), F("user__username"))
        changes = changes.alias(name=name).filter(name__icontains=who)
    return changes.filter(object_repr=on) if on else changes


def history(row: Model) -> QuerySet[AdminEntry]:
    """What people changed about it, newest first."""
    kind = ContentType.objects.get_for_model(row)
    return AdminEntry.objects.filter(content_type=kind, object_id=str(row.pk)).select_related("user").order_by("-action_time")
