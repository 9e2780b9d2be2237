"""A run: one agent's task, with its rules, its state and what holds it up."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import uuid
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Case, Exists, OuterRef, Q, Subquery, When
from django.db.models.expressions import RawSQL

from runs.clock import Clock
from runs.models.capability import CapabilityRecord
from runs.models.leased import Leased, lease_is_free
from runs.states import (
    ENDED,
    GOING_FORWARD,
    IN_EFFECT,
    RUN_MOVES,
    UNFINISHED,
    CheckState,
    OffPlan,
    OnFailure,
    Overlap,
    RunState,
)
from runs.storable import storable
from sagaboard import quick
from sagaboard.accounts.models import Team, Token, User
from sagaboard.accounts.rights import teams_shown
from sagaboard.whence import whence

if TYPE_CHECKING:
    from runs.models.step import Step

# Above this many bytes a document lies beside the log, which holds its digest.
BESIDE_THE_LOG = 16_384
# The beginning of a step's key.
KEY = re.compile("[0-9a-f]{8,64}")
MOVING = [*GOING_FORWARD, RunState.COMPENSATING]
_ENTRY = """
INSERT INTO runs_logentry (run_id, step_id, event, actor, attempt, data)
SELECT %s::bigint, %s::bigint, %s::text, %s::text, %s::int, %s::jsonb"""


def _has_step(**facts: Any) -> Exists:
    from runs.models.step import Step

    return Exists(Step.objects.filter(run=OuterRef("pk"), **facts))


def _seen_by_people() -> Exists:
    return _has_step(state__in=IN_EFFECT - {"sent"}, leaves_effect=True, audience__in=["people", "clients"])


@lru_cache(maxsize=1)
def _needs_someone() -> Q:
    # The state stands first: the database asks in this order. Steps are found by way of the unfinished runs, which are few.
    undecided = Q(state=RunState.CHECKING) & Q(~Exists(Check.objects.filter(run=OuterRef("pk"))))
    failed = Q(state=RunState.FAILED) & Q(pk__in=_with_step(IN_EFFECT, Run.objects.filter(state=RunState.FAILED)))
    open_step = Q(state__in=UNFINISHED) & Q(pk__in=_with_step(["unknown", "on_hold"], Run.objects.unfinished()))
    return Q(state=RunState.STUCK) | failed | open_step | undecided


def _with_step(states: Collection[str], runs: RunQuerySet) -> models.QuerySet[Any, Any]:
    """Numbers of these runs that have a step in one of these states."""
    from runs.models.step import Step

    return Step.objects.filter(run__in=runs, state__in=states).values("run")


def shown_to(user: User, prefix: str = "") -> Q:
    """The runs of teams this person belongs to, or was given a right over; `prefix` leads to the run from other rows."""
    if user.has_perm("runs.view_run"):
        return Q(pk__isnull=False)
    return Q(**{f"{prefix}team__in": teams_shown(user)}) | Q(**{f"{prefix}owner": user})


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """The runs of teams this person belongs to, or was given a right over."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(shown_to(user))

    def as_seen_by(self, user: User) -> Self:
        """Those that this person can see, with what the page of one shows; adds `is_frozen`."""
        from runs.models.rules import System

        frozen = Exists(System.objects.exclude(frozen_at=None))
        related = self.visible_to(user).select_related("owner", "team", "token", "taken_by", "retry_of")
        return related.annotate(is_frozen=frozen)

    def of_token(self, token: Token) -> Self:
        """The runs a token may speak of: its own, or the one it is bound to; checkers and watchers those of its team."""
        if token.run_number:
            return self.filter(pk=token.run_number, team=token.team_id)
        if token.scope == "agent":
            return self.filter(token=token)
        return self.filter(team=token.team_id)

    def unfinished(self) -> Self:
        return self.exclude(state__in=ENDED)

    def wanting(self, capability: str) -> Self:
        """Those that still mean to call it."""
        return self.unfinished().filter(_has_step(capability=capability, state__in=["planned", "requested", "on_hold", "queued"]))

    def going_forward(self) -> Self:
        return self.filter(state__in=GOING_FORWARD)

    def with_effects(self) -> Self:
        return self.filter(steps__state__in=IN_EFFECT).distinct()

    def needing_someone(self, also: Collection[int] = ()) -> Self:
        """Stuck, or failed with something left in the world; a step that nobody but a person can explain, a run no check decides.

        `also` are the numbers of runs that need someone for another reason.
        """
        return self.filter(_needs_someone() | Q(pk__in=also))

    def moving(self) -> Self:
        """On their way, forward or back."""
        return self.filter(state__in=MOVING)

    def standing_still(self) -> Self:
        return self.exclude(state__in=MOVING)

    def seen_by_people_now(self) -> Self:
        """With an effect that people can see and that could be taken back."""
        return self.exclude(state__in=[RunState.SUCCEEDED, RunState.COMPENSATED]).filter(_seen_by_people())

    def most_pressing_first(self) -> Self:
        """What people can see now, then stuck, failed and the others; of each the one that was heard of longest ago."""
        tier = Case(When(_seen_by_people(), then=0), When(state=RunState.STUCK, then=1), When(state=RunState.FAILED, then=2), default=3)
        return self.order_by(tier, "last_heard_at")

    def with_last_entry(self) -> Self:
        """Adds `last_at`, the time of the newest log entry."""
        from runs.models.log import LogEntry

        newest = LogEntry.objects.filter(run=OuterRef("pk")).order_by("-seq").values("at")[:1]
        return self.annotate(last_at=Subquery(newest))

    def matching(self, text: str) -> Self:
        """Free text over title, number, agent, owner, ticket, capability and key."""
        words = Q(title__icontains=text) | Q(agent__icontains=text) | Q(ticket__icontains=text)
        owner = Q(owner__first_name__icontains=text) | Q(owner__last_name__icontains=text) | Q(owner__username__icontains=text)
        number = Q(pk=int(text)) if text.isascii() and text.isdigit() and len(text) < 18 else Q()
        key = Q(_has_step(key__startswith=text)) if KEY.fullmatch(text) else Q()
        # Asked beforehand, since hardly any text is part of a capability's name, and every step has one.
        names = list(CapabilityRecord.objects.filter(name__icontains=text).values_list("name", flat=True))
        called = Q(_has_step(capability__in=names)) if names else Q()
        return self.filter(words | owner | number | key | called)


class Run(Leased):
    """One saga. Its number is its primary key; its row is the lock of everything below it.

    The lease is the one that a compensation's walk holds.
    """

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="runs")
    title = models.CharField(max_length=200)
    ticket = models.CharField(max_length=80, default="", blank=True)
    agent = models.CharField(max_length=80)
    token = models.ForeignKey(Token, on_delete=models.PROTECT, null=True, related_name="runs")
    opened_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="owned_runs")
    state = models.CharField(max_length=16, choices=RunState, default=RunState.OPEN)
    is_drill = models.BooleanField(default=False)
    has_plan = models.BooleanField(default=True)
    retry_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="retries")

    # The rules, as the token's policy and the request made them; they never loosen.
    off_plan = models.CharField(max_length=8, choices=OffPlan, default=OffPlan.REFUSE)
    on_failure = models.CharField(max_length=12, choices=OnFailure, default=OnFailure.ASK)
    overlap = models.CharField(max_length=8, choices=Overlap, default=Overlap.REFUSE)
    patience = models.PositiveIntegerField(default=300)
    check_grace = models.PositiveIntegerField(default=0)

    # Makes the keys of this run's calls its own, over all runs and installations.
    nonce = models.UUIDField(default=uuid.uuid4, editable=False)
    # Raised by `resume`; calls of an older session are refused.
    session = models.PositiveIntegerField(default=1)
    # By the database's clock, as silence is: a web server that is ahead or behind makes no agent silent.
    opened_at = models.DateTimeField(db_default=Clock())
    last_heard_at = models.DateTimeField(db_default=Clock())
    checking_since = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    failed_why = models.TextField(default="", blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # Why it is stuck or left standing, in a sentence.
    stopped_why = models.TextField(default="", blank=True)
    # When the first irreversible call went out.
    pivot_at = models.DateTimeField(null=True, blank=True)

    taken_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    taken_at = models.DateTimeField(null=True, blank=True)

    # The compensation that was asked for.
    compensating_since = models.DateTimeField(null=True, blank=True)
    undo_to = models.CharField(max_length=80, default="", blank=True)
    override_pivot = models.BooleanField(default=False)
    pause_asked = models.BooleanField(default=False)
    # Step numbers whose drift a person chose to undo over.
    undo_over = models.JSONField(default=list, blank=True)

    objects = RunQuerySet.as_manager()
    # The event of the entry that this object appended last.
    last_event = ""

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("take_run", "Can say: I'm on it"),
            ("compensate_run", "Can undo a failed run"),
            ("override_pivot", "Can undo past a call that went out"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_is_known"),
            models.CheckConstraint(
                condition=~Q(state__in=["failed", "compensating", "compensated"])
                | Q(failed_at__isnull=False)
                | Q(compensating_since__isnull=False),
                name="run_failed_has_time",
            ),
            models.CheckConstraint(condition=Q(patience__gt=0), name="run_patience_is_positive"),
        ]
        indexes = [
            models.Index(fields=["state"], name="run_unfinished", condition=~Q(state__in=["succeeded", "compensated", "left_standing"]))
        ]

    @property
    def now(self) -> dt.datetime:
        """The database's clock when `locked_run` took the lock; only there is it known."""
        found: dt.datetime = self.__dict__["clock"]
        return found

    def __str__(self) -> str:
        return f"run {self.pk}, {self.title}"

    def get_absolute_url(self) -> str:
        return f"/runs/{self.pk}/"

    @property
    def number(self) -> int:
        return int(self.pk)

    @property
    def is_going_forward(self) -> bool:
        return self.state in GOING_FORWARD

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def move(self, to: RunState, *fields: str) -> None:
        """Changes the state, by the table of allowed moves, and saves `fields` with it."""
        if to not in RUN_MOVES[self.state]:
            raise AssertionError(f"A run does not go from {self.state} to {to}.")
        self.state = to
        if to in ENDED:
            self.ended_at = self.now
            fields = (*fields, "ended_at")
            self.claims.filter(live=True).update(live=False)
        quick.save(self, "state", *fields)

    def append(
        self,
        event: str,
        *,
        step: Step | None = None,
        actor: str = "engine",
        attempt: int | None = None,
        saves: tuple[str, ...] = (),
        **data: Any,
    ) -> None:
        """Adds an entry to the log, in the caller's transaction, which holds the run's lock; the database allots its `seq`.

        `saves` names fields of the step that the same statement writes. What is not the engine's doing says from where it came.
        """
        if actor != "engine" and (where := whence.get()):
            data["from"] = where
        document = json.dumps(storable(data))
        if len(document) > BESIDE_THE_LOG:
            document = json.dumps({**_beside(document), **({"from": data["from"]} if "from" in data else {})})
        self.last_event = event
        values = [self.pk, step.pk if step else None, event, actor[:200], attempt, document]
        if step and saves:
            quick.save(step, *saves, then=(_ENTRY, values))
        else:
            quick.rows(f"{_ENTRY} RETURNING seq", values)

    def next_seq(self) -> RawSQL:
        """The `seq` that the next entry will get, as an expression; certain while the run's lock is held."""
        return RawSQL("(SELECT coalesce(max(seq), 0) + 1 FROM runs_logentry WHERE run_id = %s)", [self.pk])

    def required_checks_green(self) -> bool:
        """Whether the success condition holds. No check at all never holds by itself."""
        states = list(self.checks.values_list("state", flat=True))
        return bool(states) and all(state == CheckState.SUCCESS for state in states)


def _beside(document: str) -> dict[str, Any]:
    """Stores the document under its digest and returns what the log holds instead."""
    from runs.models.log import StoredPayload

    digest = hashlib.sha256(document.encode()).hexdigest()
    StoredPayload.objects.bulk_create([StoredPayload(digest=digest, body=json.loads(document), bytes=len(document))], ignore_conflicts=True)
    return {"$beside": digest, "bytes": len(document)}


class Check(models.Model):
    """A named part of the run's success condition."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checks")
    name = models.CharField(max_length=80)
    state = models.CharField(max_length=8, choices=CheckState, default=CheckState.PENDING)
    subject = models.CharField(max_length=200, default="", blank=True)
    url = models.CharField(max_length=500, default="", blank=True)
    reported_by = models.CharField(max_length=200, default="", blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="check_once_per_run"),
            models.CheckConstraint(condition=Q(state__in=CheckState.values), name="check_state_is_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Claim(models.Model):
    """A resource that an unfinished run has touched; two runs never hold one at a time."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="claims")
    resource = models.CharField(max_length=300)
    live = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["resource"], condition=Q(live=True), name="claim_one_live_per_resource"),
        ]


class PageQuerySet(models.QuerySet["Page"]):
    def undelivered(self) -> Self:
        return self.filter(delivered_at=None)

    def due(self) -> Self:
        """To be tried now: its time has come, and nobody holds it."""
        return self.undelivered().filter(lease_is_free(), due_at__lte=Clock())

    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(run__in=Run.objects.visible_to(user))


class Page(Leased):
    """A call for a person, or into a service where people are: kept until it was delivered, once per reader and reason."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="pages")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    # One of SAGABOARD_PAGE_SERVICES, by name; its address holds a credential and stays in the settings.
    service = models.CharField(max_length=80, default="", db_default="", blank=True)
    subject = models.CharField(max_length=200)
    body = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(db_default=Clock())
    delivered_at = models.DateTimeField(null=True, blank=True)
    # What the mail server or the service is known to have taken, or why it needed nothing.
    receipt = models.CharField(max_length=200, default="", db_default="", blank=True)
    error = models.TextField(default="", blank=True)

    objects = PageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(person=None, service__gt="") | Q(person__isnull=False, service=""), name="page_one_reader")
        ]
        indexes = [models.Index(fields=["due_at"], name="page_undelivered", condition=Q(delivered_at=None))]

    def __str__(self) -> str:
        return self.subject

    @property
    def reader(self) -> str:
        return self.service or str(self.person)
