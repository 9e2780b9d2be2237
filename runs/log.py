"""Checks that nobody changed a run's log: every hash is computed again, outside the database that wrote it.

The chain is the one of Haber and Stornetta ("How to time-stamp a digital document", 1991): each entry's hash covers the
hash before it. What it can't show by itself is a cut tail; for that its head leaves the database.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from django.db import connection

if TYPE_CHECKING:
    from runs.models import Run

ENTRIES = """
SELECT seq, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at, event, step_id, attempt, actor, data::text, hash
FROM runs_logentry WHERE run_id = %s AND seq > %s ORDER BY seq
"""


@dataclasses.dataclass(frozen=True)
class Line:
    """An entry as the database wrote it; `data` is the very text the hash covers."""

    seq: int
    at: str
    event: str
    step_id: int | None
    attempt: int | None
    actor: str
    data: str
    hash: str

    def expected(self, run_id: int, before: str) -> str:
        parts = [before, run_id, self.seq, self.at, self.event, self.step_id or "", self.attempt if self.attempt is not None else ""]
        source = "\n".join([*map(str, parts), json.dumps(self.actor, ensure_ascii=False), self.data])
        return hashlib.sha256(source.encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Chain:
    """What the check of one run's log found. `head` is the last hash, "" for an empty log; `first_bad` a `seq`."""

    entries: int
    head: str
    first_bad: int | None = None

    @property
    def whole(self) -> bool:
        return self.first_bad is None


def verify(run: Run) -> Chain:
    """The run's chain, up to the first entry that doesn't fit."""
    before, count = "", 0
    for line in lines(run):
        count += 1
        if line.seq != count or line.hash != line.expected(run.pk, before):
            return Chain(count, line.hash, first_bad=line.seq)
        before = line.hash
    return Chain(count, before)


def lines(run: Run, after: int = 0) -> Iterator[Line]:
    """The run's entries with a `seq` above `after`, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(ENTRIES, [run.pk, after])
        for row in cursor:
            yield Line(*row)


def export(run: Run, after: int = 0) -> Iterator[str]:
    """The entries as JSON lines. `data` stands in each as the text that its hash covers, so that it can be checked elsewhere."""
    numbers = dict(run.steps.values_list("pk", "number"))
    for line in lines(run, after):
        facts: dict[str, Any] = {
            "run": run.pk,
            "seq": line.seq,
            "at": line.at,
            "event": line.event,
            "step": numbers.get(line.step_id) if line.step_id else None,
            "step_id": line.step_id,
            "attempt": line.attempt,
            "actor": line.actor,
            "hash": line.hash,
        }
        yield f'{json.dumps(facts, ensure_ascii=False)[:-1]}, "data": {line.data}}}\n'
