"""What DESIGN.md says of one run, in plain Python: its steps, items, leases and corrections, and the world it acts on.

No Django, no database, no clock: time is a number, and every lease is over after one unit of it. Each action answers in one
word, `ok` or the name of the refusal, and changes the state that `seen` shows. Where a rule is the system's as well, it is
written again here, from the words and not from the code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

LEASE, PATIENCE, OPEN_FOR, CHECKING_AT_MOST, GRACE = 0.5, 2.5, 4.5, 7.5, 1.5
OK = "ok"

PENDING = {"requested", "on_hold", "queued", "running", "unknown"}
IN_EFFECT = {"running", "done", "sent", "unknown", "undoing", "undo_failed", "drifted"}
TO_UNDO = IN_EFFECT - {"sent"}
FORWARD = {"open", "checking", "releasing"}
ENDED = {"succeeded", "compensated", "left_standing"}
UNDECIDED = {"held", "awaiting", "expired"}
GONE = {"undone", "gone", "settled"}
# A correction goes only while what it says of an effect is so.
HOLDS = {
    "undone": {"undone"},
    "gone": {"undone"},
    "settled": {"settled"},
    "left_standing": {"left_standing"},
    "stuck": {"undo_failed", "drifted", "undoing"},
}


@dataclasses.dataclass(frozen=True)
class Tool:
    """What the registry says of a capability."""

    irreversible: bool = False
    leaves_effect: bool = True
    seen: bool = False
    probe: bool = True
    attempts: int = 3
    needs_yes: bool = True


TOOLS = {
    "put_thing": Tool(),
    "show_thing": Tool(seen=True),
    "blind_thing": Tool(probe=False),
    "read_thing": Tool(leaves_effect=False, probe=False, attempts=2),
    "tell_client": Tool(irreversible=True, seen=True),
    "tell_team": Tool(irreversible=True, seen=True, needs_yes=False),
}


@dataclasses.dataclass
class Step:
    number: int
    ref: str
    capability: str
    name: str
    needs_result: bool = False
    planned: bool = True
    state: str = "planned"
    value: str | None = None
    tries: int = 0
    attempt: int = 0
    lease: float = -1.0
    due: float | None = None
    requested: float | None = None
    started: float | None = None
    ended: float | None = None
    intent: int | None = None
    done: bool = False
    closed: str = ""
    settled: str = ""

    @property
    def tool(self) -> Tool:
        return TOOLS[self.capability]

    @property
    def is_gate(self) -> bool:
        return self.needs_result and self.tool.irreversible


@dataclasses.dataclass
class Item:
    state: str = "held"
    expires: float | None = None
    yeses: set[str] = dataclasses.field(default_factory=set)
    closed: bool = False


@dataclasses.dataclass
class Correction:
    place: str
    signals: dict[int, str]
    state: str = "draft"
    attempts: int = 0
    lease: float = -1.0
    in_doubt: bool = False
    posted: int = 0


@dataclasses.dataclass
class Model:
    """One run, and what is in the world because of it."""

    plan: list[tuple[str, str, bool]]
    on_failure: str = "ask"
    off_plan: str = "refuse"
    quorum: int = 1
    grace: float = 0.0
    has_check: bool = True
    now: float = 0.0
    state: str = "open"
    session: int = 1
    heard: float = 0.0
    checking_since: float = 0.0
    check: str = "pending"
    reported: float = 0.0
    person_check: bool = False
    pivot: bool = False
    compensating: bool = False
    undo_to: str = ""
    override: bool = False
    undo_over: set[int] = dataclasses.field(default_factory=set)
    pause: bool = False
    walk_lease: float = -1.0
    frozen: bool = False
    disabled: set[str] = dataclasses.field(default_factory=set)
    without_role: set[str] = dataclasses.field(default_factory=set)
    without_account: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        self.seq = 0
        self.steps = [Step(n, ref, tool, ref, gate) for n, (ref, tool, gate) in enumerate(self.plan, 1)]
        self.items: dict[int, Item] = {}
        self.corrections: list[Correction] = []
        # What stands there under that name, by our call of that value or `theirs`. And how often each was done and undone.
        self.things: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []

    # What an observer sees.
    def seen(self) -> dict[str, Any]:
        return {
            "run": (self.state, self.session, self.pivot),
            "steps": [(s.ref, s.state, s.closed, s.settled, s.tries, s.lease > self.now) for s in self.steps],
            "items": [(self.steps[n - 1].ref, i.state, sorted(i.yeses), i.closed) for n, i in sorted(self.items.items())],
            "corrections": sorted((c.place, c.state, sorted(c.signals.items()), c.posted) for c in self.corrections),
            "things": sorted(self.things.items()),
            "calls": list(self.calls),
        }

    def due(self) -> set[tuple[str, str]]:
        """What the sweep finds that no message may be carrying."""
        if self.frozen:
            return set()
        found = set()
        for s in self.steps:
            if s.lease > self.now:
                continue
            is_due = s.due is not None and s.due <= self.now
            if s.state == "requested" and s.requested is not None and s.requested < self.now and (s.due is None or is_due):
                found.add(("invoke", s.ref))
            if s.state == "queued" and is_due:
                found.add(("invoke", s.ref))
            if s.state == "running" or (s.state == "unknown" and is_due):
                found.add(("look", s.ref))
        if self.state == "compensating" and self.walk_lease <= self.now:
            found.add(("compensate", ""))
        return found

    # What the agent does.
    def ask(self, ref: str, value: str = "on", session: int = 0) -> str:
        if session and session != self.session:
            return "StaleSession"
        step = self.step(ref)
        if step.state == "skipped":
            return "NotOpen"
        if step.state not in ("planned", "failed"):
            if step.value == value:
                return self._hear()
            if not (step.state == "closed" and step.closed == "rejected" and step.needs_result):
                return "Improvised"
        return self._request(step, value)

    def ask_off_plan(self, name: str, capability: str = "put_thing") -> str:
        mine = [s for s in self.steps if s.capability == capability]
        if same := next((s for s in mine if s.name == name and s.value == "on"), None):
            return self._request(same, "on") if same.state == "failed" else self._hear()
        if any(s.state not in ("planned", "skipped", "failed") and (s.planned or s.name == name) for s in mine):
            return "Improvised"
        if self.off_plan == "refuse":
            return "OffPlanCall" if self.state in ("open", "checking") else "NotOpen"
        step = Step(len(self.steps) + 1, name, capability, name, planned=False)
        answer = self._request(step, "on")
        if answer == OK:
            self.steps.append(step)
        return answer

    def _request(self, step: Step, value: str) -> str:
        if self.state not in ("open", "checking"):
            return "NotOpen"
        if step.capability in self.disabled:
            return "Invalid"
        if step.state == "failed" and step.tries >= step.tool.attempts:
            return "Refused"
        self.state, self.check, self.person_check = "open", "pending", False
        step.value, step.requested, step.ended, step.due, step.closed, step.intent = value, self.now, None, None, "", None
        if not step.planned and self.off_plan == "hold":
            step.state = "on_hold"
            return OK
        self._wait_or_go(step)
        return OK

    def _wait_or_go(self, step: Step) -> None:
        if not step.tool.irreversible:
            step.state, step.intent = "requested", self._next()
            return
        step.state = "queued"
        item = self.items[step.number] = Item()
        if step.is_gate:
            self._await(step, item)

    def skip(self, ref: str) -> str:
        step = self.step(ref)
        if self.state not in ("open", "checking"):
            return "NotOpen"
        if step.state == "skipped" or (step.state == "closed" and step.closed == "dropped"):
            return self._hear()
        if step.state == "failed":
            self._close(step, "dropped")
            return self._hear()
        if step.state != "planned":
            return "Refused"
        step.state, step.ended = "skipped", self.now
        return self._hear()

    def heartbeat(self, session: int = 0) -> str:
        return "StaleSession" if session and session != self.session else self._hear()

    def resume(self) -> str:
        if self.state not in FORWARD:
            return "NotOpen"
        self.session += 1
        return self._hear()

    def finish(self) -> str:
        if self.state in ("checking", "releasing", "succeeded"):
            return OK
        if self.state != "open":
            return "NotOpen"
        unfinished = {"requested", "running", "unknown", "failed", "on_hold", "planned"}
        if any(s.state in unfinished or (s.state == "queued" and s.needs_result) for s in self.steps):
            return "Unfinished"
        self.state, self.checking_since = "checking", self.now
        self._hear()
        self._advance()
        return OK

    def give_up(self) -> str:
        if self.state == "failed":
            return OK
        if self.state not in FORWARD:
            return "NotOpen"
        self._fail()
        return OK

    # What checkers and time do.
    def report(self, state: str) -> str:
        if not self.has_check:
            return "Invalid"
        self.check, self.reported = state, self.now
        if state == "failure" and self.state in FORWARD:
            self._fail_if_red()
        else:
            releasing = self.state == "releasing"
            self._advance()
            if releasing and self.state == "releasing" and self._green():
                self._open_for_decision()
        return OK

    def confirm_green(self) -> str:
        if self.state != "checking" or self.has_check or self.person_check:
            return "Refused"
        self.person_check = True
        self._advance()
        return OK

    def later(self, units: int) -> str:
        self.now += units
        return OK

    def sweep(self) -> str:
        if self.frozen:
            return OK
        self._fail_if_silent()
        if self.state in FORWARD:
            self._fail_if_red()
        if self.state == "checking" and self.checking_since < self.now - CHECKING_AT_MOST:
            self._fail()
        for step, item in self.ordered():
            if item.state == "awaiting" and item.expires is not None and item.expires <= self.now:
                self._expire(step, item)
        self._expire_lapsed()
        if self.state not in FORWARD | {"stuck"}:
            self._withdraw_rest()
        return OK

    def _fail_if_silent(self) -> None:
        busy = any(s.state in PENDING - {"queued"} or (s.state == "queued" and s.needs_result) for s in self.steps)
        times = [self.heard, *(t for s in self.steps for t in (s.ended, s.requested) if t is not None)]
        if self.state == "open" and not busy and max(times) < self.now - PATIENCE:
            self._fail()

    def _fail_if_red(self) -> None:
        if self.has_check and self.check == "failure" and self.reported <= self.now - self.grace:
            self._fail()

    # What workers do.
    def work(self, ref: str, how: str = "ok") -> str:
        """One message for the step: a worker that may, does it. `how` says what becomes of the call, or of the worker."""
        if self._claim(self.step(ref)):
            self._do(self.step(ref), how)
        return OK

    def take(self, ref: str) -> int:
        """A worker takes it, calls, and stalls before it can write down the answer: the number of its attempt, or 0."""
        step = self.step(ref)
        if not self._claim(step):
            return 0
        self._effect(step)
        return step.attempt

    def bring(self, ref: str, attempt: int) -> str:
        """The stalled worker writes down what it got."""
        step = self.step(ref)
        if step.state == "unknown" or (step.state == "running" and step.attempt == attempt):
            self._take_effect(step)
        elif step.tool.leaves_effect and step.state not in IN_EFFECT:
            self._late(step)
        return OK

    def look(self, ref: str, how: str = "ok") -> str:
        """Somebody looks for a call whose worker was lost or whose answer never came. `how`: ok, blind or killed."""
        step = self.step(ref)
        if self.frozen or step.lease > self.now or step.state not in ("running", "unknown"):
            return OK
        if step.state == "unknown" and step.due is not None and step.due > self.now:
            return OK
        step.state, step.attempt = "unknown", step.attempt + 1
        if not step.tool.leaves_effect:
            self._nothing_happened(step)
        elif not step.tool.probe:
            self._to_a_person(step)
        elif how == "killed":
            step.lease = self.now + LEASE
        elif how == "blind":
            step.due, step.lease = self.now + 0.1, -1.0
        elif step.value and self.things.get(step.name) == step.value:
            self._take_effect(step)
        elif step.started is not None and self.now < step.started + LEASE:
            step.due, step.lease = step.started + LEASE, -1.0
        else:
            self._nothing_happened(step)
        return OK

    def walk(self, how: str = "ok") -> str:
        """A worker walks back. `how`: ok; failing: no undo works; unreadable: no look does; or it is killed in its first undo."""
        if self.state != "compensating" or self.frozen or self.walk_lease > self.now:
            return OK
        if any(s.state in ("running", "unknown") and s.lease > self.now for s in self.steps):
            return OK
        if self.pause:
            self._stop()
            return OK
        while (step := self._next_to_undo()) is not None:
            if not self._deal_with(step, how):
                return OK
        self._walked_back()
        return OK

    def _next_to_undo(self) -> Step | None:
        after = (self.step(self.undo_to).intent or 0) if self.undo_to else 0
        found = [s for s in self.steps if s.state in TO_UNDO and s.intent is not None and s.intent > after]
        return max(found, key=lambda s: s.intent or 0, default=None)

    def _deal_with(self, step: Step, how: str) -> bool:
        """Whether the walk goes on."""
        if step.state in ("running", "unknown"):
            self.look(step.ref)
            if step.state not in ("running", "unknown"):
                return self.state == "compensating"
            if self.state == "compensating" and step.due is None:
                self._stop()
            return False
        if how == "unreadable":
            return self._stopped_at(step, "undo_failed")
        thing = self.things.get(step.name)
        if thing is None:
            return self._undone(step, "gone" if step.state != "undoing" else "undone")
        if thing != step.value and step.number not in self.undo_over:
            return self._stopped_at(step, "drifted")
        if self._crosses_pivot(step):
            return False
        step.state, step.lease = "undoing", self.now + LEASE
        if how == "failing":
            return self._stopped_at(step, "undo_failed")
        if how == "killed before":
            self.walk_lease = self.now + LEASE
            return False
        self.things.pop(step.name)
        self.calls.append(("undo", step.name))
        if how == "killed after":
            self.walk_lease = self.now + LEASE
            return False
        return self._undone(step, "undone")

    def _undone(self, step: Step, how: str) -> bool:
        if self._crosses_pivot(step):
            return False
        step.state, step.lease, step.ended = "undone", -1.0, self.now
        self._draft(step, how)
        return True

    def _stopped_at(self, step: Step, state: str) -> bool:
        step.state, step.lease = state, -1.0
        self._draft(step, "stuck")
        self._stop()
        return False

    def _crosses_pivot(self, step: Step) -> bool:
        if self.override or not any((s.intent or 0) > (step.intent or 0) for s in self._gone_out()):
            return False
        self._stop()
        return True

    def _walked_back(self) -> None:
        sent = [s for s in self.steps if s.state == "sent"]
        if self.undo_to:
            self.state = "failed"
        elif self.override or not sent:
            for step in sent:
                self._leave(step)
            self.state = "compensated"
        else:
            self._stop()

    # What reviewers do.
    def approve(self, ref: str, who: str, stale: bool = False) -> str:
        item = self.items[self.step(ref).number]
        if who in item.yeses and not stale:
            return OK
        if refusal := self._undecidable(self.step(ref), item, who, stale):
            return refusal
        if self.step(ref).capability in self.disabled:
            return "NotDecidable"
        item.yeses.add(who)
        if len(item.yeses) >= self.quorum:
            item.state = "approved"
            if self.step(ref).is_gate:
                self._let_go(self.step(ref))
            else:
                self._send_next()
        return OK

    def reject(self, ref: str, who: str, fate: str) -> str:
        step, item = self.step(ref), self.items[self.step(ref).number]
        if refusal := self._undecidable(step, item, who, stale=False):
            return refusal
        item.state, item.closed = "rejected", True
        item.yeses.discard(who)
        self._close(step, "rejected")
        if fate == "compensate":
            self._fail_and_undo()
        else:
            self._send_next()
            self._advance()
        return OK

    def _undecidable(self, step: Step, item: Item, who: str, stale: bool) -> str:
        in_time = self.state == "releasing" or (step.is_gate and self.state == "open")
        over = item.expires is not None and item.expires <= self.now
        may = who not in self.without_role and who not in self.without_account
        return "" if item.state == "awaiting" and in_time and not over and not stale and may else "NotDecidable"

    def ask_again(self, ref: str) -> str:
        step, item = self.step(ref), self.items[self.step(ref).number]
        if item.state != "expired" or self.state != "releasing":
            return "NotDecidable"
        self._await(step, item)
        return OK

    def drop(self, ref: str) -> str:
        if self.items[self.step(ref).number].state != "expired" or self.state != "releasing":
            return "NotDecidable"
        self._close(self.step(ref), "dropped")
        self._send_next()
        self._advance()
        return OK

    # What on-call does.
    def stop(self) -> str:
        if self.state not in FORWARD:
            return "Refused"
        self._fail()
        return OK

    def compensate(self, *, override: bool = False, to: str = "", over: set[int] | None = None) -> str:
        if self.state == "compensating":
            return OK
        if self.state not in ("failed", "stuck", "succeeded", "left_standing"):
            return "NotCompensatable"
        if not override and self._behind_pivot():
            return "NotCompensatable"
        if to and self.step(to).intent is None:
            return "Invalid"
        if self.state == "left_standing":
            for step in self.steps:
                if step.state == "left_standing" and not step.tool.irreversible and step.done:
                    step.state = "undo_failed"
        self._begin_compensation(to=to, override=override, over=over or set())
        return OK

    def _behind_pivot(self) -> bool:
        last = max((s.intent for s in self._gone_out() if s.intent), default=None)
        if last is None:
            return False
        after = any(s.state in TO_UNDO and (s.intent or 0) >= last for s in self.steps)
        return self.state in ("succeeded", "left_standing") or not after

    def pause_walk(self) -> str:
        if self.state != "compensating":
            return "Refused"
        self.pause = True
        return OK

    def leave_standing(self) -> str:
        if self.state not in ("failed", "stuck"):
            return "Refused"
        if any(s.state in IN_EFFECT and (s.state == "running" or s.lease > self.now) for s in self.steps):
            return "Refused"
        for step in self.steps:
            if step.state in IN_EFFECT:
                self._leave(step)
        self.state = "left_standing"
        return OK

    def settle(self, ref: str, how: str) -> str:
        step = self.step(ref)
        if self.state == "compensating" or step.lease > self.now:
            return "NotSettleable"
        unsent = step.state == "failed" and step.tool.irreversible and self.state not in ENDED
        if not unsent and step.state not in ("unknown", "undo_failed", "drifted"):
            return "NotSettleable"
        if unsent and how != "happened":
            return "NotSettleable"
        if how in ("happened", "never_happened") and step.state not in ("unknown", "failed"):
            return "NotSettleable"
        step.settled, step.due, step.ended = how, None, self.now
        step.done = step.done or how != "never_happened"
        irreversible = step.tool.irreversible
        states = {"happened": "sent" if irreversible else "done", "never_happened": "failed", "undone_by_hand": "settled"}
        step.state = states.get(how, "left_standing")
        if how in ("undone_by_hand", "left_standing"):
            self._draft(step, "settled" if how == "undone_by_hand" else how)
        if irreversible and how != "never_happened":
            self._went_out(step)
        if self.state == "stuck" and self.compensating:
            self._begin_compensation(to=self.undo_to, override=self.override, over=self.undo_over)
        else:
            self._advance()
        return OK

    def let_through(self, ref: str) -> str:
        step = self.step(ref)
        if step.state != "on_hold" or self.state not in FORWARD or step.capability in self.disabled:
            return "Refused"
        self._wait_or_go(step)
        return OK

    def refuse_held(self, ref: str) -> str:
        if self.step(ref).state != "on_hold":
            return "Refused"
        self._close(self.step(ref), "rejected")
        return OK

    def retry_sending(self) -> str:
        lost = any(s.tool.irreversible and s.state == "unknown" and s.due is None for s in self.steps)
        if self.state != "stuck" or self.compensating or (self.has_check and self.check == "failure") or lost:
            return "Refused"
        for step in self.steps:
            if step.tool.irreversible and step.state == "failed":
                step.state, step.tries, step.due, step.ended = "queued", 0, self.now, None
        self._release_again()
        return OK

    def drop_send(self, ref: str) -> str:
        step = self.step(ref)
        if self.state != "stuck" or self.compensating or not (step.tool.irreversible and step.state == "failed"):
            return "Refused"
        self._close(step, "dropped")
        stands = any(s.tool.irreversible and s.state in ("failed", "unknown") for s in self.steps)
        if not stands and not (self.has_check and self.check == "failure"):
            self._release_again()
        return OK

    def _release_again(self) -> None:
        self.state = "releasing"
        self._open_for_decision()
        self._advance()

    # What owners of corrections do, and the worker that posts.
    def hold_back(self, at: int) -> str:
        c = self.corrections[at]
        if c.state not in ("draft", "held_back", "not_delivered"):
            return "NotSendable"
        c.state = "held_back" if c.state == "draft" else c.state
        return OK

    def dismiss(self, at: int) -> str:
        c = self.corrections[at]
        if c.state not in ("draft", "held_back", "not_delivered"):
            return "NotSendable"
        c.state = "dismissed"
        return OK

    def send(self, at: int) -> str:
        c = self.corrections[at]
        if c.state not in ("draft", "held_back", "not_delivered"):
            return "NotSendable"
        if any(self.steps[n - 1].state not in HOLDS[how] for n, how in c.signals.items()) or self._is_said_already(c):
            return "NotSendable"
        c.state = "sending"
        if not self._can_look(c):
            c.in_doubt = False
        return OK

    def _is_said_already(self, c: Correction) -> bool:
        out = [other for other in self.corrections if other is not c and other.state in ("sent", "sending")]
        return any(n in o.signals and (o.signals[n] in GONE) == (how in GONE) for o in out for n, how in c.signals.items())

    def deliver(self, at: int, how: str = "ok") -> str:
        """`how`: ok, refused, lost (it is posted, and no answer comes), silent (no answer, nothing posted), killed (after posting)."""
        c = self.corrections[at]
        if c.state != "sending" or self.frozen or c.lease > self.now:
            return OK
        looks, c.in_doubt, c.attempts = c.in_doubt, True, c.attempts + 1
        if looks and not self._can_look(c):
            c.state = "not_delivered"
        elif looks and c.posted:
            c.state, c.in_doubt = "sent", False
        elif how == "refused":
            c.state, c.in_doubt = "not_delivered", False
        else:
            c.posted += how in ("ok", "lost", "killed")
            if how == "ok":
                c.state, c.in_doubt = "sent", False
            elif how == "killed":
                c.lease = self.now + LEASE
            elif c.attempts >= 5:
                c.state = "not_delivered"
        return OK

    def _can_look(self, c: Correction) -> bool:
        return c.place == "board"

    # How a run moves on.
    def step(self, ref: str) -> Step:
        return next(s for s in self.steps if s.ref == ref)

    def _next(self) -> int:
        self.seq += 1
        return self.seq

    def _hear(self) -> str:
        if self.state in FORWARD:
            self.heard = self.now
        return OK

    def _green(self) -> bool:
        return self.check == "success" if self.has_check else self.person_check

    def _gone_out(self) -> Iterator[Step]:
        for s in self.steps:
            if s.tool.irreversible and (s.state in ("sent", "running", "unknown") or (s.state == "left_standing" and s.intent)):
                yield s

    def ordered(self) -> list[tuple[Step, Item]]:
        return [(self.steps[n - 1], item) for n, item in sorted(self.items.items())]

    def _claim(self, step: Step) -> bool:
        if self.frozen or step.lease > self.now or step.state not in ("requested", "queued") or self.state not in FORWARD:
            return False
        if step.due is not None and step.due > self.now:
            return False
        if step.capability in self.disabled:
            if step.state == "requested":
                self._close(step, "dropped")
            return False
        if step.tool.irreversible and not self._may_send(step):
            return False
        step.state, step.tries, step.attempt = "running", step.tries + 1, step.attempt + 1
        step.started, step.due, step.lease = self.now, None, self.now + LEASE
        step.intent = step.intent or self._next()
        return True

    def _may_send(self, step: Step) -> bool:
        item = self.items[step.number]
        if item.state != "approved":
            return False
        if not (step.is_gate and self.state == "open"):
            if self.state != "releasing" or not self._green() or self._expire_lapsed():
                return False
            if any(i.state in UNDECIDED or (i.state == "approved" and s.number < step.number) for s, i in self.ordered()):
                return False
        if item.yeses & self.without_account:
            self._await(step, item)
            return False
        return True

    def _do(self, step: Step, how: str) -> None:
        if how in ("ok", "lost", "killed after"):
            self._effect(step)
        if how == "ok":
            self._take_effect(step)
        elif how == "refused":
            self._refused(step)
        elif how in ("lost", "silent"):
            step.state, step.due, step.lease = "unknown", self.now, -1.0

    def _effect(self, step: Step) -> None:
        if step.tool.leaves_effect:
            self.things[step.name] = step.value or ""
            self.calls.append(("do", step.name))

    def _take_effect(self, step: Step) -> None:
        step.lease, step.due, step.ended, step.done = -1.0, None, self.now, True
        if step.tool.irreversible:
            step.state = "sent"
            self._went_out(step)
            self._advance()
        else:
            step.state = "done" if step.tool.leaves_effect else "nothing_to_undo"

    def _refused(self, step: Step) -> None:
        if self.state in FORWARD and step.tool.irreversible and step.tries < step.tool.attempts:
            step.state, step.due, step.lease = "queued", self.now, -1.0
        else:
            self._give_up(step)

    def _give_up(self, step: Step) -> None:
        step.state, step.ended, step.due, step.lease = "failed", self.now, None, -1.0
        if self.state == "releasing" or (self.state == "open" and step.tries >= step.tool.attempts):
            self._fail()

    def _nothing_happened(self, step: Step) -> None:
        if self.state not in FORWARD or step.tries >= step.tool.attempts:
            self._give_up(step)
        else:
            step.state, step.due, step.lease = "queued" if step.tool.irreversible else "requested", self.now, -1.0

    def _to_a_person(self, step: Step) -> None:
        step.due, step.lease = None, -1.0
        if self.state in ("releasing", "compensating"):
            self._stop()

    def _late(self, step: Step) -> None:
        step.done = True
        if step.state == "left_standing":
            return
        step.state, step.closed, step.settled = "sent" if step.tool.irreversible else "done", "", ""
        if step.tool.irreversible:
            self._went_out(step)
        if self.state in FORWARD:
            self._advance()
        elif self.state in ("compensating", "stuck") or (self.state == "failed" and self.on_failure == "ask"):
            return
        elif self.pivot or step.tool.irreversible or self.state == "left_standing":
            self._stop()
        else:
            self._begin_compensation()

    def _went_out(self, step: Step) -> None:
        item = self.items[step.number]
        item.state, item.closed, self.pivot = "sent", True, True
        self._send_next()

    def _fail(self) -> None:
        if self.state == "releasing" and self.pivot:
            self._stop()
            return
        self.state = "failed"
        for step in self.steps:
            if step.state in ("requested", "queued", "on_hold"):
                self._close(step, "withdrawn")
        self._withdraw_rest()
        if any(s.state in IN_EFFECT for s in self.steps) and self.on_failure == "compensate":
            self._begin_compensation()

    def _fail_and_undo(self) -> None:
        self._fail()
        if self.state == "failed" and any(s.state in IN_EFFECT for s in self.steps):
            self._begin_compensation()

    def _withdraw_rest(self) -> None:
        for step, item in self.ordered():
            if not item.closed and step.state not in ("running", "unknown"):
                if step.state == "queued":
                    self._close(step, "withdrawn")
                else:
                    item.state, item.closed = "withdrawn", True

    def _close(self, step: Step, why: str) -> None:
        step.state, step.closed, step.ended = "closed", why, self.now
        item = self.items.get(step.number)
        if item is not None and item.state != "rejected":
            item.state, item.closed = why, True

    def _stop(self) -> None:
        self.state, self.walk_lease = "stuck", -1.0

    def _begin_compensation(self, *, to: str = "", override: bool = False, over: set[int] | None = None) -> None:
        self.state, self.compensating, self.pause = "compensating", True, False
        self.undo_to, self.override, self.undo_over = to, override, over or set()

    def _advance(self) -> None:
        if self.state == "checking" and self._green():
            if any(s.state == "queued" for s in self.steps):
                self.state = "releasing"
                self._open_for_decision()
            else:
                self.state = "succeeded"
        going_out = {"queued", "running", "unknown", "failed"}
        if self.state == "releasing" and not any(s.tool.irreversible and s.state in going_out for s in self.steps):
            self.state = "succeeded"

    def _open_for_decision(self) -> None:
        for step, item in self.ordered():
            if item.state == "held":
                self._await(step, item)
        self._send_next()

    def _await(self, step: Step, item: Item) -> None:
        """In front of people, unless the policy wants no yes."""
        if not step.tool.needs_yes and not step.is_gate:
            item.state = "approved"
            return
        item.state, item.expires, item.yeses, step.due = "awaiting", self.now + OPEN_FOR, set(), None

    def _send_next(self) -> None:
        if self.state != "releasing" or any(i.state in UNDECIDED for _, i in self.ordered()) or self._expire_lapsed():
            return
        first = next((s for s, i in self.ordered() if i.state == "approved"), None)
        if first is not None:
            self._let_go(first)

    def _let_go(self, step: Step) -> None:
        if step.state == "queued" and step.due is None:
            step.due = self.now

    def _expire_lapsed(self) -> bool:
        items = [(s, i) for s, i in self.ordered() if not s.is_gate]
        if self.state != "releasing" or any(s.tries for s, _ in items):
            return False
        lapsed = [(s, i) for s, i in items if i.state == "approved" and i.expires is not None and i.expires <= self.now]
        for step, item in lapsed:
            self._expire(step, item)
        return bool(lapsed)

    def _expire(self, step: Step, item: Item) -> None:
        item.state, step.due = "expired", None
        if step.is_gate:
            self._close(step, "expired")
            self._fail_and_undo()

    def _leave(self, step: Step) -> None:
        step.state, step.settled, step.ended, step.lease = "left_standing", "left_standing", self.now, -1.0
        step.done = step.done or step.started is not None
        if step.tool.irreversible:
            self._went_out(step)
        self._draft(step, "left_standing")

    def _draft(self, step: Step, how: str) -> None:
        """One correction for one signal, one message for one place; what went out is never reworded."""
        if not (step.tool.seen and step.tool.leaves_effect and step.done):
            return
        place = f"client:{step.name}" if step.tool.irreversible else "board"
        mine = [c for c in self.corrections if step.number in c.signals and c.state != "dismissed"]
        for c in mine:
            if c.state in ("draft", "held_back", "not_delivered"):
                c.signals[step.number] = how
                return
        if any((c.signals[step.number] in GONE) == (how in GONE) for c in mine):
            return
        for c in self.corrections:
            if c.place == place and c.state in ("draft", "held_back"):
                c.signals[step.number] = how
                return
        self.corrections.append(Correction(place, {step.number: how}))
