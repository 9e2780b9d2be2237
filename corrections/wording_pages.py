"""What the pages of owners and wordings show: audiences that signals reached and nobody owns, and each wording with an example."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.db.models import Count

from corrections import wording
from corrections.models import Audience, Correction, Template
from corrections.states import Kind
from runs.models import Run
from sagaboard.accounts.models import User

PLACES = {
    "": "Everywhere else",
    "note": "A note to one person",
    "thread": "A reply in a thread of the chat",
    "channel": "A message in a channel",
    "ticket": "A comment on a ticket",
    "email": "An answer to an e-mail",
    "notice": "A correction at a partner",
}
ANYWHERE = "any"


@dataclasses.dataclass(frozen=True)
class Unowned:
    """An audience that saw something, and that nobody owns."""

    name: str
    signals: int


def unowned(user: User) -> list[Unowned]:
    """Of the corrections this person may see: whom nobody answers for, the most often reached first."""
    seen = Correction.objects.visible_to(user).exclude(audience="").exclude(audience__in=Audience.objects.values("name"))
    counted = seen.order_by().values("audience").annotate(signals=Count("pk")).order_by("-signals", "audience")
    return [Unowned(row["audience"], row["signals"]) for row in counted[:100]]


@dataclasses.dataclass(frozen=True)
class Wording:
    """How messages of one kind are worded in one kind of place, now; `version` None where the code's own words hold."""

    kind: str
    place_kind: str
    label: str
    body: str
    version: Template | None

    @property
    def path(self) -> str:
        return f"{self.kind}/{self.place_kind or ANYWHERE}/"

    @property
    def is_own(self) -> bool:
        return self.version is not None and self.version.place_kind == self.place_kind


def wording_of(kind: str, place_kind: str) -> Wording:
    return _wording(kind, place_kind, Template.objects.newest(kind, place_kind))


def _wording(kind: str, place_kind: str, version: Template | None) -> Wording:
    body = version.body if version else wording.BUILT_IN[kind]
    return Wording(kind, place_kind, f"{Kind(kind).label}: {PLACES[place_kind][:1].lower()}{PLACES[place_kind][1:]}", body, version)


def wordings() -> list[Wording]:
    newest = {(one.kind, one.place_kind): one for one in Template.objects.order_by("pk").select_related("by")}
    kinds = [(kind, place_kind) for kind in Kind.values for place_kind in PLACES]
    return [_wording(kind, place_kind, newest.get((kind, place_kind)) or newest.get((kind, ""))) for kind, place_kind in kinds]


def example(kind: str, place_kind: str, user: User) -> Correction:
    """A correction to show a wording by; nothing of it is saved."""
    began = dt.datetime(2026, 1, 5, 2, 53, 41, tzinfo=dt.UTC)
    gone = began + dt.timedelta(minutes=11, seconds=40)
    times = {"from": began.isoformat(), "to": gone.isoformat()}
    run = Run(pk=4182, owner=user, ended_at=gone)
    return Correction(
        run=run,
        kind=kind,
        place_kind=place_kind,
        place_label=PLACES[place_kind],
        signals=[{"step": 3, "signal": "", "reverted_to": "", "how": "undone", **times}],
        seen="the new billing panel on QA test accounts",
        reverted_to="off for the QA cohort, as before 02:53 UTC",
        what_to_do="Discard test cases written against billing panel v1.",
        back_when="after CI passes on the retry",
        questions_to=user,
        back_run=run,
    )
