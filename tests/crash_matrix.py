"""The crash matrix: at every point of a call's life something dies, for every sort of target; what must come of it is fixed.

`make crash` plays it. A cell is a sort of target, a point and a blow; it has a run of
its own on the real running site, where the failpoint is armed for that run alone, so that cells run side by side.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from django.db import connection

from corrections.models import Correction
from outbox.models import Item
from runs.models import LogEntry, Rules, Run, Step
from tests import checker, ledgers

# The sorts of target, and the capability of tests/shelf.py that stands for each.
PUT, SHOW, BLIND, KEYED, SEND = "put_item", "show_item", "blind_item", "send_keyed", "send_blind"
SORTS = {
    PUT: "reversible, probe",
    SHOW: "compensatable, probe",
    BLIND: "compensatable, no probe",
    KEYED: "irreversible, honours the key",
    SEND: "irreversible, no key, no look-up",
}
SHELVES = {SEND: "shelf-blind"}
KILL, WORKER, WEB, CUT, EMPTY = "child", "worker", "web", "database", "broker"
ACTIONS = {KILL: "kill", WORKER: "kill-worker", WEB: "kill", CUT: "cut", EMPTY: "empty-broker"}
INVOKE, WALK, DELIVER = "runs.tasks.invoke_step", "runs.tasks.compensate_run", "corrections.tasks.deliver_correction"

# The points of each part of a life: those in the web process that is asked, and those in the worker.
ASK = ["commit.before@step.requested", f"publish.before@{INVOKE}", f"publish.after@{INVOKE}", "commit.after@step.requested"]
DO = [
    "commit.before@step.started", "claim.committed", "prepare.before", "prepare.called", "commit.before@step.prepared",
    "prepare.committed", "do.before", "do.after", "commit.before@step.done", "done.committed",
]  # fmt: skip
LOOK = ["commit.before@step.unknown", "look.claimed", "look.before", "look.after"]
PRESS = ["commit.before@run.compensating", f"publish.before@{WALK}", "commit.after@run.compensating"]
UNDO = [
    "walk.claimed", "undo.looking", "undo.looked", "undo.checked", "commit.before@undo.started", "undo.before", "undo.after",
    "undo.verified", "commit.before@undo.verified", "undo.committed", "commit.before@run.compensated", "walk.finished",
]  # fmt: skip
WRITE = ["commit.before@correction.edited", f"publish.before@{DELIVER}"]
CORRECT = ["correct.claimed", "correct.before", "correct.after", "commit.before@correction.sent", "correct.committed"]
YES = ["commit.before@item.decided", f"publish.before@{INVOKE}", "commit.after@item.decided"]
GO = ["commit.before@step.started", "claim.committed", "do.before", "do.after", "commit.before@run.succeeded", "done.committed"]

# Part -> the sorts that have it, its points in web, its points in the worker, and its right end.
PARTS: dict[str, tuple[list[str], list[str], list[str], str]] = {
    "do": ([PUT, SHOW, BLIND], ASK, DO, "done"),
    "look": ([PUT, SHOW], [], LOOK, "done"),
    "undo": ([PUT, SHOW, BLIND], PRESS, UNDO, "undone"),
    "correct": ([SHOW], WRITE, CORRECT, "told"),
    "send": ([KEYED, SEND], YES, GO, "sent"),
}
# Where the answer is that nobody knows: the call may have begun, its record is lost, and nothing can look or repeat. (Before what
# `prepare` found is committed it can't have begun.)
MAY_HAVE_BEGUN = {
    BLIND: {
        "prepare.committed",
        "do.before",
        "do.after",
        "commit.before@step.done",
    },
    SEND: {"claim.committed", "do.before", "do.after", "commit.before@run.succeeded"},
}
WITHIN = 120.0
# After the end no blow falls any more, but for the points that come right behind the end's commit.
WITHOUT_A_BLOW = 10.0


@dataclasses.dataclass(frozen=True)
class Cell:
    """One blow at one point of one part of a life, for one sort of target."""

    part: str
    sort: str
    point: str
    blow: str

    def __str__(self) -> str:
        return f"{self.part}/{self.sort}/{self.point}/{self.blow}"

    @property
    def expected(self) -> str:
        """The one right end. `unknown` only where nobody can know."""
        lost = self.blow in (KILL, WORKER, CUT) and self.point in MAY_HAVE_BEGUN.get(self.sort, ())
        return "unknown" if lost and self.part in ("do", "send") else PARTS[self.part][3]


@dataclasses.dataclass
class Outcome:
    """How a cell ended; `recovery` in seconds from the end of what the dead one held, None where nothing was held."""

    cell: Cell
    end: str = ""
    fired: bool = False
    effects: int = 0
    recovery: float | None = None
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def right(self) -> bool:
        return self.fired and self.end == self.cell.expected and not self.problems

    @property
    def doubled(self) -> bool:
        return self.effects > 1

    @property
    def lost(self) -> bool:
        return self.effects == 0 and self.end in ("done", "undone", "told", "sent")

    @property
    def unrecorded(self) -> bool:
        return self.effects > 0 and self.end not in ("done", "undone", "told", "sent", "unknown")

    @property
    def dead_end(self) -> bool:
        return self.end == "" or any("nobody" in problem or "no person" in problem for problem in self.problems)


def cells() -> list[Cell]:
    """All that make sense: web dies where it acts, workers where they act, and the broker is emptied where a message matters."""
    found = []
    for part, (sorts, in_web, in_worker, _) in PARTS.items():
        for sort in sorts:
            for point in in_web:
                found += [Cell(part, sort, point, blow) for blow in (WEB, CUT)]
                found += [Cell(part, sort, point, EMPTY)] if point.startswith("commit.after") else []
            for point in in_worker:
                found += [Cell(part, sort, point, blow) for blow in (KILL, CUT)]
                found += [Cell(part, sort, point, WORKER)] if not point.startswith("commit.before") else []
                found += [Cell(part, sort, point, EMPTY)] if point.endswith((".claimed", "claim.committed", ".committed")) else []
    # What people could see is told of in the same transaction.
    words = {"commit.before@undo.verified": "commit.before@correction.drafted"}
    found = [dataclasses.replace(cell, point=words.get(cell.point, cell.point)) if cell.sort == SHOW else cell for cell in found]
    # At these the database is not asked any more, so that a broken connection is found by another call.
    idle = {"done.committed", "walk.finished", "correct.committed"}
    return [cell for cell in found if not (cell.blow == CUT and cell.point in idle | {"commit.after@step.requested"})]


def spread() -> list[Cell]:
    """Every sort, every part and every blow but a worker's end, which would hold up the others; at least 20."""
    every = [cell for cell in cells() if cell.blow != WORKER]
    chosen = every[::8]
    one_worker = next(cell for cell in cells() if cell.blow == WORKER and cell.point == "do.after")
    return [*chosen, one_worker]


class Matrix:
    """Plays cells on a running site."""

    def __init__(self, site: Any, token: Any, within: float = WITHIN) -> None:
        self.site, self.token, self.within = site, token, within
        self.reviewer = _signed_in(site, token.people["reviewer"])
        self.owner = _signed_in(site, token.person)
        # As many runs as there are cells, whose agent says nothing while they recover.
        Rules.objects.filter(tokens__token=token).update(patience=3000, open_steps=1000, waiting_items=1000)

    def play(self, chosen: Iterable[Cell]) -> list[Outcome]:
        """Side by side, but the end of a worker or a web process by itself: it takes whatever else that one does with it."""
        chosen = list(chosen)
        together = [cell for cell in chosen if cell.blow not in (WORKER, WEB)]
        with ThreadPoolExecutor(10) as pool:
            outcomes = list(pool.map(self._one, together))
        alone = [[cell] for cell in chosen if cell.blow == WEB]
        for wave in (*alone, *_waves([cell for cell in chosen if cell.blow == WORKER])):
            with ThreadPoolExecutor(len(wave)) as pool:
                played = list(pool.map(self._one, wave))
            # The blow of one may have taken another past its point; that one has not been played yet.
            outcomes += [one if one.fired or len(wave) == 1 else self._one(one.cell) for one in played]
        return sorted(outcomes, key=lambda one: chosen.index(one.cell))  # as they were asked for

    def _one(self, cell: Cell) -> Outcome:
        try:
            return _Life(self, cell).lived()
        except Exception as exc:
            return Outcome(cell, problems=[f"{type(exc).__name__}: {exc}"])
        finally:
            connection.close()


def _waves(chosen: list[Cell]) -> Iterator[list[Cell]]:
    """Those that recover from anything three at a time, the others alone."""
    robust = [cell for cell in chosen if cell.sort not in MAY_HAVE_BEGUN]
    yield from (robust[n : n + 3] for n in range(0, len(robust), 3))
    yield from ([cell] for cell in chosen if cell.sort in MAY_HAVE_BEGUN)


class _Life:
    """One run from its opening to the end that its cell is about."""

    def __init__(self, matrix: Matrix, cell: Cell) -> None:
        self.site, self.token, self.matrix, self.cell = matrix.site, matrix.token, matrix, cell
        self.name = str(cell).translate(str.maketrans("/@.", "---")) + f"-{secrets.token_hex(3)}"
        self.outcome = Outcome(cell)
        self.held_until = 0.0

    def lived(self) -> Outcome:
        body = {"title": self.name, "plan": [self._call()]}
        answer = self._api(self.token, "POST", "/runs", body, Idempotency_Key=self.name)
        assert answer.status_code < 300, answer.text
        self.run = int(answer.json()["run"])
        getattr(self, f"_{self.cell.part}")()
        self._watch()
        self._judge()
        return self.outcome

    def _call(self) -> dict[str, Any]:
        args = {"name": self.name, "shelf": SHELVES.get(self.cell.sort, "shelf")}
        return {"ref": "x", "capability": self.cell.sort, "args": args}

    # The parts: everything before the blow, the blow armed, and the press that leads to it.

    def _do(self) -> None:
        self._arm()
        self._ask()

    def _look(self) -> None:
        self.site.world.fault("shelf", method="PUT", path=f"/items/{self.name}", answer="drop", times=1)
        self._arm()
        self._ask()

    def _undo(self) -> None:
        self._ask()
        self._until(lambda: self._step().state == "done")
        self._api(self.token, "POST", f"/runs/{self.run}/fail", {"reason": "x"})
        self._arm()
        self._api(self.token.on_call, "POST", f"/runs/{self.run}/compensate")

    def _correct(self) -> None:
        self._ask()
        self._until(lambda: self._step().state == "done")
        self._api(self.token, "POST", f"/runs/{self.run}/fail", {"reason": "x"})
        self._api(self.token.on_call, "POST", f"/runs/{self.run}/compensate")
        self._until(lambda: self._state() == "compensated")
        draft = Correction.objects.get(run=self.run)
        self._arm()
        self._press(f"/corrections/{draft.pk}/send/", {"revision": draft.revision}, lambda: draft_state(draft) != "draft")

    def _send(self) -> None:
        self._ask()
        self._api(self.token, "POST", f"/runs/{self.run}/finish")
        self._api(self.token.checker, "PUT", f"/runs/{self.run}/checks/ci", {"state": "success"})
        item = self._until(lambda: Item.objects.filter(step__run=self.run, state="awaiting").first())
        self._arm()
        self._press(f"/outbox/{item.pk}/approve/", {"digest": item.digest}, lambda: Item.objects.get(pk=item.pk).state != "awaiting")

    def _arm(self) -> None:
        point = self.cell.point if "@" in self.cell.point else f"{self.cell.point}"
        self.armed = f"{point}#{self.run}"
        self.site.arm(self.armed, ACTIONS[self.cell.blow])

    def _ask(self) -> None:
        self._api(self.token, "POST", f"/runs/{self.run}/steps", self._call(), Prefer="wait=0")

    # What comes of it.

    def _watch(self) -> None:
        """Waits for the blow, notes until when the dead one held what, and waits for the end."""
        ends = time.monotonic() + self.matrix.within
        over = 0.0
        while time.monotonic() < ends:
            if not self.outcome.fired and (fired := self._fired()):
                self.outcome.fired = True
                self.held_until = fired
            if self._end() == self.cell.expected and not self._held():
                self.outcome.end = self.cell.expected
                over = over or time.monotonic()
                if self.outcome.fired:
                    return
                if time.monotonic() - over > WITHOUT_A_BLOW:
                    self.outcome.problems.append("it was over, and the blow had not fallen")
                    return
            time.sleep(0.2)
        self.outcome.problems.append(f"after {self.matrix.within:g} s it is {self._end() or 'nothing yet'}")
        self.outcome.end = self._end()

    def _fired(self) -> float:
        """When it went off, and then until when whoever was at it holds it."""
        found = next(iter(self.site.failpoints.glob(f"{self.armed}.fired.*")), None)
        if found is None:
            return 0.0
        leases = [self._step().lease_until, Run.objects.get(pk=self.run).lease_until]
        leases += Correction.objects.filter(run=self.run).values_list("lease_until", flat=True)
        return max([found.stat().st_ctime, *(lease.timestamp() for lease in leases if lease is not None)])

    def _held(self) -> bool:
        """Still somebody's, as far as the database knows."""
        return self._step().lease_until is not None

    def _end(self) -> str:
        step, state = self._step(), self._state()
        if self.cell.part == "correct":
            return "told" if Correction.objects.filter(run=self.run, state="sent").exists() else ""
        if self.cell.part == "undo":
            return "undone" if (step.state, state) == ("undone", "compensated") else ""
        if step.state == "unknown":
            told = LogEntry.objects.filter(run=self.run, event="run.paged").exists()
            return "unknown" if step.due_at is None and told else ""
        return step.state if step.state in ("done", "sent", "failed") else ""

    def _judge(self) -> None:
        ledger = ledgers.of_world(self.site.world)
        keys = {step.call_key for step in Step.objects.filter(run=self.run)}
        if self.cell.part == "correct":
            keys = set(Correction.objects.filter(run=self.run).values_list("key", flat=True))
        self.outcome.effects = sum(call.effect and call.verb == "do" and call.key in keys for call in ledger.read())
        last = LogEntry.objects.filter(run=self.run).exclude(event="run.paged").order_by("-seq").first()
        assert last is not None
        if self.cell.blow in (KILL, WORKER, CUT) and self.outcome.fired:
            self.outcome.recovery = max(last.at.timestamp() - self.held_until, 0.0)
        try:
            checker.check(ledger, runs=[self.run], overdue_after=30.0)
        except AssertionError as exc:
            self.outcome.problems += str(exc).splitlines()[1:]

    # The site, asked as a client that tries again when nobody answers.

    def _api(self, token: Any, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return _patiently(lambda: self.site.api(token, method, path, body, **headers))

    def _press(self, path: str, form: dict[str, Any], pressed: Any) -> None:
        """A person's press, made again while nothing came of it."""
        for _ in range(10):
            _patiently(lambda: self._post(path, form))
            if pressed():
                return
            time.sleep(0.3)
        raise AssertionError(f"nothing comes of {path}")

    def _post(self, path: str, form: dict[str, Any]) -> httpx.Response:
        cookies = self.matrix.reviewer if path.startswith("/outbox") else self.matrix.owner
        data = {**form, "csrfmiddlewaretoken": cookies["csrftoken"]}
        return httpx.post(f"{self.site.url}{path}", data=data, cookies=cookies, timeout=30, trust_env=False)

    def _step(self) -> Step:
        return Step.objects.get(run=self.run)

    def _state(self) -> str:
        return str(Run.objects.get(pk=self.run).state)

    def _until(self, holds: Any) -> Any:
        ends = time.monotonic() + self.matrix.within
        while not (found := holds()):
            assert time.monotonic() < ends, "it did not get as far as the blow"
            time.sleep(0.1)
        return found


def draft_state(draft: Correction) -> str:
    return str(Correction.objects.get(pk=draft.pk).state)


def _patiently(call: Any) -> httpx.Response:
    for attempt in range(20):
        try:
            answer: httpx.Response = call()
        except httpx.TransportError:
            answer = httpx.Response(503)
        if answer.status_code < 500 and answer.status_code != 429:
            return answer
        time.sleep(0.2 + 0.1 * attempt)
    raise AssertionError(f"the site does not answer: {answer.status_code}")


TOKEN = "c" * 32


def _signed_in(site: Any, person: Any) -> dict[str, str]:
    """The cookies of a person who signed in on the login page."""
    form = {"username": person.username, "password": "a long password", "csrfmiddlewaretoken": TOKEN}
    answer = httpx.post(f"{site.url}/login/", data=form, cookies={"csrftoken": TOKEN}, timeout=30, trust_env=False)
    return {"csrftoken": TOKEN, **dict(answer.cookies)}


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """Cell by cell, and the totals."""
    for one in outcomes:
        took = f"{one.recovery:6.1f} s" if one.recovery is not None else "       -"
        verdict = "ok" if one.right else "WRONG: " + "; ".join(one.problems or [f"{one.end or 'no end'}, fired: {one.fired}"])
        cell = one.cell
        yield f"{SORTS[cell.sort]:33} {cell.part:8} {cell.point:45} {cell.blow:9} {one.end:8} {took}  {verdict}"
    yield totals(outcomes)


def totals(outcomes: list[Outcome]) -> str:
    recoveries = sorted(one.recovery for one in outcomes if one.recovery is not None) or [0.0]
    counted = Counter({"doubled": 0, "lost": 0, "unrecorded": 0, "dead ends": 0})
    for one in outcomes:
        counted.update({"doubled": one.doubled, "lost": one.lost, "unrecorded": one.unrecorded, "dead ends": one.dead_end})
    p50, p99 = (recoveries[min(int(len(recoveries) * part), len(recoveries) - 1)] for part in (0.5, 0.99))
    said = ", ".join(f"{count} {what}" for what, count in counted.items())
    unknown = sum(one.end == "unknown" for one in outcomes)
    wrong = sum(not one.right for one in outcomes)
    return (
        f"{len(outcomes)} cells: {wrong} wrong, {said}, {unknown} unknown (each by the table); "
        f"recovery after lease expiry p50 {p50:.1f} s, p99 {p99:.1f} s"
    )
