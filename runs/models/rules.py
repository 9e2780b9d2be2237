"""The rules a run gets from its token, keys of requests that were answered, and the state of the installation."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q

from runs.states import OffPlan, OnFailure, Overlap
from sagaboard.accounts.models import Token


class Rules(models.Model):
    """What a token's runs must obey. Set by an admin; a request may only tighten it."""

    name = models.CharField(max_length=80, unique=True)
    owners = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="+", help_text="Who may be named as owner; empty means the team's members."
    )
    # Names of checks that must be green before anything goes out.
    required_checks = models.JSONField(default=list, blank=True)
    plan_required = models.BooleanField(default=False)
    off_plan = models.CharField(max_length=8, choices=OffPlan, default=OffPlan.REFUSE)
    on_failure = models.CharField(max_length=12, choices=OnFailure, default=OnFailure.ASK)
    overlap = models.CharField(max_length=8, choices=Overlap, default=Overlap.REFUSE)
    patience = models.PositiveIntegerField(default=300, help_text="Seconds of silence after which a run is failed.")
    check_grace = models.PositiveIntegerField(default=0, help_text="Seconds a red check may turn green again.")
    calls_per_minute = models.PositiveIntegerField(default=600)
    open_steps = models.PositiveIntegerField(default=50)
    steps_per_run = models.PositiveIntegerField(default=1000)
    waiting_items = models.PositiveIntegerField(default=50)

    class Meta:
        verbose_name_plural = "rules"

    def __str__(self) -> str:
        return self.name


class TokenRules(models.Model):
    """Which rules a token brings."""

    token = models.OneToOneField(Token, on_delete=models.CASCADE, primary_key=True, related_name="rules")
    rules = models.ForeignKey(Rules, on_delete=models.PROTECT, related_name="tokens")

    class Meta:
        verbose_name_plural = "token rules"


class IdempotencyKey(models.Model):
    """A caller's `Idempotency-Key` and what it stood for; committed with its effect, so it is never "in progress"."""

    token = models.ForeignKey(Token, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    # SHA-256 of method, address and canonical content.
    fingerprint = models.CharField(max_length=64)
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="+")
    step = models.ForeignKey("runs.Step", on_delete=models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key"], name="idempotency_key_once")]


class System(models.Model):
    """The one row about this installation: whether it is frozen, and by which database's history it knows itself."""

    frozen_at = models.DateTimeField(null=True, blank=True)
    frozen_by = models.CharField(max_length=200, default="", blank=True)
    frozen_why = models.TextField(default="", blank=True)
    thawed_at = models.DateTimeField(null=True, blank=True)
    thawed_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    # Its own name, by which it finds the anchors of its log; a restored copy has the same.
    installation = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), editable=False)
    # PostgreSQL's system identifier and timeline; a difference means that a backup was restored.
    identifier = models.CharField(max_length=64, default="", blank=True)
    timeline = models.IntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="system_one_row")]


class TargetPause(models.Model):
    """A target said: not before then (429, maintenance). No call to it begins earlier, from whichever run."""

    target = models.CharField(max_length=80, primary_key=True)
    until = models.DateTimeField()
    why = models.TextField(default="", blank=True)

    def __str__(self) -> str:
        return self.target


class Alert(models.Model):
    """Something an operator must know of this installation. It stands above every page until an admin deletes it."""

    name = models.CharField(max_length=120, unique=True)
    says = models.TextField()
    first_at = models.DateTimeField(auto_now_add=True)
    last_at = models.DateTimeField(auto_now=True)
    times = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return self.name
