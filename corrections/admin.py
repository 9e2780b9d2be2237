"""Who owns which audience; corrections to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin

from corrections.models import Audience, Correction
from sagaboard.accounts.admin import ModelAdmin, ReadOnly

if TYPE_CHECKING:
    AudienceModelForm = forms.ModelForm[Audience]
else:
    AudienceModelForm = forms.ModelForm


class AudienceForm(AudienceModelForm):
    """A cohort, channel or client, whose it is, and where a note reaches that person."""

    class Meta:
        model = Audience
        fields = ("name", "owner", "address")
        help_texts = {"address": 'Where a note goes, as JSON: {"target": "chat", "user": "U012AB3CD"}.'}

    def clean_address(self) -> dict[str, Any]:
        address = self.cleaned_data["address"] or {}
        if not isinstance(address, dict):
            raise forms.ValidationError('An object is wanted: {"target": …, "user": …}.')
        return address


@admin.register(Audience)
class AudienceAdmin(ModelAdmin):
    form = AudienceForm
    list_display = ("name", "owner", "address")
    list_select_related = ("owner",)
    search_fields = ("name",)


@admin.register(Correction)
class CorrectionAdmin(ReadOnly):
    list_display = ("id", "run_id", "state", "place_label", "recipient", "seen", "drafted_at", "sent_at")
    list_filter = ("state",)
    show_full_result_count = False
