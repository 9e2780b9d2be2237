"""People, their teams, and the tokens agents use."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from typing import Self

from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone


class User(AbstractUser):
    """A person who can sign in."""

    class Theme(models.TextChoices):
        SYSTEM = "", "as the system"
        LIGHT = "light", "light"
        DARK = "dark", "dark"

    class Mail(models.TextChoices):
        AT_ONCE = "at_once", "at once"
        DIGEST = "digest", "one mail a day"
        NONE = "none", "not at all"

    time_zone = models.CharField(max_length=64, default="UTC")
    theme = models.CharField(max_length=8, choices=Theme, default=Theme.SYSTEM, blank=True)
    shortcuts = models.BooleanField(default=True)
    # How a reviewer hears of what waits for them; the hours are of the person's own time zone.
    mail = models.CharField(max_length=8, choices=Mail, default=Mail.AT_ONCE, db_default=Mail.AT_ONCE)
    digest_hour = models.PositiveSmallIntegerField(default=9, db_default=9)
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)

    class Meta(AbstractUser.Meta):
        constraints = [models.CheckConstraint(condition=Q(digest_hour__lte=23), name="user_digest_hour_is_one")]

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    @property
    def initials(self) -> str:
        return "".join(word[0] for word in str(self).split()[:2]).upper()


class Team(models.Model):
    """The people who answer for a set of runs, and whom an agent's token belongs to."""

    name = models.CharField(max_length=80, unique=True)
    members = models.ManyToManyField(User, related_name="teams", blank=True)

    class Meta:
        # What somebody may do for this team without belonging to it; see accounts/rights.py.
        permissions = [
            ("view_team_runs", "Can see the team's runs"),
            ("take_for_team", "Can take over and stop the team's runs"),
            ("compensate_for_team", "Can undo the team's runs"),
            ("override_for_team", "Can undo the team's runs past a call that went out"),
            ("settle_for_team", "Can settle steps of the team's runs"),
            ("decide_for_team", "Can decide what the team's runs would send"),
            ("correct_for_team", "Can send corrections of the team's runs"),
        ]

    def __str__(self) -> str:
        return self.name


class ShippedRight(models.Model):
    """A right that a role came with. It is given once: what an admin takes from a role, no later migration gives back."""

    role = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="shipped")
    right = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["role", "right"], name="shipped_right_once")]

    def __str__(self) -> str:
        return f"{self.role}: {self.right}"


class Scope(models.TextChoices):
    AGENT = "agent", "agent"
    CHECKER = "checker", "checker"
    AUDITOR = "auditor", "auditor"
    ON_CALL = "on_call", "on-call"


class TokenQuerySet(models.QuerySet["Token"]):
    def usable(self) -> Self:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None, person__is_active=True)


class Token(models.Model):
    """What an agent, a checker, an auditor or on-call's own script shows at the door; only its hash is kept."""

    name = models.CharField(max_length=80, unique=True)
    scope = models.CharField(max_length=16, choices=Scope)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="tokens")
    # Who answers for what this token does.
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True)
    # The names of the checks that a checker may report; empty means any that a run requires.
    checks = models.JSONField(default=list, blank=True)
    # A narrower token for workers under a lead agent: only this run.
    run_number = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects = TokenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(scope__in=Scope.values), name="token_scope_is_known"),
            models.CheckConstraint(condition=Q(digest__regex=r"^[0-9a-f]{64}$"), name="token_is_hashed"),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def issue(cls, *, name: str, scope: str, team: Team, person: User, days: float | None = 90, **rest: object) -> tuple[Token, str]:
        """A new token and its text, which is shown this once; `days=None` never expires."""
        text = f"sgb_{scope}_{secrets.token_urlsafe(32)}"
        ends = None if days is None else timezone.now() + dt.timedelta(days=days)
        token = cls.objects.create(name=name, scope=scope, team=team, person=person, digest=cls.digest_of(text), expires_at=ends, **rest)
        return token, text

    @staticmethod
    def digest_of(text: str) -> str:
        # The text has 256 random bits, so a plain hash can't be searched for; a slow one would cost every call.
        return hashlib.sha256(text.encode()).hexdigest()
