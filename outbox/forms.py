"""What a reviewer types: why not, and what becomes of the run."""

from __future__ import annotations

from typing import Any

from django import forms

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
