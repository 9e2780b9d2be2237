"""The message itself, and what stands against sending it. Preview, page and delivery all take their words from here."""

from __future__ import annotations

import dataclasses

from corrections.drafting import REVERTED, owner_of, says_the_same, seen_when
from corrections.models import Correction
from corrections.states import EDITABLE
from runs.states import StepState

# A message people can do nothing with makes them ask.
NOT_ACTIONABLE = ("please ignore", "ignore this", "disregard")
# What the state of a step must be for the fact that a draft states about it to hold.
HOLDS = {
    "undone": {StepState.UNDONE},
    "gone": {StepState.UNDONE},
    "settled": {StepState.SETTLED},
    "left_standing": {StepState.LEFT_STANDING},
    "stuck": {StepState.UNDO_FAILED, StepState.DRIFTED, StepState.UNDOING},
}


@dataclasses.dataclass(frozen=True)
class Part:
    """A stretch of the message; a slot is what was filled in, and may be empty."""

    text: str
    is_slot: bool = False

    @property
    def is_empty(self) -> bool:
        return self.is_slot and (not self.text.strip() or ("{" in self.text and "}" in self.text))


@dataclasses.dataclass(frozen=True)
class Check:
    """One condition of sending: what is so where it is met, what to do where it is not."""

    met: bool
    says: str


def message(correction: Correction) -> list[list[Part]]:
    """The message, line by line, its slots marked."""
    return [
        [Part(f"[Automated correction - run {correction.run_id}]")],
        [Part("What you may have seen: "), _slot(correction.seen), Part(", at "), _slot(seen_when(correction)), Part(".")],
        _status(correction),
        [Part("What you need to do: "), _slot(_sentence(correction.what_to_do))],
        [Part("When it will come back: "), _slot(_sentence(correction.back_when))],
        [Part("Questions: "), _slot(str(correction.questions_to)), Part(", not this bot.")],
    ]


def render_text(correction: Correction) -> str:
    """The message as it will be posted."""
    return "\n".join("".join(part.text for part in line) for line in message(correction))


def _status(correction: Correction) -> list[Part]:
    if not correction.reverted_to.strip():
        if any(signal["how"] == "stuck" for signal in correction.signals):
            return [Part("Status: this was premature. Taking it back is not confirmed yet.")]
        return [Part("Status: this was premature, and it is still as you saw it.")]
    return [Part("Status: this was premature. It has been reverted to "), _slot(correction.reverted_to), Part(".")]


def _slot(text: str) -> Part:
    return Part(text.strip(), is_slot=True)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def problems(correction: Correction) -> list[str]:
    """What stands against sending it, a sentence each; none means that it can go."""
    return [check.says for check in checks(correction) if not check.met]


def checks(correction: Correction) -> list[Check]:
    """Every condition of sending, met or not."""
    return [
        _says_what_to_do(correction),
        _names_what_was_seen(correction),
        _facts_hold(correction),
        _asks_a_person(correction),
        *_the_rest(correction),
    ]


def _says_what_to_do(correction: Correction) -> Check:
    todo = correction.what_to_do.strip().lower()
    if not todo:
        return Check(False, "Say what they need to do, even if that is nothing.")
    if any(phrase in todo for phrase in NOT_ACTIONABLE):
        return Check(False, "“Please ignore” can’t be acted on: people don’t know what to leave undone. Say what to do, or “Nothing”.")
    return Check(True, "Says what to do, in words that can be acted on")


def _names_what_was_seen(correction: Correction) -> Check:
    if not correction.seen.strip():
        return Check(False, "Say what they may have seen.")
    return Check(True, "Names what was seen, so no one asks “which message?”")


def _facts_hold(correction: Correction) -> Check:
    """A draft made from the log says what was so then; it is read again before anything goes."""
    steps = {step.number: step for step in correction.steps.all()}
    for signal in correction.signals:
        step = steps.get(signal["step"])
        if step is None or step.state not in HOLDS.get(signal["how"], set()):
            now = step.get_state_display().lower() if step else "gone"
            return Check(
                False, f"Step {signal['step']} is {now} now, which is not what this says. Look at the run, then dismiss this or reword it."
            )
    reverted = any(signal["how"] in REVERTED for signal in correction.signals)
    if correction.reverted_to.strip() and not reverted:
        return Check(False, "It says that it was reverted, and the log does not. Leave that field empty.")
    if any(signal["how"] in ("undone", "gone") for signal in correction.signals):
        return Check(True, "The undo was verified, by the log")
    return Check(True, "What it says about the effect is what the log says")


def _asks_a_person(correction: Correction) -> Check:
    if not correction.questions_to.is_active:
        return Check(False, "Questions must go to a person who can sign in.")
    return Check(True, f"Questions go to a person: {correction.questions_to}")


def _the_rest(correction: Correction) -> list[Check]:
    found = []
    if any("{" in text and "}" in text for text in (correction.seen, correction.reverted_to, correction.what_to_do)):
        found.append(Check(False, "A slot in braces is not filled; the log did not know it. Write it out."))
    if is_ownerless(correction):
        found.append(
            Check(False, f"Nobody owns the audience “{correction.audience}”, so there is nobody to tell. An admin names its owner.")
        )
    if same_signal_sent(correction):
        found.append(Check(False, "One was sent for this signal already."))
    else:
        found.append(Check(True, _one_note(len(correction.signals))))
    return found


def _one_note(signals: int) -> str:
    return (
        "One signal, one note: none was sent for it yet" if signals == 1 else f"{signals} signals, one message: none was sent for them yet"
    )


def is_ownerless(correction: Correction) -> bool:
    """A note that has nobody to go to."""
    return correction.place_kind == "note" and owner_of(correction.audience) is None


def same_signal_sent(correction: Correction) -> bool:
    """Whether one that says the same of one of its signals is out already, or on its way."""
    if correction.state not in EDITABLE:
        return False
    others = Correction.objects.gone_out().filter(run=correction.run_id).exclude(pk=correction.pk)
    return any(says_the_same(other, signal["step"], signal["how"]) for other in others for signal in correction.signals)
