"""People, teams and tokens in the admin site, and what the other apps' pages there share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from guardian.admin import GuardedModelAdmin

from sagaboard.accounts.models import Team, Token, User

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    PeopleAdmin = UserAdmin[User]
else:
    # Django's classes take their type argument only from the stubs.
    ModelAdmin = admin.ModelAdmin
    PeopleAdmin = UserAdmin


class ReadOnly(ModelAdmin):
    """To look at. What is shown here is changed by agents, workers, or people through the pages, never from here."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(PeopleAdmin):
    """An account is disabled, never deleted: its name stands in logs and decisions."""

    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_staff")
    fieldsets = (*(UserAdmin.fieldsets or ()), ("Pages", {"fields": ("time_zone", "theme", "shortcuts")}))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Team)
class TeamAdmin(GuardedModelAdmin):
    """Which groups and people have a right over the team without belonging to it is under "Object permissions"."""

    filter_horizontal = ("members",)
    search_fields = ("name",)


@admin.register(Token)
class TokenAdmin(ModelAdmin):
    """Tokens are made by `manage.py token`, which shows the text once. Here they are looked at and revoked."""

    fields = readonly_fields = (
        "name",
        "scope",
        "team",
        "person",
        "checks",
        "run_number",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    )
    list_display = ("name", "scope", "team", "person", "expires_at", "revoked_at", "last_used_at")
    list_filter = ("scope", "team")
    search_fields = ("name",)
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.action(description="Revoke the selected tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        tokens = list(queryset.filter(revoked_at=None))
        queryset.filter(pk__in=[token.pk for token in tokens]).update(revoked_at=timezone.now())
        for token in tokens:
            self.log_change(request, token, "Revoked.")
        self.message_user(request, f"{len(tokens)} revoked. Calls with them are refused from now.", messages.SUCCESS)
