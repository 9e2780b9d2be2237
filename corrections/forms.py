"""The fixed fields of a correction: what people may edit, and nothing else."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q

from corrections import wording
from corrections.drafting import BACK_AFTER_CI, BACK_UNKNOWN
from corrections.models import Audience, Correction
from sagaboard.accounts.models import User

NOTHING = "Nothing."
SPECIFIC = "specific"
AT_A_TIME = "at"


class Words(forms.Form):
    """The words of one correction. `applied` gives the draft as it would be with them; nothing is saved here."""

    revision = forms.IntegerField()
    page = forms.CharField(max_length=32, required=False)
    seen = forms.CharField(max_length=4000, error_messages={"required": "Say what they may have seen."})
    reverted_to = forms.CharField(max_length=1000, required=False)
    do = forms.ChoiceField(choices=[("nothing", "Nothing"), (SPECIFIC, "Something specific")])
    what_to_do = forms.CharField(max_length=2000, required=False)
    back = forms.ChoiceField(
        choices=[
            (BACK_AFTER_CI, "After CI passes on the retry"),
            (BACK_UNKNOWN, "Unknown, the owner will update"),
            (AT_A_TIME, "At a time I say"),
        ]
    )
    back_at = forms.CharField(max_length=200, required=False)
    questions_to = forms.ModelChoiceField(
        User.objects.none(), error_messages={"invalid_choice": "Questions go to a person who can sign in."}
    )

    def __init__(self, correction: Correction, data: Any = None) -> None:
        super().__init__(data, auto_id="%s", initial=_initial(correction))
        self.correction = correction
        self.people = _people(correction)
        field = self.fields["questions_to"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = self.people

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("do") == SPECIFIC and not found.get("what_to_do"):
            self.add_error("what_to_do", "Say what they need to do, or choose “Nothing”.")
        if found.get("back") == AT_A_TIME and not found.get("back_at"):
            self.add_error("back_at", "Say when it will come back.")
        return found

    def words(self) -> dict[str, str]:
        """What was typed, as the services take it; also of a form that does not validate."""
        found = {name: str(self.data.get(name, "")).strip() for name in ("seen", "reverted_to", "do", "what_to_do", "back", "back_at")}
        return {
            "seen": "\n".join(line.strip() for line in found["seen"].splitlines() if line.strip()),
            "reverted_to": found["reverted_to"],
            "what_to_do": NOTHING if found["do"] == "nothing" else found["what_to_do"],
            "back_when": found["back_at"] if found["back"] == AT_A_TIME else found["back"],
        }

    def differs(self) -> bool:
        """Whether anything that was typed is not what is stored."""
        stored, asked = Correction.objects.get(pk=self.correction.pk), str(self.data.get("questions_to", ""))
        return asked != str(stored.questions_to_id) or any(text != getattr(stored, name).strip() for name, text in self.words().items())

    def applied(self) -> Correction:
        """The draft with these words, unsaved."""
        draft = Correction.objects.with_everything().get(pk=self.correction.pk)
        for name, text in self.words().items():
            setattr(draft, name, text)
        chosen = str(self.data.get("questions_to", ""))
        asked = self.people.filter(pk=chosen).first() if chosen.isdecimal() else None
        draft.questions_to = asked or draft.questions_to
        return draft


class AudienceForm(forms.Form):
    """Who owns a cohort, channel or client, how a note reaches that person, and whether corrections go by themselves."""

    name = forms.CharField(max_length=120, error_messages={"required": "Say which cohort, channel or client it is."})
    owner = forms.ModelChoiceField(User.objects.none(), error_messages={"required": "Say who owns it: a person who can sign in."})
    target = forms.CharField(max_length=80, required=False)
    user = forms.CharField(max_length=80, required=False)
    email = forms.EmailField(required=False)
    send_after = forms.IntegerField(min_value=1, max_value=7 * 24 * 60, required=False)

    def __init__(self, audience: Audience | None, data: Any = None, *, by: User) -> None:
        super().__init__(data, auto_id="%s", initial=_of_audience(audience))
        self.audience = audience
        owner = self.fields["owner"]
        assert isinstance(owner, forms.ModelChoiceField)
        owner.queryset = User.objects.filter(is_active=True).order_by("first_name", "username")
        if audience is not None and not by.has_perm("corrections.change_audience"):
            # Its owner may say how a note reaches them and when it goes, not whose it is.
            del self.fields["name"], self.fields["owner"]

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"]).strip()
        others = Audience.objects.filter(name=name).exclude(pk=self.audience.pk if self.audience else 0)
        if others.exists():
            raise forms.ValidationError(f"“{name}” is owned already: change that one.")
        return name

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if bool(found.get("user")) == bool(found.get("email")):
            self.add_error("user", "Say how a note reaches the owner: a user of the chat, or an e-mail address.")
        if not found.get("target"):
            self.add_error("target", "Say by which configured target it goes, as SAGABOARD_TARGETS names it.")
        return found

    def address(self) -> dict[str, str]:
        found = {name: str(self.cleaned_data[name]) for name in ("target", "user", "email")}
        return {name: value for name, value in found.items() if value}


def _of_audience(audience: Audience | None) -> dict[str, Any]:
    if audience is None:
        return {}
    known = {name: audience.address.get(name, "") for name in ("target", "user", "email")}
    return {"name": audience.name, "owner": audience.owner_id, "send_after": audience.send_after, **known}


class TemplateForm(forms.Form):
    """A new version of how messages are worded."""

    body = forms.CharField(max_length=4000, strip=False, error_messages={"required": "A message needs words."})

    def clean_body(self) -> str:
        body = str(self.cleaned_data["body"]).replace("\r\n", "\n").strip()
        if against := wording.against_template(body):
            raise forms.ValidationError(against)
        return body


class Dismissal(forms.Form):
    """Why nobody needs to be told."""

    reason = forms.CharField(max_length=2000, error_messages={"required": "Say why nobody needs to be told."})

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s")


def _initial(correction: Correction) -> dict[str, Any]:
    nothing = correction.what_to_do.strip().rstrip(".").lower() == "nothing"
    known = correction.back_when in (BACK_AFTER_CI, BACK_UNKNOWN)
    return {
        "revision": correction.revision,
        "seen": correction.seen,
        "reverted_to": correction.reverted_to,
        "do": "nothing" if nothing else SPECIFIC,
        "what_to_do": "" if nothing else correction.what_to_do,
        "back": correction.back_when if known else AT_A_TIME,
        "back_at": "" if known else correction.back_when,
        "questions_to": correction.questions_to_id,
    }


def _people(correction: Correction) -> Any:
    """Who can be asked: the run's owner, and whoever of its team can sign in."""
    return (
        User.objects.filter(Q(pk=correction.run.owner_id) | Q(teams=correction.run.team_id), is_active=True)
        .distinct()
        .order_by("first_name", "username")
    )
