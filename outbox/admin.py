"""Policies to write; items, versions and decisions to look at. Every door to a decision is the service function, so none is here."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.http import HttpRequest

from outbox import governing
from outbox.forms import PolicyForm
from outbox.models import Decision, Item, Policy, Version
from sagaboard.accounts.admin import ModelAdmin, ReadOnly
from sagaboard.accounts.models import User


@admin.register(Policy)
class PolicyAdmin(ModelAdmin):
    form = PolicyForm
    list_display = ("__str__", "needs_yes", "quorum", "four_eyes", "open_for", "bulk", "version")
    filter_horizontal = ("groups", "people")
    readonly_fields = ("version",)

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        """A changed policy is a new version: decisions name the one they were made under."""
        if form.changed_data:
            governing.next_version(obj)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if form.changed_data:
            governing.keep(form.instance, by=cast(User, request.user))


@admin.register(Item)
class ItemAdmin(ReadOnly):
    list_display = ("id", "step", "state", "is_gate", "queued_at", "expires_at", "closed_at")
    list_filter = ("state",)
    list_select_related = ("step",)
    show_full_result_count = False


@admin.register(Version)
class VersionAdmin(ReadOnly):
    # The body is bytes; the item's own page makes every character of it visible.
    exclude = ("body", "as_read")
    list_display = ("item_id", "number", "title", "digest", "made_by", "made_at")


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    list_display = ("item_id", "by_name", "verdict", "digest", "policy_version", "at", "voided_at")
    list_filter = ("verdict",)
    show_full_result_count = False
