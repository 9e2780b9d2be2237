"""Editing, sending, holding back, dismissing. Sending is a step like any other: intent, lease, probe, the same key."""

from __future__ import annotations

from corrections import delivery, drafting, wording
from corrections.exceptions import NotSendable, StaleEdit
from corrections.models import Correction
from corrections.states import EDITABLE, CorrectionState
from runs import bell
from runs.exceptions import NotAllowed
from runs.locking import locked_run
from runs.models import Run
from sagaboard.accounts.models import User

WORDS = ("seen", "reverted_to", "what_to_do", "back_when")


def may_send(user: User, correction: Correction) -> bool:
    """The run's owner, the owner of the audience, and whoever has the right in the run's team."""
    return Correction.objects.sendable_by(user).filter(pk=correction.pk).exists()


def edit(correction: Correction, *, by: User, revision: int, questions_to: User | None = None, **words: str) -> Correction:
    """Saves the owner's words; StaleEdit if somebody else saved since `revision`."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        if current.revision != revision:
            raise StaleEdit(current.edited_by)
        before = {name: getattr(current, name) for name in WORDS}
        for name in WORDS:
            setattr(current, name, words.get(name, before[name]).strip())
        changed = {name: {"was": before[name], "is": getattr(current, name)} for name in WORDS if getattr(current, name) != before[name]}
        if questions_to is not None and questions_to.pk != current.questions_to_id:
            changed["questions_to"] = {"was": str(current.questions_to), "is": str(questions_to)}
            current.questions_to = questions_to
        if changed:
            _save_edit(run, current, by, changed)
        return current


def _save_edit(run: Run, correction: Correction, by: User, changed: dict[str, dict[str, str]]) -> None:
    correction.revision += 1
    correction.edited_by, correction.edited_at = str(by), run.now
    correction.save(update_fields=[*WORDS, "questions_to", "revision", "edited_by", "edited_at"])
    run.append("correction.edited", actor=f"person:{by}", correction=correction.pk, changed=changed)


def send(correction: Correction, *, by: User, revision: int) -> Correction:
    """Sends exactly the revision that was on the page; NotSendable, with all reasons, if it can't go."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        if current.revision != revision:
            raise StaleEdit(current.edited_by)
        if against := wording.problems(current):
            raise NotSendable(" ".join(["Nothing was sent.", *against]))
        _address(current)
        current.text, current.sent_by, current.error, current.due_at = wording.render_text(current), str(by), "", run.now
        current.move(CorrectionState.SENDING, "text", "sent_by", "error", "due_at", "recipient", "address", "in_doubt")
        run.append("correction.edited", actor=f"person:{by}", correction=current.pk, sending=True, text=current.text)
        bell.ring("corrections.tasks.deliver_correction", run.pk, current.pk)
        return current


def _address(correction: Correction) -> None:
    """To whoever owns the audience now. Where an earlier attempt can't be looked for, this person has decided that it goes."""
    owned = drafting.owner_of(correction.audience)
    if owned is not None:
        correction.recipient, correction.address = str(owned.owner), owned.address
    if not delivery.can_look(correction):
        correction.in_doubt = False


def hold_back(correction: Correction, *, by: User) -> None:
    """Stops a draft from going by itself."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        if current.state == CorrectionState.DRAFT:
            current.move(CorrectionState.HELD_BACK)
            run.append("correction.edited", actor=f"person:{by}", correction=current.pk, held_back=True)


def dismiss(correction: Correction, *, by: User, reason: str) -> None:
    """No message is sent, because a named person said why none is needed."""
    if not reason.strip():
        raise NotSendable("A reason is required: why does nobody need to be told?")
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        current.dismissed_by, current.dismissed_why = str(by), reason
        current.move(CorrectionState.DISMISSED, "dismissed_by", "dismissed_why")
        run.append("correction.dismissed", actor=f"person:{by}", correction=current.pk, why=reason)


def _current(correction: Correction, by: User) -> Correction:
    """The correction as it is behind the lock, if this person may change it and it can still be changed."""
    current = Correction.objects.select_related("run__team", "run__owner", "questions_to").get(pk=correction.pk)
    if not may_send(by, current):
        raise NotAllowed(f"You may not send for {current.run.team}. Its owner is {current.run.owner}.")
    if current.state not in EDITABLE:
        raise NotSendable(_what_is_so(current))
    return current


def _what_is_so(correction: Correction) -> str:
    if correction.state == CorrectionState.SENT:
        return f"{correction.sent_by} sent this at {correction.sent_at:%H:%M:%S} UTC."
    if correction.state == CorrectionState.DISMISSED:
        return f"{correction.dismissed_by} dismissed this: {correction.dismissed_why}"
    return f"{correction.sent_by} is sending this."
