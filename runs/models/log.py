"""The append-only record of a run. A trigger allots `seq`, `at` and `hash`, so no writer can forget or forge them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from django.db import models
from django.db.models import Exists, Q, Subquery

from runs.models.run import Run
from runs.models.step import Step

# One closed list: pages translate these names, nobody renames them.
_EVENTS = {
    "run": "opened resumed checking released failed compensating compensated succeeded stuck left_standing paused taken paged",
    "check": "reported",
    "step": "requested on_hold queued started prepared done sent failed unknown probed late_effect settled closed",
    "item": "decided refused edited expired",
    "undo": "started verified skipped failed drifted",
    "correction": "drafted edited sent failed dismissed",
    "capability": "drilled",
    "payload": "erased",
}
EVENTS = [f"{what}.{event}" for what, events in _EVENTS.items() for event in events.split()]


class LogQuerySet(models.QuerySet["LogEntry"]):
    def newest_first(self) -> Self:
        return self.order_by("-seq")

    def by_people(self) -> Self:
        """What persons and tokens did, not the engine."""
        return self.filter(Q(actor__startswith="person:") | Q(actor__startswith="token:"))

    def narrowed(self, *, who: str = "", run: str = "", kind: str = "", before: str = "") -> Self:
        """As an auditor asks: a name, a run's number, the first word of the event, entries older than one."""
        found = self.filter(actor__icontains=who) if who else self
        if run.isascii() and run.isdigit() and len(run) < 18:
            found = found.filter(run=int(run))
        if before.isascii() and before.isdigit() and len(before) < 18:
            found = found.filter(pk__lt=int(before))
        return found.filter(event__startswith=f"{kind}.") if kind else found

    def about(self, what: str) -> Self:
        """Of a capability, by its name, or on a digest, by its beginning."""
        capability = Q(step__capability=what)
        return self.filter(capability | Q(data__digest__startswith=what.replace(" ", "").lower()) if len(what) >= 8 else capability)

    def newest_id(self) -> int:
        """Grows with every entry of any run."""
        return self.order_by("-pk").values_list("pk", flat=True).first() or 0

    def moving_head(self) -> str:
        """The hash of the last entry that changed something; being looked at, taken or refused changes nothing. "" if none."""
        moving = self.exclude(event__in=["item.refused", "run.taken", "run.paged", "payload.erased"])
        return moving.order_by("-seq").values_list("hash", flat=True).first() or ""

    def newest_of(self, run: int, count: int, *, events: Sequence[str], since: int) -> list[LogEntry]:
        """The run's newest entries and all of these `events`, newest first; none at all while there is none after `since`."""
        own = LogEntry.objects.filter(run=run)
        from_here = Subquery(own.newest_first().values("seq")[:1]) - count
        found = self.filter(Q(seq__gt=from_here) | Q(event__in=events), Exists(own.after(since)), run=run)
        return list(found.newest_first().select_related("step"))

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
