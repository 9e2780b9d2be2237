"""Policies to write; items, versions and decisions to look at. Every door to a decision is the service function, so none is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from outbox.models import Decision, Item, Policy, Version
from runs.models import CapabilityRecord
from sagaboard.accounts.admin import ModelAdmin, ReadOnly

if TYPE_CHECKING:
    PolicyModelForm = forms.ModelForm[Policy]
else:
    PolicyModelForm = forms.ModelForm


class PolicyForm(PolicyModelForm):
    """Who must approve what. The version is not typed: it rises with every change."""

    class Meta:
        model = Policy
        exclude = ("version",)

    def clean_capability(self) -> str:
        name: str = self.cleaned_data["capability"]
        if name and not CapabilityRecord.objects.filter(name=name).exists():
            raise forms.ValidationError("No capability is called that.")
        return name


@admin.register(Policy)
class PolicyAdmin(ModelAdmin):
    form = PolicyForm
    list_display = ("__str__", "needs_yes", "quorum", "four_eyes", "open_for", "bulk", "version")
    filter_horizontal = ("groups", "people")
    readonly_fields = ("version",)

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        """A changed policy is a new version: decisions name the one they were made under."""
        if change and form.changed_data:
            # The row is read again under a lock: two admins saving at once make two versions, not one twice.
            obj.version = Policy.objects.select_for_update().get(pk=obj.pk).version + 1
        super().save_model(request, obj, form, change)


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
