"""A step: one call of a capability in a run, planned or asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.db import models
from django.db.models import BooleanField, Case, Q, Value, When

from runs.models.leased import Leased, lease_is_free
from runs.models.run import Run
from runs.states import IN_EFFECT, PENDING, STEP_MOVES, TO_UNDO, Audience, Kind, StepState
from runs.storable import restored
from sagaboard import quick

if TYPE_CHECKING:
    from runs.models.log import LogQuerySet


class StepQuerySet(models.QuerySet["Step"]):
    def in_effect(self) -> Self:
        return self.filter(state__in=IN_EFFECT)

    def seen_by_people(self) -> Self:
        return self.exclude(audience=Audience.MACHINES)

    def to_undo(self) -> Self:
        return self.filter(state__in=TO_UNDO)

    def in_undo_order(self) -> Self:
        """The exact reverse of the order in which they were meant."""
        return self.order_by("-intent_seq", "-number")

    def gone_out(self) -> Self:
        """Calls past which no undo goes by itself: sent, perhaps sent, or left standing because they were."""
        standing = Q(state=StepState.LEFT_STANDING, intent_seq__isnull=False)
        open_or_sent = Q(state__in=[StepState.SENT, StepState.RUNNING, StepState.UNKNOWN])
        return self.filter(open_or_sent | standing, kind=Kind.IRREVERSIBLE, leaves_effect=True)

    def pending(self) -> Self:
        return self.filter(state__in=PENDING)

    def as_planned(self) -> Self:
        return self.order_by("number")

    def with_lease_state(self) -> Self:
        """Adds `lease_free`: whether nobody holds the step, by the database's clock."""
        return self.annotate(lease_free=Case(When(lease_is_free(), then=Value(True)), default=Value(False), output_field=BooleanField()))


class Step(Leased):
    """One call of a capability in a run. The lease is the one an attempt at `do` or at its undo holds."""

    # Found by the index of (run, number). Each index more is one more to write at every step.
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="steps", db_index=False)
    number = models.PositiveIntegerField()
    # The name the plan gave it; a twin is reached only by its ref.
    ref = models.CharField(max_length=80, null=True, blank=True)
    capability = models.CharField(max_length=80)
    planned = models.BooleanField(default=False)
    needs_result = models.BooleanField(default=False)
    state = models.CharField(max_length=16, choices=StepState, default=StepState.PLANNED)
    closed_why = models.CharField(max_length=12, default="", blank=True)

    # Pinned at the intent: later changes of the registry never alter a step that ran.
    kind = models.CharField(max_length=16, choices=Kind)
    audience = models.CharField(max_length=16, choices=Audience)
    read_by = models.CharField(max_length=120, default="", blank=True)
    version = models.CharField(max_length=16, default="", blank=True)
    leaves_effect = models.BooleanField(default=True)
    planned_kind = models.CharField(max_length=16, default="", blank=True)

    args = models.JSONField(default=dict)
    why = models.TextField(default="", blank=True)
    # The person behind the token that asked, which may be a narrower one than the run's.
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    # What the agent meant by the call; asked again, it finds this row instead of a second one.
    key = models.CharField(max_length=64, null=True, blank=True)
    # What targets are given as the key of this call. Unlike `key` it differs between runs: two runs of one plan mean two
    # effects, and a target that honours keys must not take the second for a repeat of the first.
    call_key = models.CharField(max_length=64, default="", blank=True)
    args_digest = models.CharField(max_length=64, default="", blank=True)
    # The resources it claimed at its intent, whatever the capability's code says later.
    touches = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    identity_digest = models.CharField(max_length=64, default="", blank=True)
    prepared = models.JSONField(null=True, blank=True)
    effect = models.JSONField(null=True, blank=True)
    error = models.TextField(default="", blank=True)
    # How often `do` was really begun; looks and undos have attempt numbers too.
    tries = models.PositiveIntegerField(default=0)
    undo_tries = models.PositiveIntegerField(default=0)
    # The place in the order of undo: the `seq` of step.requested, or, for what waited, of its first step.started.
    intent_seq = models.IntegerField(null=True, blank=True)
    # When a worker should look again.
    due_at = models.DateTimeField(null=True, blank=True)

    requested_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    # From when to when the effect stood: `do` known to have worked, `verify_undone` said gone.
    done_at = models.DateTimeField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    undo_started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    undo_error = models.TextField(default="", blank=True)
    # When what was left only to find the effect by was taken away.
    tidied_at = models.DateTimeField(null=True, blank=True)
    # When the owner was told that its undo works for a little while only.
    window_paged_at = models.DateTimeField(null=True, blank=True)
    # Settled or left standing: by whom and why, and what the machine saw when it looked.
    settled_by = models.CharField(max_length=200, default="", blank=True)
    settled_why = models.TextField(default="", blank=True)
    settled_as = models.CharField(max_length=20, default="", blank=True)
    seen_at_settling = models.TextField(default="", blank=True)

    objects = StepQuerySet.as_manager()

    class Meta:
        ordering = ["number"]
        permissions = [("settle_step", "Can state by hand how a step ended")]
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="step_one_per_intent"),
            models.UniqueConstraint(fields=["run", "number"], name="step_one_per_number"),
            models.UniqueConstraint(fields=["run", "ref"], name="step_one_per_ref"),
            models.CheckConstraint(condition=Q(state__in=StepState.values), name="step_state_is_known"),
            models.CheckConstraint(
                condition=Q(state__in=["planned", "skipped", "on_hold"]) | Q(key__isnull=False), name="step_asked_for_has_key"
            ),
            # An irreversible call never runs because an agent asked: it waits in the outbox, and is sent.
            models.CheckConstraint(
                condition=~Q(kind="irreversible", leaves_effect=True, state__in=["requested", "done"]), name="step_irreversible_waits"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["done", "sent"]) | Q(effect__isnull=False, done_at__isnull=False), name="step_done_has_effect"
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["running", "undoing"]) | Q(lease_until__isnull=False), name="step_running_has_lease"
            ),
            models.CheckConstraint(
                condition=Q(state="closed", closed_why__in=["withdrawn", "rejected", "expired", "dropped"])
                | (~Q(state="closed") & Q(closed_why="")),
                name="step_closed_says_why",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["settled", "left_standing"]) | (~Q(settled_by="") & ~Q(settled_why="")),
                name="step_settled_by_name",
            ),
            models.CheckConstraint(
                condition=Q(intent_seq__isnull=False) | ~Q(state__in=["running", "done", "sent", "unknown", "undoing", "undone"]),
                name="step_intent_before_call",
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.number}, {self.capability}"

    def log(self) -> LogQuerySet:
        """Its entries, by way of its run's, which an index finds."""
        return self.run.entries.filter(step=self)

    @property
    def in_effect(self) -> bool:
        return self.state in IN_EFFECT

    @property
    def is_irreversible(self) -> bool:
        return self.kind == Kind.IRREVERSIBLE and self.leaves_effect

    @property
    def is_gate(self) -> bool:
        return self.needs_result and self.is_irreversible

    @property
    def is_unsent(self) -> bool:
        """It was to go out, and did not, as far as the machine knows."""
        return self.is_irreversible and self.state == StepState.FAILED and self.intent_seq is not None

    @property
    def seen_by_people(self) -> bool:
        return self.leaves_effect and self.audience != Audience.MACHINES

    def move(self, to: StepState, *fields: str) -> None:
        """Changes the state, by the table of allowed moves, and saves `fields` with it."""
        quick.save(self, *self.moved(to, *fields))

    def moved(self, to: StepState, *fields: str) -> tuple[str, ...]:
        """Changes the state, by the table of allowed moves; returns the fields that the entry about it is to save."""
        if to not in STEP_MOVES[self.state]:
            raise AssertionError(f"A step does not go from {self.state} to {to}.")
        self.state = to
        return ("state", *fields)

    def what_undo_needs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """`prepared` and `effect` as the target gave them."""
        return restored(self.prepared or {}), restored(self.effect or {})
