"""The messages to people who saw a signal that was premature, and who owns which audience."""

from __future__ import annotations

import datetime as dt
from typing import Self

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q

from corrections.states import EDITABLE, MOVES, OPEN, CorrectionState
from runs.models import Run, Step
from runs.models.leased import Leased
from sagaboard.accounts.models import User


class Audience(models.Model):
    """A cohort, channel or client, and the person who owns it; `address` is where a note to that person goes."""

    name = models.CharField(max_length=120, unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="audiences")
    address = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.name


class CorrectionQuerySet(models.QuerySet["Correction"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Corrections of runs this person can see, and those for an audience that is theirs."""
        if not user.is_authenticated:
            return self.none()
        runs = Run.objects.visible_to(user).values("pk")
        return self.filter(Q(run__in=runs) | Q(audience__in=user.audiences.values("name")))

    def sendable_by(self, user: User) -> Self:
        """What this person may edit, send and dismiss: of their runs, for their audiences, or by right in their teams."""
        theirs = Q(run__owner=user) | Q(audience__in=user.audiences.values("name"))
        if user.has_perm("corrections.send_correction"):
            theirs |= Q(run__team__in=user.teams.all())
        return self.filter(theirs) if user.is_active else self.none()

    def editable(self) -> Self:
        return self.filter(state__in=EDITABLE)

    def unsent(self) -> Self:
        """Drafts no attempt was made to post: there is one for a place of a run."""
        return self.filter(state__in=[CorrectionState.DRAFT, CorrectionState.HELD_BACK])

    def gone_out(self) -> Self:
        """Posted, or being posted."""
        return self.filter(state__in=[CorrectionState.SENT, CorrectionState.SENDING])

    def open(self) -> Self:
        return self.filter(state__in=OPEN)

    def closed(self) -> Self:
        return self.exclude(state__in=OPEN)

    def with_everything(self) -> Self:
        """With all that a page shows of them."""
        return self.select_related("run__team", "run__owner", "questions_to").prefetch_related("steps")


class Correction(Leased):
    """One message for one place and run. Its fields come from the log; people may edit the words, not the facts."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="corrections")
    # The signals it corrects; the first one's capability posts it.
    steps = models.ManyToManyField(Step, related_name="corrections")
    state = models.CharField(max_length=16, choices=CorrectionState, default=CorrectionState.DRAFT)

    place_key = models.CharField(max_length=300)
    place_kind = models.CharField(max_length=40)
    place_label = models.CharField(max_length=200)
    audience = models.CharField(max_length=120, blank=True)
    # Who gets the note, and where; empty where nobody owns the audience.
    recipient = models.CharField(max_length=200, blank=True)
    address = models.JSONField(default=dict, blank=True)

    # Facts, from the log: one object a signal, {"step", "signal", "from", "to", "reverted_to", "how"}.
    signals = models.JSONField(default=list)
    # Words, which the owner may edit.
    seen = models.TextField()
    reverted_to = models.TextField(blank=True)
    what_to_do = models.TextField(blank=True)
    back_when = models.CharField(max_length=200, default="unknown, the owner will update")
    questions_to = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    revision = models.PositiveIntegerField(default=1)
    edited_by = models.CharField(max_length=200, blank=True)
    edited_at = models.DateTimeField(null=True, blank=True)

    key = models.CharField(max_length=64, unique=True)
    drafted_at = models.DateTimeField()
    sent_by = models.CharField(max_length=200, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    # The message as it went out, and where it is now.
    text = models.TextField(blank=True)
    delivered = models.JSONField(null=True, blank=True)
    error = models.TextField(blank=True)
    # An attempt began whose end is not known: it may be there.
    in_doubt = models.BooleanField(default=False)
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
            models.CheckConstraint(
                condition=~Q(state="dismissed") | (~Q(dismissed_by="") & ~Q(dismissed_why="")), name="correction_dismissed_by_name"
            ),
            models.UniqueConstraint(
                fields=["run", "place_key"],
                condition=Q(state__in=["draft", "held_back"]),
                name="correction_one_draft_per_place",
            ),
        ]
        indexes = [models.Index(fields=["due_at"], name="correction_due", condition=Q(state__in=["sending", "not_delivered"]))]

    def __str__(self) -> str:
        return f"correction of run {self.run_id}: {self.seen}"

    def get_absolute_url(self) -> str:
        return f"/corrections/{self.pk}/"

    @property
    def is_editable(self) -> bool:
        return self.state in EDITABLE

    @property
    def shown_since(self) -> dt.datetime | None:
        """From when the first of its signals could be seen."""
        return min((dt.datetime.fromisoformat(one["from"]) for one in self.signals if one["from"]), default=None)

    @property
    def shown_until(self) -> dt.datetime | None:
        """When the last of them was gone; None while one can still be seen."""
        ends = [dt.datetime.fromisoformat(one["to"]) for one in self.signals if one["to"]]
        return max(ends) if ends and len(ends) == len(self.signals) else None

    @property
    def shown_for(self) -> dt.timedelta | None:
        since, until = self.shown_since, self.shown_until
        return until - since if since and until else None

    def move(self, to: CorrectionState, *fields: str) -> None:
        """Changes the state, by the table of allowed moves, and saves `fields` with it."""
        if to not in MOVES[self.state]:
            raise AssertionError(f"A correction does not go from {self.state} to {to}.")
        self.state = to
        self.save(update_fields=["state", *fields])
