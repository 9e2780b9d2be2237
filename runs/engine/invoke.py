"""One attempt at a step: the intent is in the log already, here the call is made and its outcome written down."""

from __future__ import annotations

import dataclasses
import logging

from runs.engine import claim, record
from runs.engine.attempt import Attempt, LeaseTooShort, reason_of
from runs.exceptions import NoEffect
from runs.failpoints import reach

log = logging.getLogger(__name__)


def invoke(run_id: int, step_id: int) -> None:
    """One attempt at the step, unless it has ended or another worker holds it."""
    attempt = claim.to_do(run_id, step_id)
    if attempt is None:
        return
    name = attempt.capability.name
    reach("claim.committed", name, run_id)
    if not _prepare(attempt):
        return
    reach("do.before", name, run_id)
    # No transaction is open here: the call may take minutes and can't be rolled back.
    try:
        effect = attempt.begin(attempt.capability.do)
        reach("do.after", name, run_id)
    except NoEffect as exc:
        record.failed(attempt, exc)
    except LeaseTooShort:
        log.warning("Step %s: too late to begin, the lease is nearly over.", step_id)
        record.fenced(attempt)
    except Exception as exc:  # whatever else it was, the call may have happened: looked for before another attempt
        record.unknown(attempt, exc)
    else:
        record.done(attempt, effect)
        reach("done.committed", name, run_id)


def _prepare(attempt: Attempt) -> bool:
    """Commits what only beforehand can be known, once per step. False: the step is not ours or ended here."""
    if attempt.has_prepared or not attempt.capability.has("prepare"):
        return True
    reach("prepare.before", attempt.capability.name, attempt.run_id)
    try:
        found = attempt.begin(attempt.capability.prepare)
    except LeaseTooShort:
        record.fenced(attempt)
        return False
    except Exception as exc:  # `prepare` only reads, so nothing has happened
        record.failed(attempt, exc if isinstance(exc, NoEffect) else NoEffect(f"It could not be prepared: {reason_of(exc)}"))
        return False
    reach("prepare.called", attempt.capability.name, attempt.run_id)
    attempt.call = dataclasses.replace(attempt.call, prepared=found)
    ours = record.prepared(attempt, found)
    reach("prepare.committed", attempt.capability.name, attempt.run_id)
    return ours


def look(run_id: int, step_id: int) -> None:
    """Finds out what became of a call: by its target, else by the log, else by asking again with the same key, else by a person."""
    attempt = claim.to_look(run_id, step_id)
    if attempt is None:
        return
    capability = attempt.capability
    reach("look.claimed", capability.name, run_id)
    if not capability.leaves_effect:
        record.repeatable(attempt)
        return
    if not capability.has("probe"):
        _without_probe(attempt)
        return
    reach("look.before", capability.name, run_id)
    try:
        effect = attempt.begin(capability.probe)
        reach("look.after", capability.name, run_id)
    except Exception as exc:  # a look changes nothing, so whatever went wrong it can be repeated
        record.no_answer(attempt, exc)
        return
    if effect is None:
        record.not_found(attempt)
    else:
        record.done(attempt, effect, how="probed")


def _without_probe(attempt: Attempt) -> None:
    capability = attempt.capability
    if capability.has("prepare") and not attempt.has_prepared:
        # `do` is called only once what `prepare` found is committed; a worker that wakes now does not get to commit it.
        record.not_begun(attempt)
    elif capability.honours_key:
        record.repeatable(attempt)
    else:
        record.for_a_person(attempt)
