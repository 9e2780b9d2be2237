"""A lease: one holder at a time, judged by the database's clock, fenced by an attempt number that only grows.

The fencing token is Kleppmann's ("How to do distributed locking", 2016).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now


class Leased(models.Model):
    """What one worker at a time may be busy with."""

    attempt = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=120, default="", db_default="", blank=True)

    class Meta:
        abstract = True

    def take_lease(self, seconds: float, worker: str) -> tuple[str, ...]:
        """Gives the lease to `worker` under the next attempt number; returns the fields to save."""
        self.attempt += 1
        self.lease_until = _from_now(seconds)
        self.worker = worker
        return ("attempt", "lease_until", "worker")

    def renew_lease(self, seconds: float) -> tuple[str, ...]:
        """More time under the same attempt number."""
        self.lease_until = _from_now(seconds)
        return ("lease_until",)

    def drop_lease(self) -> tuple[str, ...]:
        self.lease_until = None
        return ("lease_until",)


def lease_is_free() -> Q:
    return Q(lease_until=None) | Q(lease_until__lte=Now())


def _from_now(seconds: float) -> Any:
    return RawSQL("(clock_timestamp() + %s)", [dt.timedelta(seconds=seconds)])
