"""What a reviewer types: why not, and what becomes of the run; other words for what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django import forms

from outbox.editing import Field, fields_of
from outbox.models import Item, Policy
from outbox.services import fates
from outbox.states import Fate
from runs.models import CapabilityRecord
from runs.states import Audience
from sagaboard.accounts.models import User

if TYPE_CHECKING:
    PolicyModelForm = forms.ModelForm[Policy]
else:
    PolicyModelForm = forms.ModelForm

SAYS = {
    Fate.DROP: "The rest of the run goes on without it.",
    Fate.COMPENSATE: "The run fails, and what it did is undone, in reverse.",
    Fate.SEND_BACK: "The run stays open; the agent reads your words and goes on another way.",
}


class Rejection(forms.Form):
    """No, with a reason the agent and the owner get, and what becomes of the run."""

    reason = forms.CharField(max_length=2000, error_messages={"required": "Say why. The agent and the owner get this."})
    fate = forms.ChoiceField(error_messages={"required": "Say what becomes of the run.", "invalid_choice": "Say what becomes of the run."})
    digest = forms.CharField(max_length=64, required=False)

    def __init__(self, item: Item, data: Any = None) -> None:
        super().__init__(data, auto_id="%s", initial={"fate": fates(item)[0], "digest": item.digest})
        self.options = [(fate, fate.label, SAYS[fate]) for fate in fates(item)]
        field = self.fields["fate"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(fate.value, fate.label) for fate in fates(item)]


class Names(forms.CharField):
    """Names with commas between, as a list."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return value
        return list(dict.fromkeys(name for part in (super().to_python(value) or "").split(",") if (name := part.strip())))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class Drop(forms.Form):
    """Why an expired item is let go."""

    reason = forms.CharField(max_length=2000, error_messages={"required": "Say why it is not needed any more."})

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s")


LONG = 60
IN = {"class": "in"}
LINES = {"class": "in", "rows": 4}


class Edit(forms.Form):
    """The arguments that the policy lets a reviewer change, each as its schema wants it; the others are shown, locked."""

    def __init__(self, item: Item, data: Any = None) -> None:
        super().__init__(data, auto_id="%s", prefix="arg")
        self.about = fields_of(item)
        for field in self.about:
            if not field.locked:
                self.fields[field.name] = _input(field)

    @property
    def rows(self) -> Iterator[tuple[Field, Any, str]]:
        """Each argument with its input, or None where it is locked, and with what stands there, as text."""
        for field in self.about:
            yield field, None if field.locked else self[field.name], _as_text(field.value)

    def add_problems(self, problems: dict[str, str]) -> None:
        """What the capability had against it, each beside its field where it is about one."""
        for name, problem in problems.items():
            field = name.partition(".")[0]
            self.add_error(field if field in self.fields else None, problem)


class _Text(forms.CharField):
    """Text as it was typed: browsers send line breaks as CRLF, which nobody means."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, required=False, empty_value="", **options)

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace("\r\n", "\n")


def _input(field: Field) -> forms.Field:
    sort = field.schema.get("type")
    if sort == "string" and "enum" in field.schema:
        return forms.ChoiceField(choices=[(one, one) for one in field.schema["enum"]], initial=field.value, widget=forms.Select(attrs=IN))
    if sort == "string" and isinstance(field.value, str):
        long = len(field.value) > LONG or "\n" in field.value
        return _Text(initial=field.value, widget=forms.Textarea(attrs=LINES) if long else forms.TextInput(attrs=IN))
    if sort == "boolean":
        return forms.BooleanField(initial=field.value, required=False)
    if sort == "integer":
        return forms.IntegerField(initial=field.value, widget=forms.NumberInput(attrs=IN))
    return forms.JSONField(initial=field.value, required=False, widget=forms.Textarea(attrs=LINES))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class PolicyForm(PolicyModelForm):
    """Who must approve what. The version is not typed: it rises with every change."""

    capability = forms.ChoiceField(required=False)
    editable = Names(required=False, label="Arguments a reviewer may change", help_text="By name, with commas between; * for all of them.")
    domains = Names(
        required=False, label="Domains of recipients", help_text="With commas between. A recipient outside them is a warning on the card."
    )

    class Meta:
        model = Policy
        fields = (
            "capability",
            "audience",
            "needs_yes",
            "quorum",
            "four_eyes",
            "open_for",
            "bulk",
            "editable",
            "domains",
            "groups",
            "people",
        )
        labels = {
            "needs_yes": "A person must say yes",
            "quorum": "Yeses needed",
            "four_eyes": "Four eyes",
            "bulk": "Several may be decided together",
            "groups": "Groups that decide",
            "people": "People who decide",
        }
        help_texts = {
            "four_eyes": "Not by the run’s owner, the token’s holder, whoever opened the run or edited last.",
            "bulk": "Each is still shown in full and ticked by itself.",
            "groups": "None here and none below: whoever may decide the capability.",
        }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for one in self.fields.values():
            if not isinstance(one, forms.BooleanField):
                one.widget.attrs["class"] = "in"
        names = list(CapabilityRecord.objects.present().order_by("name").values_list("name", flat=True))
        # One that is gone from the code keeps its policy: runs may still wait under it.
        known = [*names, *({self.instance.capability} - {"", *names})]
        field = self.fields["capability"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "every capability"), *((name, name) for name in known)]
        people = self.fields["people"]
        assert isinstance(people, forms.ModelMultipleChoiceField)
        people.queryset = User.objects.filter(is_active=True).order_by("first_name", "username")

    def clean_quorum(self) -> int:
        quorum = int(self.cleaned_data["quorum"])
        if quorum < 1:
            raise forms.ValidationError("At least one. What needs no yes says so by “needs yes”.")
        return quorum

    def clean_open_for(self) -> int:
        seconds = int(self.cleaned_data["open_for"])
        if not 60 <= seconds <= 90 * 86400:
            raise forms.ValidationError("Between a minute and 90 days, in seconds.")
        return seconds

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        if said.get("audience") == Audience.CLIENTS and not said.get("needs_yes"):
            self.add_error("needs_yes", "What clients see always needs a person’s yes.")
        people, groups = said.get("people"), said.get("groups")
        if people and not groups and len(people) < said.get("quorum", 1):
            self.add_error("quorum", f"Only {len(people)} of the people named could say yes, so it would never have enough.")
        self._check_editable(said.get("capability", ""), said.get("editable", []))
        return said

    def _check_editable(self, capability: str, names: list[str]) -> None:
        record = CapabilityRecord.objects.filter(name=capability).first()
        if record is None:
            return
        known = record.schema.get("properties", {})
        if strange := [name for name in names if name != "*" and name not in known]:
            self.add_error("editable", f"{capability} has no argument {', '.join(strange)}. It has {', '.join(known) or 'none'}.")
