"""The registry as people see and govern it. The code fills in what a tool is; people say how far it may go."""

from __future__ import annotations

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from runs.states import Audience, Kind


class CapabilityQuerySet(models.QuerySet["CapabilityRecord"]):
    def present(self) -> Self:
        return self.filter(missing_since=None)

    def usable(self) -> Self:
        return self.present().filter(disabled_at=None)

    def without_undo(self) -> Self:
        return self.present().filter(leaves_effect=True, has_undo=False).exclude(kind=Kind.IRREVERSIBLE)

    def unproven(self) -> Self:
        unproven = Q(proven_version="") | ~Q(proven_version=F("version"))
        return self.present().filter(unproven, leaves_effect=True, has_undo=True).exclude(kind=Kind.IRREVERSIBLE)


class CapabilityRecord(models.Model):
    """One tool in the registry. Fields under "from the code" are overwritten by a sync, the others survive it."""

    name = models.CharField(max_length=80, unique=True)

    # From the code.
    description = models.TextField(default="")
    kind = models.CharField(max_length=16, choices=Kind)
    audience = models.CharField(max_length=16, choices=Audience)
    version = models.CharField(max_length=16)
    schema = models.JSONField(default=dict)
    lives_in = models.CharField(max_length=120, default="")
    read_by = models.CharField(max_length=120, default="")
    undo_cost = models.CharField(max_length=200, default="")
    undone_when = models.CharField(max_length=200, default="")
    has_undo = models.BooleanField(default=False)
    leaves_effect = models.BooleanField(default=True)
    # Set while no code defines this name; runs that need it say so.
    missing_since = models.DateTimeField(null=True, blank=True)

    # From people.
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    stricter_kind = models.CharField(max_length=16, choices=Kind, default="", blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_by = models.CharField(max_length=200, default="", blank=True)
    disabled_why = models.TextField(default="", blank=True)

    # From drills and real undos.
    proven_version = models.CharField(max_length=16, default="", blank=True)
    proven_at = models.DateTimeField(null=True, blank=True)
    proven_how = models.CharField(max_length=200, default="", blank=True)

    objects = CapabilityQuerySet.as_manager()

    class Meta:
        verbose_name = "capability"
        verbose_name_plural = "capabilities"
        permissions = [
            ("decide_capability", "Can approve and reject calls of this capability"),
            ("drill_capability", "Can drill this capability"),
        ]
        constraints = [models.CheckConstraint(condition=Q(kind__in=Kind.values), name="capability_kind_is_known")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_proven(self) -> bool:
        """Whether a drill or a real undo proved this very version."""
        return bool(self.version) and self.proven_version == self.version


class OutsideTool(models.Model):
    """A tool an agent reaches past sagaboard: listed beside the others, its undo blank until someone writes it."""

    name = models.CharField(max_length=120, unique=True)
    reached_by = models.CharField(max_length=120, help_text="Which agent, and how: shell, MCP server, …")
    lives_in = models.CharField(max_length=120, blank=True)
    read_by = models.CharField(max_length=120, blank=True)
    undo = models.TextField(blank=True)
    added_by = models.CharField(max_length=200, blank=True)
    added_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
