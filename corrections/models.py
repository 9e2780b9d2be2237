"""The messages to people who saw a signal that was premature, how they are worded, and who owns which audience."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Now

from corrections.states import EDITABLE, MOVES, OPEN, CorrectionState, Kind
from runs.models import Run, Step, shown_to
from runs.models.leased import Leased
from sagaboard.accounts.models import User
from sagaboard.accounts.rights import teams_with


class Audience(models.Model):
    """A cohort, channel or client, and the person who owns it; `address` is where a note to that person goes."""

    name = models.CharField(max_length=120, unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="audiences")
    address = models.JSONField(default=dict, blank=True)
    # After how many minutes a correction for it goes by itself; None: never. Those that clients read never do.
    send_after = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


def owners_of(audiences: Iterable[str]) -> dict[str, Audience]:
    """Who owns these cohorts, channels or clients now, by name, each with the person; those that nobody owns are not in it."""
    names = set(audiences) - {""}
    return {one.name: one for one in Audience.objects.select_related("owner").filter(name__in=names)}


def read_owners(corrections: Iterable[Correction]) -> None:
    """Fills `owned` of all of these, by one query."""
    found = list(corrections)
    owners = owners_of(one.audience for one in found)
    for one in found:
        one.owned = owners.get(one.audience)


class TemplateQuerySet(models.QuerySet["Template"]):
    def newest(self, kind: str, place_kind: str) -> Template | None:
        """What a message of this kind is worded by there: the newest for that place, else the newest for all places."""
        found = self.filter(kind=kind).order_by("-pk")
        return found.filter(place_kind=place_kind).first() or found.filter(place_kind="").first()


class Template(models.Model):
    """One version of the words around a message's fields. Rows are never changed: a message keeps the one it was drafted with."""

    kind = models.CharField(max_length=16, choices=Kind, default=Kind.CORRECTION)
    # The kind of place it is for; blank for all that have none of their own.
    place_kind = models.CharField(max_length=40, blank=True)
    body = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    objects = TemplateQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="template_kind_is_known"),
            # People who are told of something and not what to do ask.
            models.CheckConstraint(
                condition=Q(body__contains="{what_to_do}") & Q(body__contains="{questions_to}"), name="template_says_what_to_do"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, {self.place_kind or 'all places'}, version {self.pk}"


class Report(models.Model):
    """A report that is owed to a run's owner by mail, because the run ended or the last one was told."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="reports")
    asked_at = models.DateTimeField(db_default=Now())
    mailed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run"], condition=Q(mailed_at=None), name="report_owed_once")]

    def __str__(self) -> str:
        return f"report of run {self.run_id}"


def shown(signals: list[dict[str, Any]]) -> tuple[dt.datetime | None, dt.datetime | None]:
    """From when the first of these could be seen, and until when the last of them; None while one still can."""
    ends = [dt.datetime.fromisoformat(one["to"]) for one in signals if one["to"]]
    since = min((dt.datetime.fromisoformat(one["from"]) for one in signals if one["from"]), default=None)
    return since, max(ends) if ends and len(ends) == len(signals) else None


class CorrectionQuerySet(models.QuerySet["Correction"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Corrections of runs this person can see or may correct, and those for an audience that is theirs."""
        if not user.is_authenticated:
            return self.none()
        theirs = Q(run__team__in=teams_with(user, "corrections.send_correction"))
        return self.filter(theirs | shown_to(user, "run__") | Q(audience__in=user.audiences.values("name")))

    def sendable_by(self, user: User) -> Self:
        """What this person may edit, send and dismiss: of their runs, for their audiences, or by right in their teams."""
        theirs = Q(run__owner=user) | Q(audience__in=user.audiences.values("name"))
        theirs |= Q(run__team__in=teams_with(user, "corrections.send_correction"))
        return self.filter(theirs) if user.is_active else self.none()

    def editable(self) -> Self:
        return self.filter(state__in=EDITABLE)

    def unsent(self) -> Self:
        """Drafts no attempt was made to post: there is one for a place of a run."""
        return self.filter(state__in=[CorrectionState.DRAFT, CorrectionState.HELD_BACK])

    def gone_out(self) -> Self:
        """Posted, or being posted."""
        return self.filter(state__in=[CorrectionState.SENT, CorrectionState.SENDING])

    def waiting_for(self, user: User) -> Self:
        """What this very person can send: not sent yet, or sent and not said yet that it is back."""
        theirs = self.sendable_by(user)
        return theirs.editable() | theirs.back_unsaid()

    def matching(self, text: str) -> Self:
        """Free text over what was seen, where it goes, to whom, the run's title, number and owner."""
        words = Q(seen__icontains=text) | Q(place_label__icontains=text) | Q(recipient__icontains=text) | Q(audience__icontains=text)
        run = Q(run__title__icontains=text) | Q(run__ticket__icontains=text)
        owner = Q(run__owner__first_name__icontains=text) | Q(run__owner__last_name__icontains=text)
        number = Q(run=int(text)) if text.isascii() and text.isdigit() and len(text) < 18 else Q()
        return self.filter(words | run | owner | number | Q(run__owner__username__icontains=text))

    def open(self) -> Self:
        return self.filter(state__in=OPEN)

    def untold(self) -> Self:
        """Of those who may see it or saw it, nobody was told yet that it was premature."""
        return self.open().filter(kind=Kind.CORRECTION)

    def back_unsaid(self) -> Self:
        """Sent, and a retry holds since: its readers can be told that it is back."""
        sent = self.filter(state=CorrectionState.SENT, kind=Kind.CORRECTION, back_run__isnull=False)
        return sent.exclude(pk__in=Correction.objects.filter(kind=Kind.BACK).values("follows"))

    def closed(self) -> Self:
        return self.exclude(state__in=OPEN)

    def with_everything(self) -> Self:
        """With all that a page shows of them."""
        return self.select_related("run__team", "run__owner", "questions_to", "template", "follows", "back_run").prefetch_related("steps")


class Correction(Leased):
    """One message for one place and run. Its fields come from the log; people may edit the words, not the facts."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="corrections")
    # The signals it corrects; the first one's capability posts it.
    steps = models.ManyToManyField(Step, related_name="corrections")
    state = models.CharField(max_length=16, choices=CorrectionState, default=CorrectionState.DRAFT)
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.CORRECTION, db_default=Kind.CORRECTION)
    # The one that went out before it in the same place: this says it in other words, or that it is back.
    follows = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="followed_by")

    place_key = models.CharField(max_length=300)
    place_kind = models.CharField(max_length=40)
    place_label = models.CharField(max_length=200)
    # What `correct` needs where a person chose another place than the signal's own.
    place_address = models.JSONField(default=dict, db_default=Value({}, models.JSONField()), blank=True)
    # How many characters the place takes, who else sees it there, and what is said of a signal that isn't there any more.
    limit = models.PositiveIntegerField(null=True, blank=True)
    readers = models.CharField(max_length=300, blank=True, default="", db_default="")
    quote = models.TextField(blank=True, default="", db_default="")
    audience = models.CharField(max_length=120, blank=True)
    # Who gets the note, and where; empty where nobody owns the audience.
    recipient = models.CharField(max_length=200, blank=True)
    address = models.JSONField(default=dict, blank=True)

    # Facts, from the log: one object a signal, {"step", "signal", "from", "to", "reverted_to", "how"}.
    signals = models.JSONField(default=list)
    # Words, which the owner may edit; of several signals, a line for each.
    seen = models.TextField()
    reverted_to = models.TextField(blank=True)
    what_to_do = models.TextField(blank=True)
    back_when = models.CharField(max_length=200, default="unknown, the owner will update")
    questions_to = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    # The words as the log gave them, to show what a person changed.
    drafted = models.JSONField(default=dict, db_default=Value({}, models.JSONField()), blank=True)
    # None: worded as the code has it.
    template = models.ForeignKey(Template, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    revision = models.PositiveIntegerField(default=1)
    edited_by = models.CharField(max_length=200, blank=True)
    edited_at = models.DateTimeField(null=True, blank=True)
    # The open page that saved it last: what a page saved by itself is no stranger's change to it.
    edited_in = models.CharField(max_length=32, blank=True, default="", db_default="")

    key = models.CharField(max_length=64, unique=True)
    drafted_at = models.DateTimeField()
    # A client reads the signal: only a person may send this.
    for_clients = models.BooleanField(default=False, db_default=False)
    # When it goes by itself, unless somebody stops it.
    goes_at = models.DateTimeField(null=True, blank=True)
    sent_by = models.CharField(max_length=200, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    # The message as it went out, and where it is now.
    text = models.TextField(blank=True)
    delivered = models.JSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    # An attempt began whose end is not known: it may be there.
    in_doubt = models.BooleanField(default=False)
    # The text of that attempt, which is what is there if it is found; the owner may have reworded it since.
    doubted = models.TextField(blank=True, default="", db_default="")
    # Answers it got there, as of the last look; None where nobody can tell.
    replies = models.PositiveIntegerField(null=True, blank=True)
    replies_due_at = models.DateTimeField(null=True, blank=True)
    # The retry that succeeded: what was premature then holds now.
    back_run = models.ForeignKey(Run, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    due_at = models.DateTimeField(null=True, blank=True)
    dismissed_by = models.CharField(max_length=200, blank=True)
    dismissed_why = models.TextField(blank=True)

    objects = CorrectionQuerySet.as_manager()

    class Meta:
        ordering = ["-drafted_at"]
        permissions = [("send_correction", "Can edit, send and dismiss corrections")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=CorrectionState.values), name="correction_state_is_known"),
            models.CheckConstraint(
                condition=~Q(state="sent") | (Q(sent_at__isnull=False, delivered__isnull=False) & ~Q(text="")),
                name="correction_sent_is_delivered",
            ),
            models.CheckConstraint(condition=~Q(state__in=["sending", "sent"]) | ~Q(what_to_do=""), name="correction_says_what_to_do"),
            models.CheckConstraint(condition=Q(for_clients=False) | Q(goes_at=None), name="correction_to_clients_by_a_person"),
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="correction_kind_is_known"),
            models.CheckConstraint(condition=~Q(kind="back") | Q(follows__isnull=False), name="correction_back_follows_one"),
            models.UniqueConstraint(fields=["follows"], condition=Q(kind="back"), name="correction_back_once"),
            models.CheckConstraint(
                condition=~Q(state="dismissed") | (~Q(dismissed_by="") & ~Q(dismissed_why="")), name="correction_dismissed_by_name"
            ),
            models.UniqueConstraint(
                fields=["run", "place_key"],
                condition=Q(state__in=["draft", "held_back"]),
                name="correction_one_draft_per_place",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="correction_due", condition=Q(state__in=["sending", "not_delivered"])),
            models.Index(fields=["goes_at"], name="correction_goes", condition=Q(goes_at__isnull=False)),
            models.Index(fields=["replies_due_at"], name="correction_replies", condition=Q(replies_due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"correction of run {self.run_id}: {self.about}"

    def get_absolute_url(self) -> str:
        return f"/corrections/{self.pk}/"

    @cached_property
    def owned(self) -> Audience | None:
        """Its audience with the person who owns it, as read once; None where nobody does."""
        return owners_of([self.audience]).get(self.audience)

    @property
    def is_editable(self) -> bool:
        return self.state in EDITABLE

    @property
    def about(self) -> str:
        """What was seen, in a line; `seen` has one for each signal."""
        first, *more = self.seen.splitlines() or [""]
        return f"{first}, and {len(more)} more" if more else first

    @property
    def shown_since(self) -> dt.datetime | None:
        """From when the first of its signals could be seen."""
        return shown(self.signals)[0]

    @property
    def shown_until(self) -> dt.datetime | None:
        """When the last of them was gone; None while one can still be seen."""
        return shown(self.signals)[1]

    @property
    def shown_for(self) -> dt.timedelta | None:
        since, until = self.shown_since, self.shown_until
        return until - since if since and until else None

    @property
    def believed_for(self) -> dt.timedelta | None:
        """From the first signal until its readers were told; an exposure ends in the world, this one in their heads."""
        return self.sent_at - self.shown_since if self.sent_at and self.shown_since else None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def said_back(self) -> Correction | None:
        """The follow-up that says that it is back, if there is one."""
        return self.followed_by.filter(kind=Kind.BACK).first()

    @property
    def can_say_back(self) -> bool:
        """A retry succeeded since it was sent, and its readers were not told."""
        return self.state == CorrectionState.SENT and self.kind == Kind.CORRECTION and self.back_run_id is not None and not self.said_back

    def move(self, to: CorrectionState, *fields: str) -> None:
        """Changes the state, by the table of allowed moves, and saves `fields` with it."""
        if to not in MOVES[self.state]:
            raise AssertionError(f"A correction does not go from {self.state} to {to}.")
        self.state = to
        self.save(update_fields=["state", *fields])
