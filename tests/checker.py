"""What must hold whatever happened, read off the log, the tables and the target's ledger; every test that runs the engine ends with it.

`check` raises one AssertionError with all that does not hold. A test that forges state on purpose says so by `forged`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from django.conf import settings
from django.db import connection, transaction

from corrections.models import Correction
from corrections.states import MOVES as CORRECTION_MOVES
from outbox.models import Item
from outbox.states import UNDECIDED, ItemState
from runs import log, registry
from runs.engine.sweep import silent
from runs.models import Check, LogEntry, Run, Step
from runs.states import IN_EFFECT, RUN_MOVES, STEP_MOVES, TO_UNDO, CheckState, RunState, StepState
from tests.ledgers import Call, Ledger

R, S = RunState, StepState
# The runs that this test forges: number -> why.
FORGED: dict[int, str] = {}
# Which entry stands for a change into a state.
STEP_ENTRIES: dict[str, tuple[str, ...]] = {
    S.PLANNED: ("run.opened",),
    S.SKIPPED: ("step.closed",),
    S.REQUESTED: ("step.requested", "step.failed", "step.probed"),
    S.ON_HOLD: ("step.on_hold",),
    S.QUEUED: ("step.queued", "step.failed", "step.probed"),
    S.RUNNING: ("step.started",),
    S.DONE: ("step.done", "step.late_effect", "step.settled"),
    S.SENT: ("step.sent", "step.late_effect", "step.settled"),
    S.NOTHING_TO_UNDO: ("step.done",),
    S.FAILED: ("step.failed", "step.settled"),
    S.UNKNOWN: ("step.unknown",),
    S.CLOSED: ("step.closed",),
    S.UNDOING: ("undo.started",),
    S.UNDONE: ("undo.verified", "undo.skipped"),
    S.UNDO_FAILED: ("undo.failed", "run.compensating"),
    S.DRIFTED: ("undo.drifted",),
    S.SETTLED: ("step.settled",),
    S.LEFT_STANDING: ("step.settled",),
}
RUN_ENTRIES: dict[str, tuple[str, ...]] = {
    R.OPEN: ("run.opened", "step.requested"),
    R.RELEASING: ("run.released",),
    **{state: (f"run.{state}",) for state in R if state not in (R.OPEN, R.RELEASING)},
}
# An effect that came late, or that a person kept and now wants undone, is written past the table.
PAST_THE_TABLE = ("step.late_effect",)
# Of a run as a whole: one such entry stands for the changes of several steps.
OF_THE_RUN = ("run.opened", "run.compensating")


@dataclasses.dataclass(frozen=True)
class Move:
    """A change of state, or an entry (`what` is "entry"), as the witness saw it."""

    what: str
    row: int
    run: int
    step: int | None
    was: str | None
    now: str
    tx: int


@dataclasses.dataclass
class Record:
    """All that is known of some runs at one moment."""

    runs: dict[int, Run]
    steps: dict[int, Step]
    entries: list[LogEntry]
    moves: list[Move]
    items: list[Item]
    corrections: list[Correction]
    checks: list[Check]
    calls: list[Call]
    watches: frozenset[str]
    now: dt.datetime

    @cached_property
    def of_run(self) -> dict[int, list[LogEntry]]:
        found: dict[int, list[LogEntry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.run_id].append(entry)
        return found

    @cached_property
    def of_step(self) -> dict[int, list[LogEntry]]:
        found: dict[int, list[LogEntry]] = defaultdict(list)
        for entry in self.entries:
            if entry.step_id:
                found[entry.step_id].append(entry)
        return found

    @cached_property
    def step_of_key(self) -> dict[str, Step]:
        """By every key a call of a step ever had: asked for again with other arguments, it has another."""
        started = (entry for entry in self.entries if entry.event == "step.started")
        return {entry.data["call_key"]: self.steps[entry.step_id] for entry in started if "call_key" in entry.data}

    @cached_property
    def correction_of_key(self) -> dict[str, Correction]:
        return {correction.key: correction for correction in self.corrections}

    @cached_property
    def effects(self) -> dict[str, list[Call]]:
        """The calls that changed something, by their key."""
        found: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            if call.effect and call.verb in ("do", "undo"):
                found[call.key].append(call)
        return found

    def is_quiet(self, run: Run) -> bool:
        """Nobody is at it, and nobody will be before something else happens."""
        steps = [step for step in self.steps.values() if step.run_id == run.pk]
        moving = any(step.state in (S.RUNNING, S.UNDOING) or step.lease_until for step in steps)
        return run.state != R.COMPENSATING and not run.lease_until and not moving


def forged(run: Run, why: str) -> None:
    """This run's rows are a test's own invention, for the reason given; the checker leaves it alone, until the next test."""
    assert why
    FORGED[run.pk] = why


def check(ledger: Ledger | None = None, *, runs: list[int] | None = None, since: int = 0, overdue_after: float | None = None) -> None:
    """Everything below, of all runs there are, of `runs`, or of those with a number above `since`.

    `overdue_after`: with a sweep at work, how many seconds past its bound something may be.
    """
    record = load(ledger, runs, since)
    if record is None:
        return
    found = [problem for law in LAWS for problem in law(record)]
    found += _overdue(record, overdue_after) if overdue_after is not None else []
    assert not found, "\n".join(["The checker:", *found])


def load(ledger: Ledger | None, runs: list[int] | None = None, since: int = 0) -> Record | None:
    """One moment of the tables, and a ledger that did not change around it."""
    calls = ledger.read() if ledger else []
    while True:
        with _one_moment():
            record = _read(calls, ledger, runs, since)
        again = ledger.read() if ledger else []
        if record is None or again == calls:
            return record
        calls = again


@contextmanager
def _one_moment() -> Iterator[None]:
    # Within a test's own transaction there is one moment anyway.
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _read(calls: list[Call], ledger: Ledger | None, only: list[int] | None, since: int) -> Record | None:
    there = Run.objects.filter(pk__gt=since) if only is None else Run.objects.filter(pk__in=only)
    found = {run.pk: run for run in there if run.pk not in FORGED}
    if not found and not any(call.effect and call.key for call in calls):
        return None
    with connection.cursor() as cursor:
        cursor.execute('SELECT what, row, run, step, was, "is", tx FROM witness.moves WHERE run = ANY(%s) ORDER BY n', [list(found)])
        moves = [Move(*row) for row in cursor.fetchall()]
        cursor.execute("SELECT clock_timestamp()")
        now = cursor.fetchone()[0]
    steps = {step.pk: step for step in Step.objects.filter(run__in=found)}
    hidden = set(Step.objects.filter(run__in=list(FORGED)).values_list("call_key", flat=True))
    if only is not None:
        mine = set(LogEntry.objects.filter(run__in=found, event="step.started").values_list("data__call_key", flat=True))
        mine |= set(Correction.objects.filter(run__in=found).values_list("key", flat=True))
        calls = [call for call in calls if call.key in mine]
    return Record(
        runs=found,
        steps=steps,
        entries=list(LogEntry.objects.filter(run__in=found).order_by("run_id", "seq")),
        moves=moves,
        items=list(Item.objects.filter(step__run__in=found).select_related("step").order_by("step__number")),
        corrections=list(Correction.objects.filter(run__in=found)),
        checks=list(Check.objects.filter(run__in=found)),
        calls=[call for call in calls if call.key not in hidden or not call.key],
        watches=ledger.watches if ledger else frozenset(),
        now=now,
    )


def intent_first(record: Record) -> Iterator[str]:
    """Each call of the ledger has its own earlier intent: the n-th call with a key an n-th `step.started`, and so with undos."""
    began = {"do": "step.started", "undo": "undo.started"}
    seen: Counter[tuple[str, str]] = Counter()
    for call in record.calls:
        if call.in_transaction:
            yield f"{call.verb} {call.on}: called inside a transaction"
        if not call.key or call.verb == "theirs":
            continue
        if call.key in record.correction_of_key:
            yield from _correction_first(record, call, record.correction_of_key[call.key])
        elif call.verb in began:
            seen[call.verb, call.key] += 1
            step = record.step_of_key.get(call.key)
            earlier = [entry for entry in record.of_step.get(step.pk, []) if entry.at.timestamp() <= call.started] if step else []
            intents = [entry for entry in earlier if entry.event == began[call.verb] and entry.data.get("call_key", call.key) == call.key]
            if len(intents) < seen[call.verb, call.key]:
                count = seen[call.verb, call.key]
                yield f"{call.verb} {call.on}: call {count} with the key {call.key[:8]} has no intent of its own before it"
        elif call.effect and call.verb == "other" and _is_a_key(record, call.key) is False:
            yield f"{call.verb} {call.on}: an effect with the key {call.key[:8]}, which nobody meant"


def _is_a_key(record: Record, key: str) -> bool | None:
    """None where the mark that a system keeps is only a part of a key, or none of ours."""
    return key in record.step_of_key or key in record.correction_of_key if len(key) == 64 else None


def _correction_first(record: Record, call: Call, correction: Correction) -> Iterator[str]:
    meant = _sendings(record, correction)
    if call.verb in ("do", "correct") and not any(entry.at.timestamp() <= call.started for entry in meant):
        yield f"{call.verb} {call.on}: correction {correction.pk} was posted before anybody sent it"


def _sendings(record: Record, correction: Correction) -> list[LogEntry]:
    """The entries of people who sent it."""
    edited = [entry for entry in record.of_run[correction.run_id] if entry.event == "correction.edited"]
    return [entry for entry in edited if entry.data.get("correction") == correction.pk and entry.data.get("sending")]


def one_effect(record: Record) -> Iterator[str]:
    """At no time two live effects of one intent; of a correction one post."""
    for key, calls in record.effects.items():
        step, live = record.step_of_key.get(key), False
        for call in calls:
            repeats = step is not None and _honours_key(step)
            if call.verb == "do" and live and not repeats:
                yield f"{call.on}: two live effects with the key {key[:8]}"
            live = call.verb == "do"
    posts = Counter(call.key for call in record.calls if call.verb == "correct")
    for key, count in posts.items():
        correction = record.correction_of_key.get(key)
        # Where nothing can look a person may send it again, and then answers for it.
        if count > max(1, len(_sendings(record, correction)) if correction else 0):
            yield f"correction {key[:8]} was posted {count} times"


def _honours_key(step: Step) -> bool:
    capability = registry.find(step.capability)
    return capability is not None and capability.honours_key and step.is_irreversible


def one_to_one(record: Record) -> Iterator[str]:
    """Where a run has settled, what is done has its effect, and nothing else has."""
    for key, step in record.step_of_key.items():
        if step.capability not in record.watches or not record.is_quiet(record.runs[step.run_id]):
            continue
        calls = record.effects.get(key, [])
        live = bool(calls) and calls[-1].verb == "do"
        wanted = _wanted(record, step) if key == step.call_key else False
        if wanted is not None and wanted is not live:
            yield f"{step} of run {step.run_id} is {step.state}, and its effect is {'there' if live else 'not there'}"


def _wanted(record: Record, step: Step) -> bool | None:
    """Whether its effect must be live; None if both are right."""
    if step.state in (S.DONE, S.SENT):
        return True if step.settled_by == "" else None
    if step.state == S.UNDONE:
        last = [entry.event for entry in record.of_step[step.pk] if entry.event in ("undo.verified", "undo.skipped")][-1:]
        return False if last == ["undo.verified"] else None
    # Asked again with the same key, because nothing could look: it may be there already.
    repeats = step.state in (S.REQUESTED, S.QUEUED) and step.tries
    if repeats or step.state in (S.UNKNOWN, S.UNDO_FAILED, S.DRIFTED, S.SETTLED, S.LEFT_STANDING) or step.settled_by:
        return None
    return False


def intent_seqs(record: Record) -> Iterator[str]:
    """The place in the order of undo is the one that the log gives."""
    for step in record.steps.values():
        place = _places(record.of_step[step.pk])[1]
        if step.intent_seq is not None and step.intent_seq != place:
            yield f"{step} of run {step.run_id} has its intent at {step.intent_seq}, by the log at {place}"


def _places(entries: list[LogEntry]) -> tuple[dict[int, int | None], int | None]:
    """The place of a step's intent after each of its entries, and at the end: the asking, or for what waited its first start."""
    after: dict[int, int | None] = {}
    place: int | None = None
    for entry in entries:
        if entry.event == "step.requested":
            place = entry.seq
        elif entry.event == "step.on_hold" or (entry.event == "step.queued" and not entry.data.get("again")):
            place = None
        elif entry.event == "step.started" and place is None:
            place = entry.seq
        after[entry.seq] = place
    return after, place


def reverse(record: Record) -> Iterator[str]:
    """Undos go in the exact reverse of the intents, one at a time, each verified, and stop where one fails."""
    for run, entries in record.of_run.items():
        yield from (f"run {run}: {problem}" for problem in _Walk(record, entries).problems())
    undos = [call for call in record.calls if call.verb == "undo" and call.key in record.step_of_key]
    for before, after in zip(undos, undos[1:], strict=False):
        first, second = record.step_of_key[before.key], record.step_of_key[after.key]
        if first.run_id == second.run_id and first.pk != second.pk and before.ended > after.started:
            yield f"run {first.run_id}: the undos of steps {first.number} and {second.number} overlapped at the target"


class _Walk:
    """The ways back of one run, played again from its entries."""

    def __init__(self, record: Record, entries: list[LogEntry]) -> None:
        self.record, self.entries = record, entries
        self.places: dict[int, int | None] = {}
        self.standing: set[int] = set()
        self.sent: set[int] = set()
        # What a person left standing, and may want undone later.
        self.left: set[int] = set()
        self.undoing: int | None = None
        # Also one whose end was lost, that a person then paused, and that the next walk found done.
        self.begun: set[int] = set()
        self.stopped = ""
        self.override = False
        self.undo_to = 0

    def problems(self) -> Iterator[str]:
        after = {step: _places(self.record.of_step[step])[0] for step in {entry.step_id for entry in self.entries if entry.step_id}}
        for entry in self.entries:
            if entry.step_id:
                self.places[entry.step_id] = after[entry.step_id][entry.seq]
            yield from self._one(entry)

    def _one(self, entry: LogEntry) -> Iterator[str]:
        step = entry.step_id
        if entry.event == "run.compensating":
            if self.stopped and not entry.actor.startswith(("person:", "token:")):
                yield f"{self.stopped}, and {entry.actor} went on"
            self.stopped, self.undoing, self.override = "", None, bool(entry.data.get("override"))
            self.undo_to = self._place_of(entry.data.get("to") or "")
        elif entry.event in ("step.done", "step.sent", "step.late_effect") or (
            entry.event == "step.settled" and entry.data.get("how") == "happened"
        ):
            self._stands(step)
        elif entry.event == "undo.started":
            yield from self._undo(step)
        elif entry.event in ("undo.verified", "undo.skipped"):
            yield from self._undone(entry)
        elif entry.event in ("undo.failed", "undo.drifted") and not entry.data.get("again"):
            self.stopped, self.undoing = f"{self._named(step)} could not be undone", None
        elif entry.event == "step.settled":
            if step in self.standing and entry.data.get("how") == "left_standing":
                self.left.add(step)
            self.standing.discard(step)
            self.undoing = None if self.undoing == step else self.undoing

    def _stands(self, step: int) -> None:
        row = self.record.steps[step]
        if row.leaves_effect:
            (self.sent if row.is_irreversible else self.standing).add(step)

    def _undo(self, step: int) -> Iterator[str]:
        mine = self.places[step] or 0
        if self.stopped:
            yield f"{self.stopped}, and {self._named(step)} was undone after it"
        if self.undoing not in (None, step):
            yield f"the undo of {self._named(step)} began before that of {self._named(self.undoing)} had ended"
        later = [other for other in self.standing - {step} if (self.places[other] or 0) > mine]
        yield from (f"{self._named(step)} was undone before {self._named(other)}, which came after it" for other in later)
        if not self.override and any((self.places[other] or 0) > mine for other in self.sent - {step}):
            yield f"the undo of {self._named(step)} crossed the pivot"
        if mine <= self.undo_to:
            yield f"{self._named(step)} was undone, past the savepoint"
        self.undoing = step
        self.begun.add(step)

    def _undone(self, entry: LogEntry) -> Iterator[str]:
        step = entry.step_id
        if entry.event == "undo.verified" and step not in self.begun:
            yield f"{self._named(step)} is said to be undone, and no undo of it had begun"
        if step not in self.standing | self.sent | self.left:
            yield f"{self._named(step)} was undone more often than it was done"
        if entry.data.get("evidence") != "verify_undone: gone":
            yield f"{self._named(step)} is said to be undone without evidence"
        self.standing.discard(step)
        self.sent.discard(step)
        self.left.discard(step)
        self.begun.discard(step)
        self.undoing = None if self.undoing == step else self.undoing

    def _place_of(self, ref: str) -> int:
        found = next((step for step in self.places if ref and self.record.steps[step].ref == ref), None)
        return (self.places[found] or 0) if found else 0

    def _named(self, step: int | None) -> str:
        return str(self.record.steps[step]) if step else "nothing"


def untouched(record: Record) -> Iterator[str]:
    """What somebody else put there or changed is not taken away, unless a person chose so for that very step."""
    for call in record.calls:
        step = record.step_of_key.get(call.key)
        if not call.trampled or step is None:
            continue
        entries = record.of_run[step.run_id]
        chosen = {number for entry in entries if entry.event == "run.compensating" for number in entry.data.get("undo_over", [])}
        if step.number not in chosen:
            yield f"the {call.verb} of {step} of run {step.run_id} took away what somebody else had put there"


def allowed_moves(record: Record) -> Iterator[str]:
    """No state was left for one that the tables don't allow."""
    late = {(move.tx, move.step) for move in record.moves if move.now in PAST_THE_TABLE}
    tables = {"run": RUN_MOVES, "step": STEP_MOVES, "correction": CORRECTION_MOVES}
    for move in record.moves:
        table = tables.get(move.what)
        if table is None or move.was is None or move.now in table.get(move.was, ()):
            continue
        if move.what != "step" or (move.tx, move.step) not in late:
            yield f"run {move.run}: {move.what} {move.row} went from {move.was} to {move.now}"


def logged(record: Record) -> Iterator[str]:
    """Every change of a state has its entry in the same transaction; one entry stands for one change."""
    written: dict[tuple[int, int | None], list[str]] = defaultdict(list)
    whole: dict[tuple[int, int], set[str]] = defaultdict(set)
    for move in record.moves:
        if move.what == "entry":
            written[move.tx, move.step if move.now.startswith(("step.", "undo.")) else None].append(move.now)
            whole[move.tx, move.run].add(move.now)
    for move in record.moves:
        if move.what == "entry":
            continue
        of_run = whole[move.tx, move.run]
        if move.what in ("item", "correction"):
            fits = bool(of_run)
        elif move.what == "run":
            fits = bool(of_run.intersection(RUN_ENTRIES[move.now]))
        else:
            fits = _take(written[move.tx, move.step], STEP_ENTRIES[move.now]) or bool(
                of_run.intersection(OF_THE_RUN).intersection(STEP_ENTRIES[move.now])
            )
        if not fits:
            yield f"run {move.run}: {move.what} {move.row} went from {move.was} to {move.now} without its entry"


def _take(written: list[str], fitting: tuple[str, ...]) -> bool:
    found = next((event for event in written if event in fitting), None)
    if found is not None:
        written.remove(found)
    return found is not None


def chained(record: Record) -> Iterator[str]:
    """Each log is whole."""
    for run in record.runs.values():
        chain = log.verify(run)
        if not chain.whole:
            yield f"run {run.pk}: its log is broken at entry {chain.first_bad}"


def no_dead_end(record: Record) -> Iterator[str]:
    """What has not ended has a worker, a clock or a person who is next."""
    for step in record.steps.values():
        run = record.runs[step.run_id]
        if step.state in (S.RUNNING, S.UNDOING) and step.lease_until is None:
            yield f"{step} of run {run.pk} is {step.state}, and nobody holds it"
        if step.state == S.UNKNOWN and not step.lease_until and not step.due_at and not _called(record, run, step):
            yield f"{step} of run {run.pk} is unknown, nobody looks, and no person was called"
        if step.state in (S.UNDO_FAILED, S.DRIFTED) and run.state == R.COMPENSATED:
            yield f"{step} of run {run.pk} is {step.state}, and the run says compensated"
        # In a run that is stuck while sending, what waits goes on waiting for the person.
        over = not run.is_going_forward and (run.state, step.state) != (R.STUCK, S.QUEUED)
        if step.state in (S.REQUESTED, S.QUEUED, S.ON_HOLD) and over:
            yield f"{step} of run {run.pk} is {step.state}, and the run is {run.state}"
    for run in record.runs.values():
        yield from (f"run {run.pk}: {problem}" for problem in _dead_end(record, run))


def _called(record: Record, run: Run, step: Step) -> bool:
    """Whether people were told after it became unknown."""
    since = max((entry.seq for entry in record.of_step[step.pk] if entry.event == "step.unknown"), default=0)
    return any(entry.event == "run.paged" and entry.seq > since for entry in record.of_run[run.pk])


def _dead_end(record: Record, run: Run) -> Iterator[str]:
    steps = [step for step in record.steps.values() if step.run_id == run.pk]
    entries = record.of_run[run.pk]
    last = {entry.event: entry.seq for entry in entries}
    left = [step for step in steps if step.state in IN_EFFECT]
    if run.state == R.STUCK and last.get("run.paged", 0) < last.get("run.stuck", 0):
        yield "it is stuck, and no person was called"
    if run.state == R.COMPENSATED and any(step.state in TO_UNDO for step in steps):
        yield "it says compensated, and there is something left to undo"
    at_a_savepoint = any(entry.data.get("savepoint") for entry in [one for one in entries if one.event == "run.failed"][-1:])
    if run.state == R.FAILED and left and not at_a_savepoint and last.get("run.paged", 0) < last.get("run.failed", 0):
        yield "it failed with effects out there, and no person was called"
    if run.state == R.RELEASING:
        yield from _sending(record, run, steps)


def _sending(record: Record, run: Run, steps: list[Step]) -> Iterator[str]:
    """A release in which nobody is next: all is decided, no check holds it up, and the first call is on nobody's list."""
    items = [item for item in record.items if item.step.run_id == run.pk]
    green = all(check.state == CheckState.SUCCESS for check in record.checks if check.run_id == run.pk)
    waiting = [item for item in items if item.state == ItemState.APPROVED and item.step.state == S.QUEUED]
    if any(step.state in (S.RUNNING, S.UNKNOWN) for step in steps) or any(item.state in UNDECIDED for item in items) or not green:
        return
    if not waiting:
        yield "it is releasing, and there is nothing to send"
    elif waiting[0].step.due_at is None:
        yield f"it is releasing, and nobody sends {waiting[0].step}"


def _overdue(record: Record, seconds: float) -> Iterator[str]:
    """Past its bound by more than `seconds`, although a sweep is at work."""
    limit = record.now - dt.timedelta(seconds=seconds)
    for step in record.steps.values():
        run = record.runs[step.run_id]
        if step.lease_until and step.lease_until < limit:
            yield f"{step} of run {run.pk} is {step.state}, and its lease ended at {step.lease_until}"
        asked = step.due_at or (step.requested_at if step.state == S.REQUESTED else None)
        if step.state in (S.REQUESTED, S.UNKNOWN) and asked and asked < limit and not step.lease_until:
            yield f"{step} of run {run.pk} is {step.state} and was due at {asked}"
    silent_for = set(silent().filter(last_heard_at__lt=limit - dt.timedelta(seconds=1)).values_list("pk", flat=True))
    for run in record.runs.values():
        last = record.of_run[run.pk][-1].at
        if run.state == R.COMPENSATING and last < limit and (run.lease_until is None or run.lease_until < limit):
            yield f"run {run.pk} is compensating, and nobody walks"
        if run.state == R.OPEN and run.pk in silent_for and run.last_heard_at + dt.timedelta(seconds=run.patience) < limit:
            yield f"run {run.pk} is open, and its agent has been silent"
        if run.state == R.CHECKING and run.checking_since + dt.timedelta(seconds=settings.CHECKING_DEADLINE) < limit:
            yield f"run {run.pk} waits for its checks past the deadline"
    for item in record.items:
        if item.state == ItemState.AWAITING and item.expires_at and item.expires_at < limit:
            yield f"{item} waits for a yes past its end"
    for correction in record.corrections:
        bound = correction.lease_until or correction.due_at
        if correction.state == "sending" and bound and bound < limit:
            yield f"correction {correction.pk} is being sent, and nobody sends it"


LAWS = (intent_first, one_effect, one_to_one, intent_seqs, reverse, untouched, allowed_moves, logged, chained, no_dead_end)
