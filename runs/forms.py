"""What people fill in on the pages of runs."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django import forms

from sagaboard.accounts.models import Team, User


class ReasonForm(forms.Form):
    """A reason that stays in the log."""

    reason = forms.CharField(max_length=2000, strip=True, widget=forms.Textarea, error_messages={"required": "A reason is required."})


class SettleForm(forms.Form):
    """How a step ended, says a person. An effect only where it happened."""

    WAYS = [
        ("again", "Try the undo again"),
        ("undone_by_hand", "I have undone it by hand"),
        ("left_standing", "Leave it standing and go on"),
        ("happened", "It happened"),
        ("never_happened", "It never happened"),
    ]
    how = forms.ChoiceField(choices=WAYS, error_messages={"required": "Choose how it ended."})
    reason = forms.CharField(max_length=2000, strip=True, required=False)
    effect = forms.CharField(max_length=20_000, required=False, widget=forms.Textarea)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("how") and not found.get("reason"):
            self.add_error("reason", "A reason is required: say how you know.")
        return found


class DueForm(forms.Form):
    """Whose runs the drills are; `once` makes a second press the first one's echo."""

    once = forms.UUIDField(required=False)
    team = forms.ModelChoiceField(Team.objects.none(), error_messages={"required": "Choose whose run it is."})

    def __init__(self, person: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams = person.teams.order_by("name")
        chosen = self.fields["team"]
        assert isinstance(chosen, forms.ModelChoiceField)
        chosen.queryset, chosen.initial = teams, teams.first()


class DrillForm(DueForm):
    """What one capability is rehearsed with; `confirmed` by the second press."""

    arguments = forms.JSONField(error_messages={"invalid": "This is not JSON."})
    confirmed = forms.BooleanField(required=False)

    def clean_arguments(self) -> dict[str, Any]:
        found = self.cleaned_data["arguments"]
        if not isinstance(found, dict):
            raise forms.ValidationError("Arguments are a JSON object.")
        return found


class SettingsForm(forms.ModelForm):  # type: ignore[type-arg]  # at run time it takes no parameter
    """How pages look to one person, and how they hear of what waits for them."""

    class Meta:
        model = User
        fields = ("theme", "time_zone", "shortcuts", "mail", "digest_hour", "quiet_from", "quiet_until")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["mail"].required = self.fields["digest_hour"].required = False

    def clean_mail(self) -> str:
        return str(self.cleaned_data["mail"] or self.instance.mail)

    def clean_digest_hour(self) -> int:
        given = self.cleaned_data["digest_hour"]
        hour = self.instance.digest_hour if given is None else int(given)
        if not 0 <= hour <= 23:
            raise forms.ValidationError("An hour from 0 to 23.")
        return hour

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        if (said.get("quiet_from") is None) != (said.get("quiet_until") is None) and not self.errors:
            self.add_error("quiet_from", "Say from when and until when, or neither.")
        return said

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"])
        if name not in zoneinfo.available_timezones():
            raise forms.ValidationError("No such time zone. Write it as Europe/Zurich or UTC.")
        return name
