"""A store as it is after years, made of rows: many runs, a long log, a full outbox, one run of very many steps.

Every row is a copy of one that the models themselves made, with other numbers, times and states, so that a new column needs
no word here. The log's trigger would take an hour for a million entries; the same formula links all entries of one `seq` at a
time, and `runs.log.verify` finds no difference.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.utils import timezone

from corrections.models import Correction
from outbox.models import Decision, Item, Version
from runs.models import Run, Step
from tests.factories import make_team, make_token, make_user, prove

# Far from what sequences hand out, so that rows made later by the models never meet these.
FIRST = 1_000_000
STEPS, CALLS = 8, 5
BLANK_HASH = "0" * 64


@dataclass(frozen=True)
class Size:
    runs: int
    # Log entries of each run.
    entries: int
    # Items that wait for a yes, five a run.
    waiting: int
    # Steps of the one long run.
    long: int


@dataclass(frozen=True)
class Filled:
    """Where things are: the long run, a run that waits for a yes, one of its items, a correction, a person who may see them."""

    long: int
    waiting: int
    failed: int
    stuck: int
    done: int
    item: int
    correction: int
    person: Any
    team: Any


def fill(cursor: Any, size: Size, *, roles: tuple[str, ...] = ("reviewer", "on-call", "owner")) -> Filled:
    """Everything, by a few statements, as the owner of the tables, who is behind the run-time role of this cursor."""
    team = make_team("store")
    person = make_user("store-reader", roles=roles, team=team, first_name="Rita", last_name="Reader")
    token = make_token(team=team, person=make_user(team=team))
    prove("show_thing")
    now = timezone.now()
    owner = make_user(team=team, first_name="Ana", last_name="Ruiz")
    run = Run.objects.create(team=team, title="Add a billing field", agent="runner", token=token, owner=owner)
    shown = [_step(run, number, "put_thing", "reversible", "machines") for number in (1, 2)]
    shown.append(_step(run, 3, "show_thing", "compensatable", "people", read_by="humans (the team)"))
    told = _step(run, 4, "tell_client", "irreversible", "clients", read_by="the client")
    item = Item.objects.create(step=told, queued_at=now, digest="d" * 64)
    to = {"target": "client", "url": "https://client.example/notices", "recipient": "client"}
    version = Version.objects.create(
        item=item, title="Tell the client", to=to, body=b'{"say":"ready"}', content_type="application/json", digest="d" * 64,
        capability_version=told.version, made_by="token:runner", made_at=now,
    )  # fmt: skip
    said = Decision.objects.create(item=item, by=person, by_name=str(person), verdict="approve", digest="d" * 64, at=now)
    note = Correction.objects.create(
        run=run, place_key="board", place_kind="note", place_label="the board", audience="team", recipient="Meera Joshi",
        seen="panel on the board", what_to_do="Nothing.", questions_to=owner, key="k", drafted_at=now,
        signals=[{"step": 3, "signal": "panel on the board", "from": now.isoformat(), "to": now.isoformat(), "reverted_to": "", "how": ""}],
    )  # fmt: skip
    store = _Store(cursor, size, now)
    cursor.execute("SET ROLE NONE; SET session_replication_role = replica")
    store.runs(run)
    store.steps([*shown, told])
    store.items(item, version, said)
    store.corrections(note)
    store.log()
    store.long_run(run, shown[0], shown[2], told)
    # Without figures of its own the planner takes every table for an empty one. Ours alone: tables that all databases share
    # would stay locked for the others until this transaction ends.
    tables = ", ".join(connection.introspection.django_table_names())
    cursor.execute(f"SET session_replication_role = origin; ANALYZE {tables}; RESET ROLE")
    first = FIRST + size.waiting // CALLS
    return Filled(
        long=FIRST + size.runs, waiting=FIRST, failed=first, stuck=first + store.failed, done=FIRST + size.runs - 1,
        item=FIRST * STEPS + 3, correction=Correction.objects.filter(state="draft").latest("pk").pk, person=person, team=team,
    )  # fmt: skip


def _step(run: Run, number: int, capability: str, kind: str, audience: str, **fields: Any) -> Step:
    return Step.objects.create(
        run=run, number=number, ref=f"s{number}", capability=capability, kind=kind, audience=audience, planned=True,
        args={"name": f"thing {number}"}, version="v", **fields,
    )  # fmt: skip


# Counted by their place `n` among all runs: those that wait, that failed, that are stuck, that go on; the rest has ended.
STATE = """CASE WHEN n < %(waiting)s THEN 'releasing' WHEN n < %(waiting)s + %(failed)s THEN 'failed'
  WHEN n < %(waiting)s + %(failed)s + %(stuck)s THEN 'stuck' WHEN n < %(waiting)s + %(failed)s + %(stuck)s + %(open)s THEN 'open'
  WHEN n %% 10 = 1 THEN 'compensated' WHEN n %% 20 = 2 THEN 'left_standing' ELSE 'succeeded' END"""
# What becomes of a step that undo can reach, and of one that it can't, by the state of its run.
ABOVE = """CASE r.state WHEN 'compensated' THEN 'undone' WHEN 'left_standing' THEN 'left_standing'
  WHEN 'stuck' THEN CASE WHEN t.number = 3 THEN 'undo_failed' ELSE 'done' END
  WHEN 'open' THEN CASE WHEN t.number = 3 THEN 'planned' ELSE 'done' END ELSE 'done' END"""
BELOW = """CASE r.state WHEN 'succeeded' THEN 'sent' WHEN 'releasing' THEN 'queued' WHEN 'open' THEN 'planned' ELSE 'closed' END"""


def settle(cursor: Any) -> None:
    """As autovacuum would have left it; outside a transaction."""
    for statement in ("SET ROLE NONE", "VACUUM ANALYZE", "RESET ROLE"):
        cursor.execute(statement)


class _Store:
    def __init__(self, cursor: Any, size: Size, now: dt.datetime) -> None:
        self.cursor, self.size, self.now = cursor, size, now
        self.failed, self.stuck, self.open = (max(size.runs // part, 1) for part in (200, 1000, 400))

    def run(self, statement: str, **given: Any) -> None:
        numbers = {
            "first": FIRST, "runs": self.size.runs, "waiting": self.size.waiting // CALLS, "failed": self.failed, "stuck": self.stuck,
            "open": self.open, "now": self.now, "steps": STEPS, **given,
        }  # fmt: skip
        self.cursor.execute(statement, numbers)

    def copies(self, table: str, row: Any, number: str, source: str, /, *, where: str = "true", **fields: str) -> None:
        """Copies `row` of `table`, once for each row of `source`, with the id `number` and these fields as SQL."""
        made = ", ".join(f"'{name}', {value}" for name, value in {"id": number, **fields}.items())
        self.run(
            f"INSERT INTO {table} SELECT copy.* FROM {source} CROSS JOIN {table} t CROSS JOIN LATERAL"
            f" jsonb_populate_record(NULL::{table}, to_jsonb(t) || jsonb_build_object({made})) copy WHERE t.id = %(row)s AND {where}",
            row=row.pk,
        )

    def runs(self, run: Run) -> None:
        at = "%(now)s::timestamptz - (%(runs)s - n) * interval '7 minutes'"
        ended = f"CASE WHEN {STATE} IN ('succeeded', 'compensated', 'left_standing') THEN {at} + interval '5 minutes' END"
        failed = f"CASE WHEN {STATE} IN ('failed', 'stuck', 'compensated', 'left_standing') THEN {at} + interval '3 minutes' END"
        undone = f"CASE WHEN {STATE} IN ('stuck', 'compensated') THEN {at} + interval '4 minutes' END"
        self.copies(
            "runs_run", run, "%(first)s + n", "generate_series(0, %(runs)s - 1) n",
            state=STATE, title="'Add billing field ' || n", ticket="'BILL-' || n", agent="'runner-' || n %% 40", nonce="gen_random_uuid()",
            opened_at=at, last_heard_at=at, failed_at=failed, compensating_since=undone, ended_at=ended,
            failed_why=f"CASE WHEN {failed} IS NULL THEN '' ELSE 'CI died' END",
            pivot_at=f"CASE WHEN {STATE} = 'succeeded' THEN {at} + interval '4 minutes' END",
        )  # fmt: skip

    def steps(self, rows: list[Step]) -> None:
        for step in rows:
            below = step.kind == "irreversible"
            state = BELOW if below else ABOVE
            numbers = "CROSS JOIN generate_series(4, %(steps)s) k" if below else f"CROSS JOIN (VALUES ({step.number})) v (k)"
            done = f"CASE WHEN {state} NOT IN ('planned', 'queued', 'closed') THEN r.opened_at + k * interval '10 seconds' END"
            self.copies(
                "runs_step", step, "r.id * %(steps)s + k - 1", f"runs_run r {numbers}", where="r.id >= %(first)s",
                run_id="r.id", number="k", ref="'s' || k", state=state.replace("t.number", "k"), key="md5((r.id * 100 + k)::text)",
                call_key="md5((r.id * 100 + k)::text)", requested_at=f"CASE WHEN {state} <> 'planned' THEN r.opened_at END",
                started_at=done, done_at=done, effect=f"CASE WHEN {done} IS NULL THEN NULL ELSE '{{\"name\": \"thing\"}}'::jsonb END",
                undone_at=f"CASE WHEN {state} = 'undone' THEN r.ended_at END",
                ended_at=f"CASE WHEN {state} IN ('undone', 'closed', 'left_standing') THEN coalesce(r.ended_at, r.failed_at) END",
                closed_why=f"CASE WHEN {state} = 'closed' THEN 'withdrawn' ELSE '' END",
                intent_seq=f"CASE WHEN {done} IS NULL THEN NULL ELSE k END",
                settled_by=f"CASE WHEN {state} = 'left_standing' THEN 'person:Rita Reader' ELSE '' END",
                settled_why=f"CASE WHEN {state} = 'left_standing' THEN 'It may stay.' ELSE '' END",
            )  # fmt: skip

    def items(self, item: Item, version: Version, said: Decision) -> None:
        state = "CASE s.state WHEN 'sent' THEN 'sent' WHEN 'queued' THEN 'awaiting' ELSE 'withdrawn' END"
        self.copies(
            "outbox_item", item, "s.id", "runs_step s JOIN runs_run r ON r.id = s.run_id",
            where="s.id >= %(first)s * %(steps)s AND s.kind = 'irreversible' AND s.state <> 'planned'",
            step_id="s.id", state=state, queued_at="r.opened_at",
            digest="md5(s.id::text) || md5(s.id::text)", awaiting_since="CASE WHEN s.state = 'queued' THEN r.opened_at END",
            told_for="CASE WHEN s.state = 'queued' THEN r.opened_at END",
            expires_at="CASE WHEN s.state = 'queued' THEN %(now)s::timestamptz + interval '3 hours' END",
            closed_at="CASE WHEN s.state <> 'queued' THEN coalesce(s.ended_at, r.failed_at, r.opened_at) END",
        )  # fmt: skip
        items = "(SELECT * FROM outbox_item WHERE id >= %(first)s * %(steps)s) i"
        self.copies("outbox_version", version, "i.id", items, item_id="i.id", digest="i.digest", title="'Tell the client ' || i.id")
        sent = items.replace("WHERE", "WHERE state = 'sent' AND")
        self.copies("outbox_decision", said, "i.id", sent, item_id="i.id", digest="i.digest", at="i.closed_at")

    def corrections(self, note: Correction) -> None:
        runs = "(SELECT * FROM runs_run WHERE id >= %(first)s AND state IN ('compensated', 'left_standing')) r"
        draft = "r.state = 'left_standing' AND r.id %% 100 = 42"
        self.copies(
            "corrections_correction", note, "r.id", runs,
            run_id="r.id", key="md5(r.id::text)", drafted_at="r.ended_at", sent_by="'Rita Reader'", sent_at="r.ended_at",
            text="'It was premature.'", delivered="'{\"id\": \"1\"}'::jsonb", state=f"CASE WHEN {draft} THEN 'draft' ELSE 'sent' END",
        )  # fmt: skip

    def log(self) -> None:
        events = ["run.opened", "step.requested", "step.started", "step.done"]
        for seq in range(1, self.size.entries + 1):
            event = events[0] if seq == 1 else events[1 + seq % 3]
            actor = "'token:runner'" if event == "step.requested" else "'engine'"
            if seq == self.size.entries:
                event, actor = "run.taken", "'person:Rita Reader'"
            step = "NULL::bigint" if event.startswith("run.") else f"r.id * %(steps)s + {seq % 3}"
            self.entries(seq, event, actor, step, "SELECT * FROM runs_run WHERE id >= %(first)s AND id < %(first)s + %(runs)s")

    def entries(self, seq: int, event: str, actor: str, step: str, of: str) -> None:
        """One entry more for each of these runs, linked to the one before it as the trigger would."""
        self.run(
            f"""
            WITH made AS (
                SELECT r.id AS run_id, {seq} AS seq, r.opened_at + {seq} * interval '1 second' AS at, '{event}' AS event, {step} AS step_id,
                    NULL::int AS attempt, {actor}::text AS actor, jsonb_build_object('n', r.id) AS data, before.hash AS before
                FROM ({of}) r LEFT JOIN runs_logentry before ON before.run_id = r.id AND before.seq = {seq} - 1
            )
            INSERT INTO runs_logentry (run_id, seq, at, event, step_id, attempt, actor, data, hash)
            SELECT run_id, seq, at, event, step_id, attempt, actor, data, encode(sha256(convert_to(concat_ws(E'\\n',
                coalesce(before, ''), run_id, seq, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                event, coalesce(step_id::text, ''), '', to_jsonb(actor)::text, data::text), 'UTF8')), 'hex')
            FROM made"""
        )

    def long_run(self, run: Run, put: Step, show: Step, tell: Step) -> None:
        """One failed run of very many steps, nearly all of them done by machines for machines."""
        number, long = FIRST + self.size.runs, self.size.long
        self.copies(
            "runs_run", run, str(number), "generate_series(1, 1) n",
            state="'failed'", title="'Load many fixtures'", nonce="gen_random_uuid()", failed_why="'CI died'",
            opened_at="%(now)s::timestamptz - interval '20 minutes'", failed_at="%(now)s::timestamptz - interval '3 minutes'",
        )  # fmt: skip
        parts = ((put, f"(n < {long} - 4 AND n <> 100)"), (show, "n = 100"), (tell, f"n >= {long} - 4"))
        for step, which in parts:
            state = "'closed'" if step == tell else "CASE WHEN n %% 200 = 150 THEN 'failed' ELSE 'done' END"
            done = f"CASE WHEN {state} = 'done' THEN r.opened_at + n * interval '1 second' END"
            self.copies(
                "runs_step", step, f"r.id * {STEPS} + n", f"runs_run r CROSS JOIN generate_series(1, {long}) n",
                where=f"r.id = {number} AND {which}", run_id="r.id", number="n", ref="'s' || n", state=state,
                key="md5((r.id * 1000 + n)::text)",
                requested_at="r.opened_at", started_at=done, done_at=done, intent_seq=f"CASE WHEN {state} = 'closed' THEN NULL ELSE n END",
                effect=f"CASE WHEN {done} IS NULL THEN NULL ELSE '{{\"name\": \"thing\"}}'::jsonb END",
                closed_why=f"CASE WHEN {state} = 'closed' THEN 'withdrawn' ELSE '' END", args="jsonb_build_object('name', 'thing ' || n)",
            )  # fmt: skip
        self.entries(1, "run.opened", "'token:runner'", "NULL::bigint", f"SELECT * FROM runs_run WHERE id = {number}")
        for seq in range(2, 3 * long):
            event = ("step.requested", "step.started", "step.done")[(seq - 2) % 3]
            self.entries(seq, event, "'engine'", f"r.id * {STEPS} + {(seq - 2) // 3 + 1}", f"SELECT * FROM runs_run WHERE id = {number}")
