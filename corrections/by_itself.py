"""Corrections that a policy sends after a delay: the facts are read again first, from the log and from the systems themselves."""

from __future__ import annotations

from corrections import sending, wording
from corrections.delivery import BY_ITSELF
from corrections.models import Correction
from corrections.states import CorrectionState
from runs import registry
from runs.clock import Clock
from runs.engine.attempt import bounded, call_for, reason_of
from runs.freezing import is_frozen
from runs.locking import locked_run
from runs.models import Run, Step
from runs.paging import page

TAKEN_BACK = ("undone", "gone")


def send_by_itself(run_id: int, correction_id: int) -> None:
    """Sends a draft whose time has come, unless anything is no longer as it says: then it waits for its owner."""
    draft = Correction.objects.with_everything().filter(pk=correction_id, state=CorrectionState.DRAFT, goes_at__lte=Clock()).first()
    if draft is None or is_frozen():
        return
    # Before the lock: looking may take long, and what a person does meanwhile is seen by the revision.
    against = _changed_since(draft)
    with locked_run(run_id) as run:
        current = Correction.objects.with_everything().get(pk=correction_id)
        if current.state != CorrectionState.DRAFT or current.goes_at is None or current.goes_at > run.now:
            return
        if current.revision != draft.revision:
            return
        against = against or wording.problems(current)
        if against:
            _wait(run, current, against)
        else:
            sending.go(run, current, by=BY_ITSELF, actor="engine")


def _changed_since(draft: Correction) -> list[str]:
    """What the systems themselves say against it."""
    steps = {step.number: step for step in draft.steps.all()}
    told = [steps[one["step"]] for one in draft.signals if one["how"] in TAKEN_BACK and one["step"] in steps]
    return [said for step in told if (said := _says_of(step))]


def _says_of(step: Step) -> str:
    """In a sentence, why it can't be said that this effect is gone; nothing where it can."""
    capability = registry.find(step.capability)
    if capability is None:
        return f"No code defines {step.capability} any more, so nobody could look whether step {step.number} is still undone."
    try:
        gone = bounded(capability.verify_undone, call_for(capability, step))
    except Exception as exc:  # no answer: nothing is said on a guess
        return f"Whether step {step.number} is still undone could not be looked at: {reason_of(exc)}."
    return "" if gone else f"The effect of step {step.number} is there again."


def _wait(run: Run, draft: Correction, against: list[str]) -> None:
    why = " ".join(against)
    draft.goes_at, draft.error = None, why
    draft.save(update_fields=["goes_at", "error"])
    run.append("correction.edited", correction=draft.pk, waits=why)
    page(run, "a correction did not go by itself", why, people=[run.owner])
