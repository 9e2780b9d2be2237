"""Signing in: Django's own way, except that a person and all their rights are read by one query."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.fields import ArrayField
from django.db.models import TextField
from django.db.models.expressions import RawSQL

from sagaboard.accounts.models import User

HELD = """
ARRAY(
  SELECT kind.app_label || '.' || permission.codename
  FROM auth_permission permission JOIN django_content_type kind ON kind.id = permission.content_type_id
  WHERE permission.id IN (
    SELECT own.permission_id FROM accounts_user_user_permissions own WHERE own.user_id = accounts_user.id
    UNION ALL
    SELECT theirs.permission_id FROM auth_group_permissions theirs JOIN accounts_user_groups member ON member.group_id = theirs.group_id
    WHERE member.user_id = accounts_user.id
  )
)"""


class WithRights(ModelBackend):
    """Every page asks what its reader may do: that comes with the row of the person."""

    def get_user(self, user_id: Any) -> User | None:
        held = RawSQL(HELD, [], output_field=ArrayField(TextField()))  # noqa: S611  (no part of it is given)
        found = User.objects.annotate(held=held).filter(pk=user_id).first()
        return found if found is not None and self.user_can_authenticate(found) else None

    def get_all_permissions(self, user_obj: User | AnonymousUser, obj: Any = None) -> set[str]:
        held = getattr(user_obj, "held", None)
        if held is None or user_obj.is_superuser or not user_obj.is_active or obj is not None:
            return super().get_all_permissions(user_obj, obj)
        # Where Django's own backend, which is asked next, looks first.
        user_obj.__dict__["_perm_cache"] = set(held)
        return set(held)
