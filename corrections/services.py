"""Editing, sending, holding back, dismissing. Sending is a step like any other: intent, lease, probe, the same key."""

from __future__ import annotations

from corrections import drafting, places, reports, sending, wording
from corrections.exceptions import NotSendable, StaleEdit
from corrections.models import Correction, Template
from corrections.states import EDITABLE, CorrectionState, Kind
from runs import bell, keys
from runs.exceptions import NotAllowed
from runs.locking import locked_run
from runs.models import Run
from sagaboard.accounts.models import User

WORDS = drafting.WORDS


def may_send(user: User, correction: Correction) -> bool:
    """The run's owner, the owner of the audience, and whoever has the right in the run's team."""
    return Correction.objects.sendable_by(user).filter(pk=correction.pk).exists()


def edit(correction: Correction, *, by: User, revision: int, questions_to: User | None = None, page: str = "", **words: str) -> Correction:
    """Saves the owner's words; StaleEdit if somebody else saved since `revision`. `page` names the open page they are from."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        if current.revision != revision and not (page and current.edited_in == page and current.edited_by == str(by)):
            raise StaleEdit(current.edited_by)
        current.edited_in = page
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
    if correction.goes_at is not None:
        # Whoever writes is not overtaken by the clock.
        correction.goes_at = drafting.goes_at(drafting.owner_of(correction.audience), run)
    correction.save(update_fields=[*WORDS, "questions_to", "revision", "edited_by", "edited_at", "edited_in", "goes_at"])
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
        sending.go(run, current, by=str(by), actor=f"person:{by}")
        return current


def _address(correction: Correction) -> None:
    """To whoever owns the audience now. Where an earlier attempt can't be looked for, this person has decided that it goes."""
    owned = drafting.owner_of(correction.audience)
    if owned is not None:
        correction.recipient, correction.address = str(owned.owner), owned.address
    if not places.can_look(correction):
        correction.in_doubt = False


def hand_over(correction: Correction, *, by: User, to: str) -> Correction:
    """Another place for it, named by the key of one of `places.left`. It is held back until somebody sends it there."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        place = next((one for one in places.left(current) if one.key == to), None)
        if place is None:
            raise NotSendable("It can’t go there. Choose one of the places below.")
        if Correction.objects.unsent().filter(run=run, place_key=place.key).exists():
            raise NotSendable(f"A draft for {place.label} is there already: send or dismiss that one first.")
        was = current.place_label
        for name, value in {**drafting.standing_at(place), "place_address": place.address}.items():
            setattr(current, name, value)
        # Nothing of it can be there yet, so it is looked for under a key of its own.
        current.key, current.in_doubt, current.doubted = keys.digest(["elsewhere", current.pk, place.key]), False, ""
        current.template = Template.objects.newest(current.kind, place.kind)
        current.state, current.error, current.goes_at = CorrectionState.HELD_BACK, "", None
        current.revision += 1
        current.save()
        run.append("correction.edited", actor=f"person:{by}", correction=current.pk, handed_over={"was": was, "is": current.place_label})
        return current


def write_another(correction: Correction, *, by: User) -> Correction:
    """A second message after the one that went out, to be edited and sent like any other."""
    with locked_run(correction.run_id) as run:
        sent = _sent(correction, by)
        if found := Correction.objects.unsent().filter(run=run, place_key=sent.place_key).first():
            return found
        second = drafting.another(sent, run)
        second.save()
        second.steps.set(sent.steps.all())
        run.append("correction.drafted", actor=f"person:{by}", correction=second.pk, place=second.place_label, follows=sent.pk)
        return second


def say_back(correction: Correction, *, by: User) -> Correction:
    """Tells the same people in the same place that what was premature holds now; once."""
    with locked_run(correction.run_id) as run:
        sent = _sent(correction, by)
        if not sent.can_say_back:
            raise NotSendable("They were told already that it is back." if sent.said_back else "Nothing says that it is back.")
        news = drafting.back_of(sent, run)
        if against := [check.says for check in wording.checks(news) if not check.met]:
            raise NotSendable(" ".join(["Nothing was sent.", *against]))
        news.text, news.sent_by, news.due_at = wording.render_text(news), str(by), run.now
        news.save()
        news.steps.set(sent.steps.all())
        run.append("correction.edited", actor=f"person:{by}", correction=news.pk, sending=True, follows=sent.pk, text=news.text)
        bell.ring("corrections.tasks.deliver_correction", run.pk, news.pk)
        return news


def _sent(correction: Correction, by: User) -> Correction:
    """One that went out, if this person may send another after it."""
    current = Correction.objects.with_everything().get(pk=correction.pk)
    if not may_send(by, current):
        raise NotAllowed(f"You may not send for {current.run.team}. Its owner is {current.run.owner}.")
    if current.state != CorrectionState.SENT or current.kind != Kind.CORRECTION:
        raise NotSendable("Only a correction that went out can be followed by another.")
    return current


def hold_back(correction: Correction, *, by: User) -> Correction:
    """Stops a draft from going by itself."""
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        if current.state == CorrectionState.DRAFT:
            current.goes_at = None
            current.move(CorrectionState.HELD_BACK, "goes_at")
            run.append("correction.edited", actor=f"person:{by}", correction=current.pk, held_back=True)
        return current


def dismiss(correction: Correction, *, by: User, reason: str) -> Correction:
    """No message is sent, because a named person said why none is needed."""
    if not reason.strip():
        raise NotSendable("A reason is required: why does nobody need to be told?")
    with locked_run(correction.run_id) as run:
        current = _current(correction, by)
        current.dismissed_by, current.dismissed_why, current.goes_at = str(by), reason, None
        current.move(CorrectionState.DISMISSED, "dismissed_by", "dismissed_why", "goes_at")
        run.append("correction.dismissed", actor=f"person:{by}", correction=current.pk, why=reason)
        reports.told(run)
        return current


def _current(correction: Correction, by: User) -> Correction:
    """The correction as it is behind the lock, if this person may change it and it can still be changed."""
    current = Correction.objects.select_related("run__team", "run__owner", "questions_to", "template", "back_run").get(pk=correction.pk)
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
