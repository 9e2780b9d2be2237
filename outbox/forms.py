"""What a reviewer types: why not, and what becomes of the run; other words for what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django import forms

from outbox.editing import Field, fields_of
from outbox.models import Item
from outbox.services import fates
from outbox.states import Fate

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


class Drop(forms.Form):
    """Why an expired item is let go."""

    reason = forms.CharField(max_length=2000, error_messages={"required": "Say why it is not needed any more."})

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s")


LONG = 60


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
        return forms.ChoiceField(choices=[(one, one) for one in field.schema["enum"]], initial=field.value)
    if sort == "string" and isinstance(field.value, str):
        long = len(field.value) > LONG or "\n" in field.value
        return _Text(initial=field.value, widget=forms.Textarea(attrs={"rows": 4}) if long else forms.TextInput)
    if sort == "boolean":
        return forms.BooleanField(initial=field.value, required=False)
    if sort == "integer":
        return forms.IntegerField(initial=field.value)
    return forms.JSONField(initial=field.value, required=False, widget=forms.Textarea(attrs={"rows": 4}))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
