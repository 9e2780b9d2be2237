"""Rehearses do, undo and verify_undone on a sandbox, in a run of its own, so that the undo is known to work."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from guardian.shortcuts import get_objects_for_user

from runs import bell, keys, registry
from runs import plan as planning
from runs.capability import Capability
from runs.clock import Clock
from runs.engine.drill import WALKS_WITHIN, go_on, queue_of
from runs.exceptions import Invalid, NotAllowed
from runs.models import CapabilityRecord, Run, Step
from runs.pauses import targets_in
from runs.states import StepState
from sagaboard.accounts.models import Team, User

DRILL = "runs.drill_capability"


@dataclasses.dataclass(frozen=True)
class Drilled:
    """How a drill ended: `says` in a sentence, for the person who pressed."""

    run: Run
    proven: bool
    says: str


def drill(name: str, args: dict[str, Any], *, by: User, team: Team) -> Drilled:
    """Does the call on a sandbox target and undoes it, here; the version counts as proven if the undo was verified."""
    run, step = _begin(name, args, by, team, uuid.uuid4())
    proven, says = go_on(run.pk, waits=WALKS_WITHIN) or (False, f"{step.get_state_display().lower()}: it did not end in time")
    run.refresh_from_db()
    return Drilled(run, proven, says)


def start_drill(name: str, args: dict[str, Any], *, by: User, team: Team, once: uuid.UUID | None = None) -> Run:
    """The same by a worker, which has the credentials that pages have not. `once` is the form's: pressed again, it is the first drill."""
    check_drill_right(by, name)
    run, _ = _begin(name, args, by, team, once or uuid.uuid4())
    bell.ring_at(queue_of(run.pk), "runs.tasks.drill_run", run.pk)
    return run


def check_drill_right(by: User, name: str) -> None:
    """NotAllowed unless this person may drill this capability, by a role or by this very row."""
    if not may_drill(by, CapabilityRecord.objects.filter(name=name).first()):
        raise NotAllowed("You may not do this: it wants the right “drill capability”.")


def may_drill(by: User, record: CapabilityRecord | None) -> bool:
    """Whether this person may drill this capability; without one, whether they may drill any."""
    allowed = by.has_perm(DRILL) or (record is not None and by.has_perm(DRILL, record))
    return by.is_active and allowed


def drillable_by(by: User) -> QuerySet[CapabilityRecord]:
    """Those that this person may drill, as `may_drill` judges one."""
    return get_objects_for_user(by, DRILL, CapabilityRecord) if by.is_active else CapabilityRecord.objects.none()


def sandboxes(args: dict[str, Any], name: str) -> list[str]:
    """The targets that a drill with these arguments would touch; Invalid, naming it, where one is no sandbox."""
    capability = _drillable(name, args)
    filled = planning.validated(capability, args).model_dump(mode="json")
    _check_sandbox(filled)
    return sorted(set(targets_in(filled)))


def _drillable(name: str, args: dict[str, Any]) -> Capability[Any]:
    capability = registry.find(name)
    if capability is None:
        raise Invalid(f"No capability is called “{name}”.")
    if not capability.leaves_effect or not capability.has("undo") or not capability.has("verify_undone"):
        raise Invalid(f"{name} has nothing to rehearse: it {'leaves no effect' if not capability.leaves_effect else 'has no undo'}.")
    problems = planning.wrong_arguments(capability, args, complete=True)
    if problems:
        raise Invalid(f"The arguments don't fit: {'; '.join(problems)}.")
    return capability


def _check_sandbox(args: Any) -> None:
    """A drill leaves traces, if only for seconds: the targets it names, or has by default, must be declared sandboxes."""
    for target in targets_in(args):
        if not settings.SAGABOARD_TARGETS[target].get("sandbox"):
            raise Invalid(f'“{target}” is not a sandbox. Drill on a target with "sandbox": true in SAGABOARD_TARGETS.')


def _begin(name: str, args: dict[str, Any], by: User, team: Team, once: uuid.UUID) -> tuple[Run, Step]:
    capability = _drillable(name, args)
    _check_sandbox(planning.validated(capability, args).model_dump(mode="json"))
    record = CapabilityRecord.objects.get(name=name)
    # Nobody's form can name a run that somebody else opened, or that is no drill of this.
    nonce = uuid.uuid5(once, f"drill of {name} by {by.pk}")
    how = registry.effective(capability, record, planning.validated(capability, args), proof=False)
    if how.kind == "irreversible":
        raise Invalid(f"On this target {name} can't be taken back ({how.read_by or 'it is irreversible'}); drill it where it can.")
    with transaction.atomic(durable=True):
        # A second press waits here for the first.
        CapabilityRecord.objects.select_for_update(no_key=True).get(pk=record.pk)
        if (before := Run.objects.filter(is_drill=True, nonce=nonce).first()) is not None:
            return before, before.steps.get()
        fields: dict[str, Any] = {"owner": by, "opened_by": by, "is_drill": True, "has_plan": False, "nonce": nonce}
        run = Run.objects.create(team=team, title=f"Drill of {name}", agent="drill", **fields)
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
