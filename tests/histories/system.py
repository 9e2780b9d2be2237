"""The system as a history drives it: its services and its engine on a real database whose clock the history sets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connection, transaction
from django.utils import timezone

from corrections import delivery
from corrections import services as corrections
from corrections.models import Audience, Correction
from outbox import services as outbox
from outbox.models import Item, Policy
from runs import bell, freezing, services
from runs.engine import claim, compensate, invoke, record, sweep
from runs.engine.attempt import Attempt
from runs.exceptions import NoEffect
from runs.models import CapabilityRecord, Run, Step
from sagaboard.accounts.models import User
from tests import factories
from tests.histories.model import GRACE, OPEN_FOR, PATIENCE, TOOLS, Model
from tests.tools import world

# Seconds in the model's unit of time. Leases are set to less than half of it, so that how long a history really takes is nothing.
UNIT = 1000
CLOCK = """
CREATE SCHEMA IF NOT EXISTS history;
GRANT USAGE ON SCHEMA history TO PUBLIC;
CREATE OR REPLACE FUNCTION history.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('history.now')::timestamptz $$;
CREATE OR REPLACE FUNCTION history.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
    AS $$ SELECT current_setting('history.now')::timestamptz $$;
"""
# Stand before PostgreSQL's own functions, on this connection alone.
SET_CLOCK = "SELECT set_config('search_path', 'history, pg_catalog, public', true), set_config('history.now', %s, true)"

# All that is compared after an action, in one look, since it is done so often.
SEEN = """
SELECT r.state, r.session, r.pivot_at IS NOT NULL,
  (SELECT json_agg(json_build_array(coalesce(s.ref, s.args->>'name'), s.state, s.closed_why, s.settled_as, s.tries,
      coalesce(s.lease_until > clock_timestamp(), false)) ORDER BY s.number) FROM runs_step s WHERE s.run_id = r.id),
  (SELECT coalesce(json_agg(json_build_array(coalesce(s.ref, s.args->>'name'), i.state,
      (SELECT coalesce(json_agg(d.by_name), '[]') FROM outbox_decision d
        WHERE d.item_id = i.id AND d.verdict = 'approve' AND d.voided_at IS NULL AND d.digest = i.digest),
      i.closed_at IS NOT NULL) ORDER BY s.number), '[]') FROM outbox_item i JOIN runs_step s ON s.id = i.step_id WHERE s.run_id = r.id),
  (SELECT coalesce(json_agg(json_build_array(c.place_key, c.state, c.signals, c.key)), '[]')
    FROM corrections_correction c WHERE c.run_id = r.id)
FROM runs_run r WHERE r.id = %(run)s
"""


class Killed(BaseException):
    """Kill -9: nothing that would still be written down is."""


def install_clock(owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(CLOCK)


def _raise(exc: BaseException) -> Callable[..., None]:
    def hook(*args: Any) -> None:
        raise exc

    return hook


class People:
    """Who acts in all histories."""

    def __init__(self) -> None:
        self.team = factories.make_team("billing")
        self.alice = factories.make_user("alice", roles=("reviewer", "on-call", "owner"), team=self.team)
        self.carol = factories.make_user("carol", roles=("reviewer",), team=self.team)
        self.sam = factories.make_user("sam", roles=("on-call", "admin"), team=self.team)
        self.bob = factories.make_user("bob", team=self.team)
        self.checker = factories.make_token(scope="checker", team=self.team, person=self.bob)
        Audience.objects.create(name="team", owner=self.bob, address={"target": "chat", "user": "U1"})
        for name, tool in TOOLS.items():
            if tool.irreversible:
                wanted = {"needs_yes": tool.needs_yes, "open_for": int(OPEN_FOR * UNIT)}
                Policy.objects.update_or_create(capability=name, audience="", defaults=wanted)
        factories.prove("show_thing", "blind_thing")


class System:
    """Carries out each action of the model; answers in the same words."""

    def __init__(self, people: People, model: Model) -> None:
        self.people, self.began = people, timezone.now()
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.pks: dict[str, int] = {}
        self.planned = {ref: capability for ref, capability, _ in model.plan}
        self.now = 0.0
        self._set_clock()
        world.clear()
        Policy.objects.exclude(capability="").update(quorum=model.quorum)
        token = factories.make_token(
            team=people.team,
            person=people.bob,
            patience=int(PATIENCE * UNIT),
            check_grace=int(GRACE * UNIT) if model.grace else 0,
            on_failure=model.on_failure,
            off_plan=model.off_plan,
            required_checks=["ci"] if model.has_check else [],
        )
        plan = [
            {"ref": ref, "capability": tool, "args": {"name": ref}} | ({"needs_result": True} if gate else {})
            for ref, tool, gate in model.plan
        ]
        self.token = token
        self.run = services.open_run(token=token, title="a history", plan=plan).run

    def _set_clock(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(SET_CLOCK, [(self.began + dt.timedelta(seconds=self.now * UNIT)).isoformat()])

    def seen(self) -> dict[str, Any]:
        with connection.cursor() as cursor:
            cursor.execute(SEEN, {"run": self.run.pk})
            state, session, pivot, steps, items, corrections = cursor.fetchone()
        posted = [key for what, _, key in world.ledger if what == "correct"]
        return {
            "run": (state, session, pivot),
            "steps": [tuple(step) for step in steps],
            "items": [(ref, state, sorted(yeses), closed) for ref, state, yeses, closed in items],
            "corrections": sorted(
                (place, state, sorted((one["step"], one["how"]) for one in signals), posted.count(key))
                for place, state, signals, key in corrections
            ),
            "things": sorted(
                (name, "theirs" if thing["key"] == "theirs" else thing["value"])
                for name, thing in world.things.items()
                if not name.startswith("note ")
            ),
            "calls": [(what, name) for what, name, _ in world.ledger if what in ("do", "undo")],
        }

    def due(self) -> set[tuple[str, str]]:
        rung: set[tuple[str, str]] = set()
        ring, words = bell.ring, {"invoke_step": "invoke", "look_for_step": "look", "compensate_run": "compensate"}
        refs = {step.pk: step.ref or step.args["name"] for step in self.run.steps.all()}

        def ringing(task: str, run: int, *step: int) -> None:
            rung.add((words[task.rpartition(".")[2]], refs[step[0]] if step else ""))

        bell.ring = ringing  # type: ignore[assignment]
        try:
            if not claim.is_frozen():
                sweep.steps_due()
                sweep.walks_due()
        finally:
            bell.ring = ring
        return rung

    def act(self, action: str, *args: Any, **more: Any) -> Any:
        """What the action answered: its value, `ok`, or the name of its refusal."""
        try:
            answer = getattr(self, action)(*args, **more)
        except Killed:
            answer = None
        except Exception as exc:
            if type(exc).__module__.partition(".")[0] not in ("runs", "outbox", "corrections"):
                raise
            return type(exc).__name__
        finally:
            world.before.clear()
            world.after.clear()
        return answer if isinstance(answer, int) else "ok"

    # The agent.
    def ask(self, ref: str, value: str = "on", session: int = 0) -> None:
        args = {"name": ref} | ({} if value == "on" else {"value": value})
        planned = self.planned.get(ref)
        capability = planned or self._step(ref).capability
        request = {"capability": capability, "args": args, "ref": ref if planned else None, "session": session or None}
        services.request_step(self.run, token=self.token, **request)

    def ask_off_plan(self, name: str, capability: str = "put_thing") -> None:
        services.request_step(self.run, token=self.token, capability=capability, args={"name": name})

    def skip(self, ref: str) -> None:
        services.skip_step(self.run, token=self.token, ref=ref, reason="not needed")

    def heartbeat(self, session: int = 0) -> None:
        services.heartbeat(Run.objects.get(pk=self.run.pk), session=session or None)

    def resume(self) -> None:
        services.resume_run(self.run, token=self.token)

    def finish(self) -> None:
        services.finish_run(self.run, token=self.token)

    def give_up(self) -> None:
        services.fail_run(self.run, token=self.token, reason="given up")

    # Checkers, time, the world.
    def report(self, state: str) -> None:
        services.report_check(self.run, token=self.people.checker, name="ci", state=state)

    def confirm_green(self) -> None:
        services.confirm_green(self.run, by=self.people.alice, reason="looked")

    def later(self, units: int) -> None:
        self.now += units
        self._set_clock()
        for attempt in self.attempts.values():
            attempt.ends -= units * UNIT

    def sweep(self) -> None:
        sweep.sweep()

    def change(self, name: str) -> None:
        world.things[name] = {"value": "theirs", "key": "theirs"}

    def remove(self, name: str) -> None:
        world.things.pop(name, None)

    # Workers.
    def work(self, ref: str, how: str = "ok") -> None:
        before = {"refused": NoEffect("not today"), "silent": RuntimeError("reset"), "killed before": Killed()}
        after = {"lost": RuntimeError("timeout"), "killed after": Killed()}
        self._hook("do", before.get(how), after.get(how))
        invoke.invoke(self.run.pk, self._pk(ref))

    def take(self, ref: str) -> int:
        attempt = claim.to_do(self.run.pk, self._pk(ref))
        if attempt is None:
            return 0
        assert invoke._prepare(attempt)
        attempt.capability.do(attempt.call)
        self.attempts[ref, attempt.number] = attempt
        return attempt.number

    def bring(self, ref: str, attempt: int) -> None:
        held = self.attempts[ref, attempt]
        record.done(held, {"name": held.call.args.name, "value": held.call.args.value})

    def look(self, ref: str, how: str = "ok") -> None:
        self._hook("probe", {"blind": RuntimeError("no answer"), "killed": Killed()}.get(how))
        invoke.look(self.run.pk, self._pk(ref))

    def walk(self, how: str = "ok") -> None:
        self._hook("undo", {"failing": RuntimeError("no"), "killed before": Killed()}.get(how), Killed() if how == "killed after" else None)
        if how == "unreadable":
            self._hook("verify_undone", RuntimeError("no answer"))
        compensate.compensate(self.run.pk)

    def _hook(self, what: str, before: BaseException | None = None, after: BaseException | None = None) -> None:
        if before is not None:
            world.before[what] = _raise(before)
        if after is not None:
            world.after[what] = _raise(after)

    # People.
    def approve(self, ref: str, who: str, stale: bool = False) -> None:
        item = self._item(ref)
        outbox.approve(item, digest="0" * 64 if stale else item.digest, by=User.objects.get(username=who))

    def reject(self, ref: str, who: str, fate: str) -> None:
        item = self._item(ref)
        outbox.reject(item, digest=item.digest, by=User.objects.get(username=who), reason="no", fate=fate)

    def ask_again(self, ref: str) -> None:
        outbox.ask_again(self._item(ref), by=self.people.bob)

    def drop(self, ref: str) -> None:
        outbox.drop(self._item(ref), by=self.people.bob, reason="not needed")

    def take_role(self, who: str) -> None:
        User.objects.get(username=who).groups.clear()

    def close_account(self, who: str) -> None:
        User.objects.filter(username=who).update(is_active=False)

    def disable(self, capability: str) -> None:
        CapabilityRecord.objects.filter(name=capability).update(disabled_at=timezone.now(), disabled_why="incident")

    def enable(self, capability: str) -> None:
        CapabilityRecord.objects.filter(name=capability).update(disabled_at=None, disabled_why="")

    def freeze(self) -> None:
        freezing.freeze(by="alice", why="restored")

    def thaw(self) -> None:
        freezing.thaw(by="alice")

    def stop(self) -> None:
        services.stop_run(self.run, by=self.people.alice, reason="wrong")

    def compensate(self, *, override: bool = False, to: str = "", over: set[int] | None = None) -> None:
        by = self.people.sam if override else self.people.alice
        services.compensate_run(self.run, actor=f"person:{by}", by=by, override=override, to=to, undo_over=sorted(over or ()))

    def pause_walk(self) -> None:
        services.pause_run(self.run, by=self.people.alice)

    def leave_standing(self) -> None:
        services.leave_standing(self.run, by=self.people.alice, reason="stays")

    def settle(self, ref: str, how: str) -> None:
        services.settle_step(self._step(ref), by=self.people.alice, how=how, reason="looked", effect='{"name": "x"}')

    def let_through(self, ref: str) -> None:
        services.let_through(self._step(ref), by=self.people.alice)

    def refuse_held(self, ref: str) -> None:
        services.refuse_held(self._step(ref), by=self.people.alice, reason="no")

    def retry_sending(self) -> None:
        services.retry_sending(self.run, by=self.people.alice)

    def drop_send(self, ref: str) -> None:
        services.drop_send(self._step(ref), by=self.people.alice, reason="not needed")

    def take_run(self) -> None:
        services.take_run(self.run, by=self.people.alice)

    # Corrections, by place and how old they are.
    def hold_back(self, at: int) -> None:
        corrections.hold_back(self._correction(at), by=self.people.alice)

    def dismiss(self, at: int) -> None:
        corrections.dismiss(self._correction(at), by=self.people.alice, reason="they know")

    def edit(self, at: int) -> None:
        found = self._correction(at)
        corrections.edit(found, by=self.people.alice, revision=found.revision, back_when=f"after {found.revision}")

    def send(self, at: int) -> None:
        found = self._correction(at)
        corrections.send(found, by=self.people.alice, revision=found.revision)

    def deliver(self, at: int, how: str = "ok") -> None:
        before = {"refused": NoEffect("no such place"), "silent": RuntimeError("reset")}
        after = {"lost": RuntimeError("timeout"), "killed": Killed()}
        self._hook("correct", before.get(how), after.get(how))
        delivery.deliver(self.run.pk, self._correction(at).pk)

    def _correction(self, at: int) -> Correction:
        return Correction.objects.filter(run=self.run).order_by("pk")[at]

    def _pk(self, ref: str) -> int:
        if ref not in self.pks:
            self.pks = {step.ref or step.args["name"]: step.pk for step in self.run.steps.all()}
        return self.pks[ref]

    def _step(self, ref: str) -> Step:
        return self.run.steps.get(pk=self._pk(ref))

    def _item(self, ref: str) -> Item:
        return Item.objects.select_related("step").get(step=self._pk(ref))


def savepoint() -> transaction.Atomic:
    """Everything a history does is gone after it; what wants a transaction of its own may have one inside, as in a TestCase."""
    outer = transaction.atomic()
    outer._from_testcase = True  # type: ignore[attr-defined]
    return outer
