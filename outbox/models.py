"""What waits to go out, who may let it, and what they decided."""

from __future__ import annotations

import datetime as dt
from typing import Self

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group
from django.db import models
from django.db.models import Case, Exists, OuterRef, Prefetch, Q, Subquery, Value, When
from django.utils import timezone
from guardian.shortcuts import get_objects_for_user

from outbox.states import ItemState, NoticeKind, Verdict
from runs.capability import Payload
from runs.clock import Clock
from runs.models import CapabilityRecord, Step, shown_to
from runs.states import GOING_FORWARD, Audience, RunState, StepState
from sagaboard.accounts.models import User
from sagaboard.accounts.rights import granted, teams_with
from sagaboard.templatetags.words import name_of

# Bytes of a payload that are shown at once.
WHOLE = 64 * 1024
DECIDE = "runs.decide_capability"
# A worker has it, or had it: what became of it is for the engine to find out.
MAY_BE_GOING_OUT = (StepState.RUNNING, StepState.UNKNOWN)


class Policy(models.Model):
    """Who must approve what. The most specific row counts: capability and audience, capability, audience, neither."""

    capability = models.CharField(max_length=80, blank=True, help_text="Empty: every capability.")
    audience = models.CharField(max_length=16, choices=Audience, blank=True, help_text="Empty: every audience.")
    needs_yes = models.BooleanField(default=True, help_text="What clients see needs a yes whatever stands here.")
    quorum = models.PositiveIntegerField(default=1, help_text="How many different people must say yes.")
    four_eyes = models.BooleanField(default=True)
    open_for = models.PositiveIntegerField(default=4 * 3600, help_text="Seconds until an unanswered item expires.")
    bulk = models.BooleanField(default=True)
    # Names of arguments; "*" stands for all of them.
    editable = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    # Domains of recipients that raise no warning; none listed: no recipient does.
    domains = models.JSONField(default=list, db_default=Value([], models.JSONField()), blank=True)
    groups = models.ManyToManyField(Group, blank=True, related_name="+")
    people = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="+")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(fields=["capability", "audience"], name="policy_one_per_kind"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="policy_quorum_is_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.capability or 'every capability'}, {self.audience or 'every audience'}"

    def get_absolute_url(self) -> str:
        return f"/policies/{self.pk}/"

    @property
    def waits_for(self) -> dt.timedelta:
        return dt.timedelta(seconds=self.open_for)

    def lets_edit(self, name: str) -> bool:
        """Whether a reviewer may change this argument."""
        return name in self.editable or "*" in self.editable


class PolicyVersion(models.Model):
    """What a policy said, for the decisions that were made under it. It goes only with a policy that no item ever had."""

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    rules = models.JSONField()
    made_by = models.CharField(max_length=200)
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="policy_version_once")]


class ItemQuerySet(models.QuerySet["Item"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Items of runs this person can see, of capabilities this person may decide, and those whose policy names them."""
        if not user.is_authenticated:
            return self.none()
        decidable = get_objects_for_user(user, DECIDE, CapabilityRecord, accept_global_perms=False)
        naming = Policy.objects.filter(Q(people=user) | Q(groups__in=user.groups.all()))
        theirs = shown_to(user, "step__run__") | Q(step__run__team__in=granted(user, "decide_for_team"))
        return self.filter(theirs | Q(step__capability__in=decidable.values("name")) | Q(policy__in=naming.values("pk")))

    def open(self) -> Self:
        return self.filter(closed_at=None)

    def awaiting(self) -> Self:
        return self.filter(state=ItemState.AWAITING)

    def decidable(self) -> Self:
        """In front of people, and in time by the database's clock."""
        return self.awaiting().filter(expires_at__gt=Clock())

    def waiting_for(self, user: User) -> Self:
        """Those that wait for this very person: as `policies.Approver` judges one, but all at once, so that counts are true."""
        return self.decidable().filter(_right_of(user))._of_other_eyes(user).exclude(_yes_of(user))

    def _of_other_eyes(self, user: User) -> Self:
        # The few that they edited, and no later version of which there is; asked once and not of each item.
        later = Version.objects.filter(item=OuterRef("item"), number__gt=OuterRef("number"))
        edited = Q(pk__in=Version.objects.filter(~Exists(later), edited_by=user).values("item"))
        run = "step__run__"
        asked = Q(**{f"{run}owner": user}) | Q(**{f"{run}token__person": user}) | Q(step__asked_by=user) | Q(**{f"{run}opened_by": user})
        apply = Q(policy=None) | Q(policy__four_eyes=True) | Q(wanted_four_eyes=True)
        same = Case(When(apply & (asked | edited), then=Value(True)), default=Value(False), output_field=models.BooleanField())
        return self.alias(same_eyes=same).filter(same_eyes=False)

    def matching(self, text: str) -> Self:
        """Free text over title, capability, run, agent, ticket, recipient; a run's number; the beginning of a digest."""
        titled = Version.objects.filter(item=OuterRef("pk"), digest=OuterRef("digest")).filter(
            Q(title__icontains=text) | Q(to__recipient__icontains=text)
        )
        run = Q(step__run__title__icontains=text) | Q(step__run__agent__icontains=text) | Q(step__run__ticket__icontains=text)
        number = Q(step__run=int(text)) if text.isascii() and text.isdigit() and len(text) < 18 else Q()
        digest = Q(digest__startswith=text.lower().replace(" ", "")) if len(text) >= 8 else Q()
        return self.filter(Q(step__capability__icontains=text) | run | number | digest | Q(Exists(titled)))

    def approved(self) -> Self:
        return self.filter(state=ItemState.APPROVED)

    def decided(self) -> Self:
        return self.filter(closed_at__isnull=False)

    def of_ended_runs(self) -> Self:
        """Still open, although their run goes nowhere any more."""
        return self.open().exclude(step__run__state__in=[*GOING_FORWARD, RunState.STUCK]).exclude(step__state__in=MAY_BE_GOING_OUT)

    def with_everything(self) -> Self:
        """With all that a page shows of them."""
        return self.select_related("policy", "step__run__team", "step__run__owner", "step__run__token").prefetch_related(
            "versions", "decisions"
        )

    def for_queue(self, user: User) -> Self:
        """With what a line of the queue says of them to this person."""
        related = self.select_related("policy", "step__run__team", "step__run__owner", "step__run__token")
        light = Version.objects.only("item", "number", "title", "edited_by")
        return related._judged_for(user).prefetch_related(Prefetch("versions", light), "decisions")

    def for_card(self, user: User) -> Self:
        """With what their cards say to this person: also the checks, the steps and the other items of their runs."""
        steps = Step.objects.as_planned().select_related("item").defer("args", "prepared", "effect")
        titles = Version.objects.filter(item__step=OuterRef("pk")).order_by("-number").values("title")[:1]
        around = ("step__run__checks", Prefetch("step__run__steps", steps.annotate(item_title=Subquery(titles))))
        disabled = CapabilityRecord.objects.filter(name=OuterRef("step__capability")).exclude(disabled_at=None).values("disabled_why")
        served = Served.objects.filter(version__item=OuterRef("pk"), version__digest=OuterRef("digest"), person=user)
        judged = self.with_everything()._judged_for(user).prefetch_related(*around)
        return judged.annotate(disabled_because=Subquery(disabled[:1]), was_served=Exists(served))

    def _judged_for(self, user: User) -> Self:
        """Adds `has_right`: whether this person has the right to decide it, whoever asked for it."""
        right = _right_of(user) or Q(pk__isnull=False)
        return self.annotate(has_right=Case(When(right, then=Value(True)), default=Value(False), output_field=models.BooleanField()))

    def with_last_decision(self) -> Self:
        """Adds who decided last, `decided_by`, and the reason they gave, `said`; None where no decision stands."""
        last = Decision.objects.filter(item=OuterRef("pk"), voided_at=None).order_by("-at", "-id")
        return self.annotate(decided_by=Subquery(last.values("by_name")[:1]), said=Subquery(last.values("reason")[:1]))

    def expired(self) -> Self:
        """Nobody answered in time, noted or not yet."""
        return self.filter(Q(state=ItemState.EXPIRED) | Q(state=ItemState.AWAITING, expires_at__lte=Clock()))

    def in_queue_order(self) -> Self:
        """The oldest first."""
        return self.order_by("awaiting_since", "queued_at", "pk")

    def in_order(self) -> Self:
        return self.order_by("step__number")


def _right_of(user: User) -> Q:
    """Items that this person has the right to decide, whoever asked for them."""
    if not user.is_active:
        return Q(pk__in=[])
    if user.is_superuser:
        return Q()
    naming = Policy.objects.filter(Q(people__isnull=False) | Q(groups__isnull=False)).values("pk")
    mine = Policy.objects.filter(Q(people=user) | Q(groups__in=user.groups.all())).values("pk")
    capabilities = get_objects_for_user(user, DECIDE, CapabilityRecord, accept_global_perms=False)
    theirs = Q(step__capability__in=capabilities.values("name")) | Q(step__run__team__in=teams_with(user, DECIDE))
    unnamed = Q(policy=None) | ~Q(policy__in=naming)
    return Q(policy__in=mine) | (unnamed & theirs)


def _yes_of(user: User) -> Exists:
    yeses = Decision.objects.filter(item=OuterRef("pk"), digest=OuterRef("digest"), by=user, verdict=Verdict.APPROVE, voided_at=None)
    return Exists(yeses)


class Item(models.Model):
    """One irreversible call waiting, and what became of it."""

    step = models.OneToOneField(Step, on_delete=models.PROTECT, related_name="item")
    state = models.CharField(max_length=12, choices=ItemState, default=ItemState.HELD)
    is_gate = models.BooleanField(default=False)
    # What is decided on: the newest version.
    digest = models.CharField(max_length=64)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, null=True, related_name="+")
    # What the policy wanted when the call was queued: one that changed since may want more of it, never less.
    wanted_yes = models.BooleanField(default=False, db_default=False)
    wanted_quorum = models.PositiveIntegerField(default=1, db_default=1)
    wanted_four_eyes = models.BooleanField(default=False, db_default=False)
    queued_at = models.DateTimeField()
    awaiting_since = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    # The `awaiting_since` for which it is written down who is to be told.
    told_for = models.DateTimeField(null=True, blank=True)

    objects = ItemQuerySet.as_manager()
    # The newest version's title, where that was read without the version.
    read_title: str | None = None

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ItemState.values), name="item_state_is_known"),
            models.CheckConstraint(condition=~Q(state="awaiting") | Q(expires_at__isnull=False), name="item_awaiting_expires"),
        ]
        indexes = [
            models.Index(
                fields=["state", "awaiting_since"], name="item_waiting", condition=Q(state__in=["held", "awaiting", "approved", "expired"])
            )
        ]

    def __str__(self) -> str:
        title = self.current.title if self.read_title is None else self.read_title
        return title or f"{self.step.capability}, run {self.step.run_id}"

    def get_absolute_url(self) -> str:
        return f"/outbox/{self.pk}/"

    @property
    def current(self) -> Version:
        return next(iter(sorted(self.versions.all(), key=lambda version: -version.number)))

    @property
    def is_awaiting(self) -> bool:
        return self.state == ItemState.AWAITING

    @property
    def has_lapsed(self) -> bool:
        """Its time is over, also where nothing has noted it yet. Pages only: decisions go by the database's clock."""
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def quorum(self) -> int:
        return max(self.policy.quorum if self.policy else 1, self.wanted_quorum)

    @property
    def four_eyes(self) -> bool:
        return self.policy is None or self.policy.four_eyes or self.wanted_four_eyes

    @property
    def let_go_by(self) -> str:
        """Who closed its step, as the log has it."""
        closed = self.step.log().filter(event="step.closed").newest_first().values_list("actor", flat=True).first()
        return name_of(closed or "engine")

    def put_under(self, policy: Policy) -> None:
        """What counts for it from now; the caller saves it. An unsaved policy is the one built in."""
        self.policy = policy if policy.pk else None
        self.wanted_yes, self.wanted_quorum, self.wanted_four_eyes = policy.needs_yes, policy.quorum, policy.four_eyes

    def standing(self) -> list[Decision]:
        """The decisions that count for what is decided on now."""
        return [one for one in self.decisions.all() if one.voided_at is None and one.digest == self.digest]


class Version(models.Model):
    """One rendering of an item's payload. An edit adds a new one; the old stays readable."""

    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=300)
    to = models.JSONField()
    body = models.BinaryField()
    content_type = models.CharField(max_length=100)
    as_read = models.TextField(blank=True)
    was = models.JSONField(default=dict)
    # What it was rendered from; None in rows of before that was kept.
    args = models.JSONField(null=True)
    capability_version = models.CharField(max_length=16)
    digest = models.CharField(max_length=64)
    # An actor as the log names it: the token that asked, the person who edited, the engine.
    made_by = models.CharField(max_length=200)
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    made_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "number"], name="version_one_per_number")]

    @property
    def is_long(self) -> bool:
        """Too long to be shown whole unasked, so that nobody says yes to what they did not open."""
        return len(self.body) > WHOLE

    def payload(self) -> Payload:
        return Payload(self.to, bytes(self.body), self.content_type, self.title, self.as_read, self.was)


class Served(models.Model):
    """A long payload was shown whole to this person, who may say yes to it from then on."""

    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="served")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "person"], name="served_once_per_person")]


class Decision(models.Model):
    """A person's yes or no to exactly one digest."""

    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="decisions")
    # Names stay readable after the account is gone.
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    by_name = models.CharField(max_length=200)
    role = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=8, choices=Verdict)
    digest = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    fate = models.CharField(max_length=12, blank=True)
    policy_version = models.CharField(max_length=40, blank=True)
    at = models.DateTimeField()
    # When it stopped counting: the item lapsed or changed, and is decided anew.
    voided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["item", "by", "digest"], condition=Q(voided_at=None), name="decision_one_per_person"),
            models.UniqueConstraint(fields=["item"], condition=Q(verdict="reject", voided_at=None), name="decision_one_rejection"),
            models.CheckConstraint(condition=~Q(verdict="reject") | ~Q(reason=""), name="decision_rejection_has_reason"),
        ]


class Notice(models.Model):
    """A person or a webhook is to be told once that an item waits; kept until it was delivered or is not so any more."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="notices")
    # The item's `awaiting_since`: asked again, it is told again.
    round = models.DateTimeField()
    kind = models.CharField(max_length=8, choices=NoticeKind)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    # The name of a configured one; "" where a person is told.
    webhook = models.CharField(max_length=80, blank=True)
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "round", "kind", "person"], condition=Q(webhook=""), name="notice_once_per_person"),
            models.UniqueConstraint(fields=["item", "round", "kind", "webhook"], condition=~Q(webhook=""), name="notice_once_per_webhook"),
            models.CheckConstraint(condition=Q(person=None) ^ Q(webhook=""), name="notice_has_one_receiver"),
        ]
        indexes = [models.Index(fields=["due_at"], name="notice_undelivered", condition=Q(delivered_at=None))]
