"""The append-only record of a run. A trigger allots `seq`, `at` and `hash`, so no writer can forget or forge them."""

from __future__ import annotations

from typing import Self

from django.db import models

from runs.models.run import Run
from runs.models.step import Step

EVENTS = """
run.opened run.resumed run.checking run.released run.failed run.compensating run.compensated run.succeeded run.stuck
run.left_standing run.paused run.taken run.paged check.reported step.requested step.on_hold step.queued step.started
step.prepared step.done step.sent step.failed step.unknown step.probed step.late_effect step.settled step.closed
item.decided item.refused item.edited item.expired undo.started undo.verified undo.skipped undo.failed undo.drifted
correction.drafted correction.edited correction.sent correction.failed correction.dismissed capability.drilled
""".split()


class LogQuerySet(models.QuerySet["LogEntry"]):
    def newest_first(self) -> Self:
        return self.order_by("-seq")

    def after(self, seq: int) -> Self:
        return self.filter(seq__gt=seq).order_by("seq")


class LogEntry(models.Model):
    """One line of a run's log."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="entries", db_index=False)
    seq = models.IntegerField()
    at = models.DateTimeField()
    event = models.CharField(max_length=40)
    step = models.ForeignKey(Step, on_delete=models.PROTECT, null=True, related_name="entries", db_index=False)
    attempt = models.IntegerField(null=True)
    # Who, in words that stay readable after the account is gone: "person:Priya Nair", "token:feature-runner", "engine".
    actor = models.CharField(max_length=200)
    data = models.JSONField()
    # SHA-256 over the entry and the hash of the one before it, in hex.
    hash = models.CharField(max_length=64)

    objects = LogQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="entry_one_per_seq"),
            models.CheckConstraint(condition=models.Q(event__in=EVENTS), name="entry_event_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.seq} {self.event}"


class StoredPayload(models.Model):
    """A large document that lies beside the log, which holds its digest; erasing it leaves the chain whole."""

    digest = models.CharField(max_length=64, primary_key=True)
    body = models.JSONField(null=True)
    bytes = models.IntegerField()
