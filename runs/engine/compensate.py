"""The way back: undoes a run from its log, in reverse, one verified step at a time, and stops rather than improvise."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError

from runs import dispatch, registry
from runs.capability import Call, Capability
from runs.engine import walk
from runs.engine.attempt import LeaseTooShort, bounded, call_for, patience_of, reason_of
from runs.engine.invoke import look
from runs.exceptions import NoEffect
from runs.failpoints import reach
from runs.models import Step
from runs.states import StepState

log = logging.getLogger(__name__)


def compensate(run_id: int, queue: str = Capability.queue) -> None:
    """Walks back as far as it can. Killed anywhere, it is resumed from the log at the right step.

    `queue` is the one whose workers we are; a step of another is handed to those.
    """
    held = walk.claim(run_id)
    if held is None:
        return
    reach("walk.claimed", run=run_id)
    while True:
        step = walk.next_step(held)
        if step is None:
            walk.finish(held)
            reach("walk.finished", run=run_id)
            return
        if (theirs := dispatch.queue_of(step)) != queue:
            walk.hand_over(held, theirs)
            return
        if not _deal_with_or_stop(held, step):
            return


def _deal_with_or_stop(held: walk.Walk, step: Step) -> bool:
    """Nothing that goes wrong on our own side may wedge a run: it stops in front of a person, like any other undo."""
    try:
        return _deal_with(held, step)
    except LeaseTooShort:
        log.warning("Run %s, step %s: too late to begin, the walk's lease is nearly over.", step.run_id, step.number)
        return False
    except DatabaseError:
        raise  # the database is away; the lease ends, and the sweep brings the walk back
    except Exception as exc:
        log.exception("Run %s, step %s: the walk can't go on.", step.run_id, step.number)
        step.refresh_from_db()
        return walk.undo_failed(held, step, f"it can't be dealt with: {reason_of(exc)}")


def _deal_with(held: walk.Walk, step: Step) -> bool:
    """Brings one step to an end; False: the walk waits, or stopped for a person."""
    if step.state in (StepState.RUNNING, StepState.UNKNOWN):
        look(step.run_id, step.pk)
        return walk.after_look(held, step)
    capability = registry.find(step.capability)
    if capability is None:
        return walk.undo_failed(held, step, f"no code defines {step.capability} any more, so nothing can undo it")
    if not capability.has("undo") or not capability.has("verify_undone"):
        return walk.undo_failed(held, step, "no undo is written for it")
    return _Undo(held, step, capability).run()


@dataclasses.dataclass
class _Undo:
    """One undo: is it gone already, is it still as we left it, then undo and see."""

    held: walk.Walk
    step: Step
    capability: Capability[Any]

    def run(self) -> bool:
        over = self.step.number in self.held.undo_over
        self.call = dataclasses.replace(call_for(self.capability, self.step), over=over)
        try:
            gone = self._look(self.capability.verify_undone)
        except Exception as exc:  # no definite answer: nothing is undone on a guess
            return walk.undo_failed(self.held, self.step, f"could not look whether it is still there: {reason_of(exc)}")
        if gone:
            return walk.undone(self.held, self.step, already=self.step.state != StepState.UNDOING)
        return self._if_still_ours() and self._undo()

    def _if_still_ours(self) -> bool:
        if not self.capability.has("verify_done") or self.call.over:
            return True
        try:
            ours = self._look(self.capability.verify_done)
        except Exception as exc:
            return walk.undo_failed(self.held, self.step, f"could not look whether it is still as we left it: {reason_of(exc)}")
        if ours:
            return True
        return walk.drifted(self.held, self.step, drift_in_words(self.capability, self.call))

    def _undo(self) -> bool:
        if self.step.state == StepState.UNDOING and not self.capability.undo_repeatable:
            return walk.undo_failed(self.held, self.step, "an undo was begun, its end was lost, and it can't be repeated")
        name = self.capability.name
        reach("undo.checked", name, self.held.run_id)
        if not walk.undo_started(self.held, self.step, self.capability):
            return False
        reach("undo.before", name, self.held.run_id)
        error = ""
        try:
            self.held.begin(self.capability.undo, self.call)
            reach("undo.after", name, self.held.run_id)
        except LeaseTooShort:
            raise
        except NoEffect as exc:
            error = exc.reason
            # Changed between our look and the undo, which compares for itself: drift, and not a failure.
            if not self._if_still_ours():
                return False
        except Exception as exc:  # what counts is what `verify_undone` sees
            error = reason_of(exc)
        if self._gone_in_time():
            reach("undo.verified", name, self.held.run_id)
            ours = walk.undone(self.held, self.step, already=False)
            reach("undo.committed", name, self.held.run_id)
            return ours
        if self.capability.undo_repeatable and self.step.undo_tries < self.capability.retry.attempts and error:
            time.sleep(patience_of(self.capability.retry.backoff))
            return walk.again(self.held, self.step, error)
        why = error or "the undo answered, and the effect is still there"
        return walk.undo_failed(self.held, self.step, why)

    def _gone_in_time(self) -> bool:
        """Asks until it is gone, with the patience that a slow system wants."""
        ends, pause = time.monotonic() + patience_of(self.capability.verify_for), 0.1
        while True:
            try:
                if bounded(self.capability.verify_undone, self.call):
                    return True
            except Exception as exc:
                log.info("Run %s, step %s: %s", self.step.run_id, self.step.number, reason_of(exc))
            if time.monotonic() + pause > ends:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 2.0)

    def _look(self, method: Callable[[Call[Any]], bool]) -> bool:
        """A look, repeated while the system gives no answer, within the capability's patience."""
        ends, pause = time.monotonic() + patience_of(self.capability.verify_for), 0.2
        while True:
            try:
                reach("undo.looking", self.capability.name, self.held.run_id)
                says = bounded(method, self.call)
                reach("undo.looked", self.capability.name, self.held.run_id)
                return says
            except Exception:
                if time.monotonic() + pause > ends:
                    raise
                time.sleep(pause)
                pause *= 2


def drift_in_words(capability: Capability[Any], call: Call[Any]) -> str:
    """What is different now, if the capability can tell."""
    try:
        return str(bounded(capability.drift, call)) if capability.has("drift") else "somebody changed it since"
    except Exception as exc:
        return f"somebody changed it since ({reason_of(exc)})"
