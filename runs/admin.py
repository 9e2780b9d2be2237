"""Runs, steps and their log to look at; the registry and the rules to govern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from guardian.admin import GuardedModelAdmin

from runs.clock import Clock
from runs.models import Alert, CapabilityRecord, Check, LogEntry, OutsideTool, Page, Rules, Run, Step, TargetPause, TokenRules
from runs.states import KIND_ORDER, Kind
from sagaboard.accounts.admin import ModelAdmin, ReadOnly

if TYPE_CHECKING:
    RecordModelForm = forms.ModelForm[CapabilityRecord]
else:
    RecordModelForm = forms.ModelForm

# What people decide about a tool; everything else on its row comes from the code.
GOVERNED = ("owner", "stricter_kind", "disabled", "disabled_why")


class RecordForm(RecordModelForm):
    """Governance of one capability: who owns it, whether it is stricter than its code, whether it may be called."""

    disabled = forms.BooleanField(required=False, help_text="Calls of it are refused. Runs that need its undo still can.")

    class Meta:
        model = CapabilityRecord
        fields = ("owner", "stricter_kind", "disabled_why")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["disabled"].initial = self.instance.disabled_at is not None

    def clean_stricter_kind(self) -> str:
        chosen: str = self.cleaned_data["stricter_kind"]
        if chosen and KIND_ORDER.index(Kind(chosen)) <= KIND_ORDER.index(Kind(self.instance.kind)):
            raise forms.ValidationError(f"The code says {self.instance.kind}. A row may only be stricter.")
        return chosen

    def clean(self) -> dict[str, Any]:
        found = super().clean() or self.cleaned_data
        if found.get("disabled") and not found.get("disabled_why"):
            self.add_error("disabled_why", "Say why it is disabled: agents are told.")
        return found


@admin.register(CapabilityRecord)
class CapabilityAdmin(GuardedModelAdmin):
    """The registry as people govern it. Who may decide and drill a capability is under "Object permissions"."""

    form = RecordForm
    list_display = ("name", "kind", "stricter_kind", "audience", "owner", "has_undo", "is_proven", "disabled_at")
    list_filter = ("kind", "audience", "has_undo")
    search_fields = ("name", "description", "lives_in")
    readonly_fields = (
        "name",
        "description",
        "kind",
        "audience",
        "version",
        "lives_in",
        "read_by",
        "undo_cost",
        "undone_when",
        "has_undo",
        "leaves_effect",
        "missing_since",
        "disabled_at",
        "disabled_by",
        "proven_version",
        "proven_at",
        "proven_how",
    )
    fieldsets = (("From people", {"fields": GOVERNED}), ("From the code, drills and real undos", {"fields": readonly_fields}))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(boolean=True, description="proven")
    def is_proven(self, record: CapabilityRecord) -> bool:
        return record.is_proven

    def save_model(self, request: HttpRequest, obj: CapabilityRecord, form: Any, change: bool) -> None:
        disabled = form.cleaned_data["disabled"]
        if disabled and obj.disabled_at is None:
            obj.disabled_at, obj.disabled_by = Clock(), str(request.user)
        elif not disabled:
            obj.disabled_at, obj.disabled_by, obj.disabled_why = None, "", ""
        # Only these: a sync of the code may write the others meanwhile.
        obj.save(update_fields=["owner", "stricter_kind", "disabled_at", "disabled_by", "disabled_why"])

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """In the words of its page, which shows them as the history of its governance."""
        return "; ".join(_changes(form.cleaned_data, form.changed_data))


def _changes(given: dict[str, Any], changed: list[str]) -> Iterator[str]:
    if "disabled" in changed:
        yield f"disabled: {given['disabled_why']}" if given["disabled"] else "enabled"
    elif "disabled_why" in changed and given["disabled"]:
        yield f"disabled, now because: {given['disabled_why']}"
    if "stricter_kind" in changed:
        yield f"treated as {given['stricter_kind']}, stricter than its code" if given["stricter_kind"] else "treated as its code says"
    if "owner" in changed:
        yield f"owned by {given['owner'] or 'nobody'}"


@admin.register(OutsideTool)
class OutsideToolAdmin(ModelAdmin):
    list_display = ("name", "reached_by", "lives_in", "read_by", "undo")
    readonly_fields = ("added_by", "added_at")

    def save_model(self, request: HttpRequest, obj: OutsideTool, form: Any, change: bool) -> None:
        if not change:
            obj.added_by = str(request.user)
        super().save_model(request, obj, form, change)


@admin.register(Alert)
class AlertAdmin(ModelAdmin):
    """What an operator must know. Deleted here once it was looked into."""

    list_display = ("name", "says", "times", "first_at", "last_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(TargetPause)
class TargetPauseAdmin(ModelAdmin):
    """Targets that asked for a pause. Deleting one lets calls go to it again at once."""

    list_display = ("target", "until", "why")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Page)
class PageAdmin(ReadOnly):
    """Who was paged, and whether it arrived."""

    list_display = ("id", "run_id", "subject", "reader", "created_at", "attempt", "delivered_at", "receipt", "error")
    list_filter = (("delivered_at", admin.EmptyFieldListFilter), "service")
    list_select_related = ("person",)
    search_fields = ("subject", "person__username", "service")
    show_full_result_count = False


@admin.register(Rules)
class RulesAdmin(ModelAdmin):
    list_display = ("name", "required_checks", "off_plan", "on_failure", "patience")
    filter_horizontal = ("owners",)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        form.base_fields["required_checks"].help_text = 'Names, as JSON: ["ci"]. None: a person confirms that the run is green.'
        return form


@admin.register(TokenRules)
class TokenRulesAdmin(ModelAdmin):
    list_display = ("token", "rules")
    list_select_related = ("token", "rules")


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ("id", "title", "state", "agent", "team", "owner", "opened_at")
    list_filter = ("state", "team")
    search_fields = ("title", "agent", "ticket")
    list_select_related = ("team", "owner")
    show_full_result_count = False


@admin.register(Step)
class StepAdmin(ReadOnly):
    list_display = ("id", "run_id", "number", "capability", "kind", "audience", "state")
    list_filter = ("state", "kind", "audience")
    search_fields = ("capability", "key")
    show_full_result_count = False


@admin.register(Check)
class CheckAdmin(ReadOnly):
    list_display = ("run_id", "name", "state", "reported_by", "reported_at")


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnly):
    list_display = ("run_id", "seq", "at", "event", "actor")
    search_fields = ("event", "actor")
    ordering = ("-run_id", "-seq")
    show_full_result_count = False
