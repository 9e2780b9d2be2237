"""Rehearses do, undo and verify_undone on a sandbox, in a run of its own, so that the undo is known to work."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import transaction

from runs import keys, lifecycle, registry
from runs import plan as planning
from runs.clock import Clock
from runs.engine.compensate import compensate
from runs.engine.invoke import invoke, look
from runs.exceptions import Invalid
from runs.locking import locked_run
from runs.models import CapabilityRecord, Run, Step
from runs.states import RunState, StepState
from sagaboard.accounts.models import Team, User

WALKS_WITHIN = 300.0


@dataclasses.dataclass(frozen=True)
class Drilled:
    """How a drill ended: `says` in a sentence, for the person who pressed."""

    run: Run
    proven: bool
    says: str


def _walk(run: Run) -> None:
    """Walks back here, or waits for the worker that was quicker to take the walk."""
    until = time.monotonic() + WALKS_WITHIN
    while time.monotonic() < until:
        compensate(run.pk)
        run.refresh_from_db()
        if run.state != RunState.COMPENSATING:
            return
        time.sleep(0.1)


def drill(name: str, args: dict[str, Any], *, by: User, team: Team) -> Drilled:
    """Does the call on a sandbox target and undoes it; the capability's version counts as proven if the undo was verified."""
    capability = registry.find(name)
    if capability is None:
        raise Invalid(f"No capability is called “{name}”.")
    if not capability.leaves_effect or not capability.has("undo") or not capability.has("verify_undone"):
        raise Invalid(f"{name} has nothing to rehearse: it {'leaves no effect' if not capability.leaves_effect else 'has no undo'}.")
    problems = planning.wrong_arguments(capability, args, complete=True)
    if problems:
        raise Invalid(f"The arguments don't fit: {'; '.join(problems)}.")
    _check_sandbox(planning.validated(capability, args).model_dump(mode="json"))
    run, step = _begin(name, args, by, team)
    invoke(run.pk, step.pk)
    look(run.pk, step.pk)
    return _undo(run, step, by)


def _check_sandbox(args: Any) -> None:
    """A drill leaves traces, if only for seconds: the targets it names, or has by default, must be declared sandboxes."""
    for target in _targets(args):
        if not settings.SAGABOARD_TARGETS[target].get("sandbox"):
            raise Invalid(f'“{target}” is not a sandbox. Drill on a target with "sandbox": true in SAGABOARD_TARGETS.')


def _targets(value: Any) -> Iterator[str]:
    """Every configured target that is named anywhere in the arguments."""
    if isinstance(value, str):
        if value in settings.SAGABOARD_TARGETS:
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _targets(part)
    elif isinstance(value, list):
        for part in value:
            yield from _targets(part)


def _begin(name: str, args: dict[str, Any], by: User, team: Team) -> tuple[Run, Step]:
    record = CapabilityRecord.objects.get(name=name)
    capability = registry.find(name)
    assert capability is not None
    how = registry.effective(capability, record, planning.validated(capability, args), proof=False)
    if how.kind == "irreversible":
        raise Invalid(f"On this target {name} can't be taken back ({how.read_by or 'it is irreversible'}); drill it where it can.")
    with transaction.atomic(durable=True):
        run = Run.objects.create(team=team, title=f"Drill of {name}", agent="drill", owner=by, opened_by=by, is_drill=True, has_plan=False)
        run.append("run.opened", actor=f"person:{by}", drill=name)
        step = Step.objects.create(
            run=run,
            number=1,
            ref="drill",
            capability=name,
            state=StepState.REQUESTED,
            kind=how.kind,
            # What a drill shows on a sandbox is no signal to anybody, so nothing is to be corrected.
            audience="machines",
            version=record.version,
            args=args,
            args_digest=keys.digest(args),
            key=keys.intent(capability, "drill", args),
            call_key=keys.of_call(run.nonce, keys.intent(capability, "drill", args), keys.digest(args)),
            intent_seq=2,
            requested_at=Clock(),
        )
        run.append("step.requested", step=step, actor=f"person:{by}", capability=name, args=args, version=record.version)
    return run, step


def _undo(run: Run, step: Step, by: User) -> Drilled:
    step.refresh_from_db()
    done = step.state
    with locked_run(run.pk) as locked:
        if locked.state == RunState.OPEN:
            lifecycle.fail(locked, "the drill's end", actor=f"person:{by}")
        if locked.state == RunState.FAILED and done == StepState.DONE:
            lifecycle.begin_compensation(locked, actor=f"person:{by}", why="drill")
    _walk(run)
    step.refresh_from_db()
    proven = step.state == StepState.UNDONE
    says = "do, undo and verify_undone worked" if proven else f"{step.get_state_display().lower()}: {step.undo_error or step.error}"
    with locked_run(run.pk) as locked:
        locked.append("capability.drilled", step=step, actor=f"person:{by}", proven=proven, says=says)
        if proven:
            CapabilityRecord.objects.filter(name=step.capability, version=step.version).update(
                proven_version=step.version, proven_at=locked.now, proven_how=f"drill, run {run.number}"
            )
    return Drilled(run, proven, says)
