"""Histories: what agents, workers, people, checkers, time and the world do to one run, in any order, beside its model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests import checker
from tests.histories.model import ENDED, IN_EFFECT, Model
from tests.histories.system import People, System, savepoint
from tests.tools import world

PLANS = [
    [("one", "put_thing", False), ("show", "show_thing", False), ("tell", "tell_client", False)],
    [("one", "put_thing", False), ("gate", "tell_client", True), ("show", "show_thing", False)],
    [("show", "show_thing", False), ("lost", "blind_thing", False), ("panel", "show_thing", False)],
    [("one", "put_thing", False), ("team", "tell_team", False), ("tell", "tell_client", False), ("also", "tell_client", False)],
    [("read", "read_thing", False), ("one", "put_thing", False), ("two", "put_thing", False)],
    [("gate", "tell_client", True), ("lost", "blind_thing", False), ("team", "tell_team", False)],
]
BACK = ("failed", "stuck", "succeeded", "left_standing")
OUT_OF_PLACE = ["compensate", "pause_walk", "leave_standing", "retry_sending", "walk", "confirm_green", "resume", "finish"]
# How often each action was tried in this process.
tried: Counter[str] = Counter()
which = st.integers(0, 5)
often_ok = st.sampled_from(["ok", "ok", "ok"])
calls = st.sampled_from(["ok", "ok", "ok", "ok", "refused", "lost", "silent", "killed before", "killed after"])


class Histories(RuleBasedStateMachine):
    """One run and its model; after every action both look the same."""

    people: People

    @initialize(
        plan=st.sampled_from(PLANS),
        on_failure=st.sampled_from(["ask", "compensate"]),
        off_plan=st.sampled_from(["refuse", "hold", "allow"]),
        quorum=st.sampled_from([1, 1, 2]),
        grace=st.sampled_from([0.0, 1.5]),
        has_check=st.sampled_from([True, True, True, False]),
    )
    def open(self, **rules: Any) -> None:
        self.transaction = savepoint()
        self.transaction.__enter__()
        self.model = Model(**rules)
        self.system = System(self.people, self.model)
        self.stalled: list[tuple[str, int]] = []
        self.age, self.failed = 0, False
        self.same()

    def do(self, action: str, *args: Any, **more: Any) -> Any:
        """The same to both; their answers and what is seen of them are equal."""
        tried[action] += 1
        self.age += 1
        self.failed = True  # until it went as it should: what follows a difference would only hide it
        wanted = getattr(self.model, action)(*args, **more)
        found = self.system.act(action, *args, **more)
        assert found == wanted, f"{action}{args}{more or ''} answered {found}, the model says {wanted}"
        self.same()
        self.failed = False
        return found

    def same(self) -> None:
        wanted, found = self.model.seen(), self.system.seen()
        assert found == wanted, "\n".join(
            f"{part}:\n  is     {found[part]}\n  should {wanted[part]}" for part in wanted if found[part] != wanted[part]
        )

    def ref(self, at: int, *states: str, capability: str = "") -> str:
        """One of the steps, of those in these states if there are any."""
        steps = [s for s in self.model.steps if not capability or s.capability == capability] or self.model.steps
        some = [s for s in steps if s.state in states] or steps
        return some[at % len(some)].ref

    def item(self, at: int, *states: str) -> str:
        items = sorted(self.model.items.items())
        some = [n for n, item in items if item.state in states] or [n for n, _ in items]
        return self.model.steps[some[at % len(some)] - 1].ref

    def correction(self, at: int, *states: str) -> int:
        some = [n for n, one in enumerate(self.model.corrections) if one.state in states]
        return some[at % len(some)]

    def any_step(self, *states: str) -> bool:
        return any(step.state in states for step in self.model.steps)

    def any_item(self, *states: str) -> bool:
        return any(item.state in states for item in self.model.items.values())

    def any_correction(self, *states: str) -> bool:
        return any(one.state in states for one in self.model.corrections)

    # The agent.
    @precondition(lambda self: self.any_step("planned"))
    @rule(at=which)
    def ask(self, at: int) -> None:
        self.do("ask", self.ref(at, "planned"))

    @precondition(lambda self: self.any_step("planned", "requested"))
    @rule(at=which)
    def ask_and_work(self, at: int) -> None:
        ref = self.ref(at, "planned", "requested")
        self.do("ask", ref)
        self.do("work", ref)

    @precondition(lambda self: self.any_step("failed", "done", "requested", "closed"))
    @rule(at=which, value=st.sampled_from(["on", "other"]))
    def ask_again(self, at: int, value: str) -> None:
        self.do("ask", self.ref(at, "failed", "done", "requested", "closed"), value)

    @rule(name=st.sampled_from(["extra", "more"]), capability=st.sampled_from(["put_thing", "blind_thing", "show_thing"]))
    def ask_off_plan(self, name: str, capability: str) -> None:
        self.do("ask_off_plan", f"{name} {capability}", capability)

    @rule(at=which)
    def ask_in_an_old_session(self, at: int) -> None:
        self.do("ask", self.ref(at, "planned"), session=self.model.session + 1)

    @precondition(lambda self: self.any_step("planned", "failed"))
    @rule(at=which)
    def skip(self, at: int) -> None:
        ref = self.ref(at, "planned", "failed")
        if self.model.step(ref).planned:
            self.do("skip", ref)

    @rule(old=st.booleans())
    def heartbeat(self, old: bool) -> None:
        self.do("heartbeat", self.model.session + old)

    @rule()
    def resume(self) -> None:
        self.do("resume")

    @rule()
    def finish(self) -> None:
        self.do("finish")

    @precondition(lambda self: self.model.state == "open")
    @rule()
    def finish_all(self) -> None:
        """The agent does what is left and finishes."""
        for step in [s for s in self.model.steps if s.state in ("planned", "requested")]:
            self.do("ask", step.ref, step.value or "on")
            self.do("work", step.ref)
        self.do("finish")

    @precondition(lambda self: self.model.state == "open" and self.model.has_check)
    @rule()
    def finish_all_and_go_green(self) -> None:
        self.finish_all()
        self.do("report", "success")

    # Checkers and time.
    @rule(state=st.sampled_from(["success", "success", "success", "success", "failure", "pending"]))
    def report(self, state: str) -> None:
        self.do("report", state)

    @precondition(lambda self: self.model.state == "checking")
    @rule()
    def confirm_green(self) -> None:
        self.do("confirm_green")

    @rule(units=st.sampled_from([1, 1, 1, 2, 3, 5]))
    def later(self, units: int) -> None:
        self.do("later", units)

    @rule()
    def sweep(self) -> None:
        assert self.system.due() == self.model.due()
        self.do("sweep")

    # The world.
    @precondition(lambda self: self.any_step("done", "undoing"))
    @rule(at=which)
    def somebody_changes_it(self, at: int) -> None:
        name = self.model.step(self.ref(at, "done", "undoing")).name
        self.system.change(name)
        self.model.things[name] = "theirs"
        self.same()

    @precondition(lambda self: self.any_step("done", "undoing", "drifted", "undo_failed"))
    @rule(at=which)
    def somebody_removes_it(self, at: int) -> None:
        name = self.model.step(self.ref(at, "done", "drifted", "undo_failed")).name
        self.system.remove(name)
        self.model.things.pop(name, None)
        self.same()

    # Workers.
    @precondition(lambda self: self.any_step("requested", "queued"))
    @rule(at=which, how=calls)
    def work(self, at: int, how: str) -> None:
        ref = self.ref(at, "requested", "queued")
        self.do("work", ref, "ok" if self.model.step(ref).capability == "read_thing" else how)

    @rule(at=which)
    def a_doubled_message(self, at: int) -> None:
        ref = self.ref(at, "requested", "queued", "done", "sent")
        self.do("work", ref)
        self.do("work", ref)

    @precondition(lambda self: self.any_step("requested", "queued"))
    @rule(at=which)
    def take_and_stall(self, at: int) -> None:
        ref = self.ref(at, "requested", "queued")
        if number := self.do("take", ref):
            self.stalled.append((ref, number))

    @precondition(lambda self: self.stalled)
    @rule(at=which)
    def a_late_answer(self, at: int) -> None:
        self.do("bring", *self.stalled[at % len(self.stalled)])

    @precondition(lambda self: self.any_step("running", "unknown"))
    @rule(at=which, how=st.sampled_from(["ok", "ok", "ok", "blind", "killed"]))
    def look(self, at: int, how: str) -> None:
        ref = self.ref(at, "running", "unknown")
        self.do("look", ref, how)

    @precondition(lambda self: self.model.state == "compensating")
    @rule(how=st.sampled_from(["ok", "ok", "ok", "failing", "unreadable", "killed before", "killed after"]))
    def walk(self, how: str) -> None:
        self.do("walk", how)

    @precondition(lambda self: self.model.frozen or self.age > 12)
    @rule()
    def freeze_or_thaw(self) -> None:
        frozen = self.model.frozen
        self.system.act("thaw" if frozen else "freeze")
        self.model.frozen = not frozen
        self.same()

    # Reviewers.
    @precondition(lambda self: self.any_item("awaiting", "approved"))
    @rule(at=which, who=st.sampled_from(["alice", "alice", "carol"]), stale=st.sampled_from([False, False, False, True]))
    def approve(self, at: int, who: str, stale: bool) -> None:
        self.do("approve", self.item(at, "awaiting"), who, stale)

    @precondition(lambda self: self.any_item("awaiting"))
    @rule(at=which)
    def approve_by_all(self, at: int) -> None:
        for who in ("alice", "carol"):
            self.do("approve", self.item(at, "awaiting"), who)

    @precondition(lambda self: self.any_item("awaiting", "approved"))
    @rule(how=calls)
    def approve_and_send(self, how: str) -> None:
        """Everything is approved, and workers get to it; `how` says what becomes of the last."""
        for step, item in self.model.ordered():
            if item.state == "awaiting":
                self.do("approve", step.ref, "alice")
                self.do("approve", step.ref, "carol")
        waiting = [step.ref for step, item in self.model.ordered() if item.state == "approved"]
        for ref in waiting:
            self.do("work", ref, how if ref == waiting[-1] else "ok")

    @precondition(lambda self: self.any_item("awaiting"))
    @rule(at=which, who=st.sampled_from(["alice", "carol"]), undo=st.booleans())
    def reject(self, at: int, who: str, undo: bool) -> None:
        ref = self.item(at, "awaiting")
        self.do("reject", ref, who, "compensate" if undo else "send_back" if self.model.step(ref).is_gate else "drop")

    @precondition(lambda self: self.any_item("expired"))
    @rule(at=which, drop=st.booleans())
    def after_it_expired(self, at: int, drop: bool) -> None:
        self.do("drop" if drop else "ask_again", self.item(at, "expired"))

    @precondition(lambda self: self.any_item("awaiting", "approved"))
    @rule(account=st.booleans())
    def take_a_role_away(self, account: bool) -> None:
        self.system.act("close_account" if account else "take_role", "carol")
        (self.model.without_account if account else self.model.without_role).add("carol")
        self.same()

    # Admins.
    @precondition(lambda self: self.model.disabled or self.age > 6)
    @rule()
    def disable_or_enable(self) -> None:
        disabled = "tell_client" in self.model.disabled
        for capability in ("tell_client", "put_thing"):
            self.system.act("enable" if disabled else "disable", capability)
            (self.model.disabled.remove if disabled else self.model.disabled.add)(capability)
        self.same()

    # On-call.
    @precondition(lambda self: self.age > 8)
    @rule(how=st.sampled_from(["give_up", "stop"]))
    def fail(self, how: str) -> None:
        self.do(how)

    @rule(action=st.sampled_from(OUT_OF_PLACE))
    def out_of_place(self, action: str) -> None:
        """Whatever is not for now is refused, and changes nothing."""
        self.do(action)

    @precondition(lambda self: self.model.state in BACK)
    @rule()
    def compensate(self) -> None:
        self.do("compensate")

    @precondition(lambda self: self.model.state in BACK and self.any_step("done"))
    @rule(at=which)
    def compensate_to_a_savepoint(self, at: int) -> None:
        ref = self.ref(at, "done")
        if self.model.step(ref).planned:
            self.do("compensate", to=ref)

    @precondition(lambda self: self.model.state in BACK and self.any_step("drifted"))
    @rule(at=which)
    def compensate_over_a_change(self, at: int) -> None:
        self.do("compensate", over={self.model.step(self.ref(at, "drifted")).number})

    @precondition(lambda self: self.model.state in BACK and self.model.pivot)
    @rule()
    def compensate_past_the_pivot(self) -> None:
        self.do("compensate", override=True)

    @precondition(lambda self: self.model.state == "compensating")
    @rule()
    def pause(self) -> None:
        self.do("pause_walk")

    @precondition(lambda self: self.model.state in ("failed", "stuck") and self.age > 15)
    @rule()
    def leave_standing(self) -> None:
        self.do("leave_standing")

    @precondition(lambda self: self.any_step("unknown", "undo_failed", "drifted", "failed"))
    @rule(at=which, how=st.sampled_from(["happened", "never_happened", "undone_by_hand", "left_standing"]))
    def settle(self, at: int, how: str) -> None:
        self.do("settle", self.ref(at, "unknown", "undo_failed", "drifted", "failed"), how)

    @precondition(lambda self: self.any_step("on_hold"))
    @rule(at=which, yes=st.booleans())
    def answer_what_is_held(self, at: int, yes: bool) -> None:
        self.do("let_through" if yes else "refuse_held", self.ref(at, "on_hold"))

    @precondition(lambda self: self.model.state == "stuck")
    @rule()
    def retry_sending(self) -> None:
        self.do("retry_sending")

    @precondition(lambda self: self.model.state == "stuck" and self.any_step("failed"))
    @rule(at=which)
    def drop_send(self, at: int) -> None:
        self.do("drop_send", self.ref(at, "failed"))

    # Corrections.
    @precondition(lambda self: self.any_correction("draft", "held_back", "not_delivered"))
    @rule(at=which, action=st.sampled_from(["hold_back", "dismiss", "send", "send"]))
    def correct(self, at: int, action: str) -> None:
        self.do(action, self.correction(at, "draft", "held_back", "not_delivered"))

    @precondition(lambda self: self.any_correction("sending"))
    @rule(at=which, how=st.sampled_from(["ok", "ok", "refused", "lost", "silent", "killed"]))
    def deliver(self, at: int, how: str) -> None:
        at = self.correction(at, "sending")
        self.do("deliver", at, how if self.model.corrections[at].place == "board" else "ok")

    # The end.
    def teardown(self) -> None:
        if not hasattr(self, "transaction"):
            return
        try:
            if not self.failed:
                self.come_to_an_end()
        finally:
            self.transaction.__exit__(Exception, None, None)
            world.clear()

    def come_to_an_end(self) -> None:
        """From wherever it is, workers, the sweep and people bring it to an end: nothing is a dead end."""
        if self.model.frozen:
            self.freeze_or_thaw()
        if self.model.disabled:
            self.disable_or_enable()
        for _ in range(12):
            if not self.is_over():
                self.one_more_round()
        assert self.is_over(), f"It can't be brought to an end: {self.model.seen()}"
        self.do("sweep")
        assert self.is_over(), "The sweep takes up again what was over."
        # Without the ledger, whose times are real.
        checker.check(runs=[self.system.run.pk])

    def is_over(self) -> bool:
        m = self.model
        over = m.state in ENDED or (m.state == "failed" and not any(s.state in IN_EFFECT for s in m.steps))
        return over and all(c.state in ("sent", "dismissed") for c in m.corrections)

    def one_more_round(self) -> None:
        m = self.model
        self.do("later", 1)
        for step in list(m.steps):
            if step.state in ("requested", "queued"):
                self.do("work", step.ref)
            elif step.state in ("running", "unknown"):
                self.do("look", step.ref)
        for at, one in enumerate(m.corrections):
            if one.state == "sending":
                self.do("deliver", at)
            elif one.state in ("draft", "held_back", "not_delivered"):
                self.do("dismiss", at)
        if m.state in ("open", "checking", "releasing"):
            self.do("stop")
        if m.state in ("failed", "stuck"):
            self.do("compensate", override=True)
        self.do("walk")
        if m.state == "stuck":
            for step in list(m.steps):
                if step.state in ("unknown", "undo_failed", "drifted"):
                    self.do("settle", step.ref, "undone_by_hand")
