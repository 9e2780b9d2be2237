"""The message itself, and what stands against sending it. Preview, page and delivery all take their words from here."""

from __future__ import annotations

import dataclasses
import re

from corrections.drafting import REVERTED, each_seen_when, says_the_same, seen_when
from corrections.models import Correction
from corrections.states import EDITABLE, Kind
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


# How a message is worded where no row says otherwise.
BUILT_IN: dict[str, str] = {
    Kind.CORRECTION: """[Automated correction - run {run}]
What you may have seen: {seen}, at {at}.
Status: {status}
What you need to do: {what_to_do}
When it will come back: {back_when}
Questions: {questions_to}, not this bot.""",
    Kind.BACK: """[It is back - run {run}]
What was premature: {seen}.
Status: {status}
What you need to do: {what_to_do}
Questions: {questions_to}, not this bot.""",
}
SLOT = re.compile(r"\{(\w+)\}")
SLOTS = ("run", "seen", "at", "status", "what_to_do", "back_when", "questions_to")
# A template without one of these would leave people asking.
REQUIRED = ("run", "seen", "status", "what_to_do", "questions_to")


def body_of(correction: Correction) -> str:
    return correction.template.body if correction.template else BUILT_IN[correction.kind]


def message(correction: Correction) -> list[list[Part]]:
    """The message, line by line, its slots marked."""
    return worded(body_of(correction), correction)


def worded(body: str, correction: Correction) -> list[list[Part]]:
    """`body` with the fields of `correction`, and below its first line what is said of a signal that is gone from there."""
    slots, each = _slots(correction), _each(correction)
    lines = [
        made for line in body.splitlines() for made in (_list(line, slots, each) if each and "{seen}" in line else [_line(line, slots)])
    ]
    return [lines[0], [Part(correction.quote)], *lines[1:]] if correction.quote and lines else lines


def _list(line: str, slots: dict[str, list[Part]], each: list[dict[str, list[Part]]]) -> list[list[Part]]:
    """What the line says before its signal, and then a line for each of them, with its own time."""
    before, _, after = line.partition("{seen}")
    first = _line(before.rstrip(), slots)
    return [*([first] if first else []), *([Part("- "), *_line("{seen}" + after, {**slots, **one})] for one in each)]


def _each(correction: Correction) -> list[dict[str, list[Part]]]:
    """The fields that differ between several signals; empty where one line tells of all."""
    lines, times = correction.seen.splitlines(), each_seen_when(correction)
    if len(lines) < 2 or len(lines) != len(times):
        return []
    return [{"seen": [_slot(text)], "at": [_slot(when)]} for text, when in zip(lines, times, strict=True)]


def _line(line: str, slots: dict[str, list[Part]]) -> list[Part]:
    """Text and slots take turns in what `SLOT` splits."""
    found: list[Part] = []
    for number, piece in enumerate(SLOT.split(line)):
        found += slots.get(piece, [Part("{" + piece + "}", is_slot=True)]) if number % 2 else [Part(piece)] if piece else []
    return found


def _slots(correction: Correction) -> dict[str, list[Part]]:
    return {
        "run": [Part(str(correction.run_id))],
        "seen": [_slot("; ".join(correction.seen.splitlines()))],
        "at": [_slot(seen_when(correction))],
        "status": _status(correction),
        "what_to_do": [_slot(_sentence(correction.what_to_do))],
        "back_when": [_slot(_sentence(correction.back_when))],
        "questions_to": [_slot(str(correction.questions_to))],
    }


def render_text(correction: Correction) -> str:
    """The message as it will be posted."""
    return as_text(message(correction))


def as_text(lines: list[list[Part]]) -> str:
    return "\n".join("".join(part.text for part in line) for line in lines)


def against_template(body: str) -> list[str]:
    """What stands against wording messages so, a sentence each."""
    used = SLOT.findall(body)
    found = [f"There is no field {{{name}}}. There are: {', '.join(SLOTS)}." for name in dict.fromkeys(used) if name not in SLOTS]
    found += [f"{{{name}}} must be in it: people who are not told that ask." for name in REQUIRED if name not in used]
    if not body.partition("\n")[0].strip():
        found.append("The first line can’t be empty: it says that this is a correction, and of which run.")
    return found


def _status(correction: Correction) -> list[Part]:
    if correction.kind == Kind.BACK:
        since = f" since {correction.back_run.ended_at:%H:%M} UTC" if correction.back_run and correction.back_run.ended_at else ""
        return [Part("it holds now"), Part(since), Part(", by "), _slot(f"run {correction.back_run_id}"), Part(".")]
    left = [signal["how"] for signal in correction.signals if signal["how"] not in REVERTED]
    if not correction.reverted_to.strip():
        if "stuck" in left:
            return [Part("this was premature. Taking it back is not confirmed yet.")]
        return [Part("this was premature, and it is still as you saw it.")]
    if not left or len(left) == len(correction.signals):
        return [Part("this was premature. It has been reverted to "), _slot(correction.reverted_to), Part(".")]
    rest = "Taking back the rest is not confirmed yet." if "stuck" in left else "The rest is still as you saw it."
    return [Part("this was premature. What has an end above has been reverted to "), _slot(correction.reverted_to), Part(f". {rest}")]


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
    facts = [_facts_hold(correction)] if correction.kind == Kind.CORRECTION else []
    return [
        _says_what_to_do(correction),
        _names_what_was_seen(correction),
        *facts,
        _asks_a_person(correction),
        *_fits(correction),
        *_the_rest(correction),
    ]


def _fits(correction: Correction) -> list[Check]:
    if correction.limit is None:
        return []
    over = len(render_text(correction)) - correction.limit
    if over > 0:
        return [Check(False, f"It is {over} characters too long for this place, which takes {correction.limit}. Shorten it.")]
    return [Check(True, f"Fits: {correction.limit + over} of the {correction.limit} characters that this place takes")]


def _says_what_to_do(correction: Correction) -> Check:
    todo = correction.what_to_do.strip().lower()
    if not todo:
        return Check(False, "Say what they need to do, even if that is nothing.")
    if any(phrase in todo for phrase in NOT_ACTIONABLE):
        return Check(False, "“Please ignore” can’t be acted on: people don’t know what to leave undone. Say what to do, or “Nothing”.")
    return Check(True, "Says what to do, in words that can be acted on")


def _names_what_was_seen(correction: Correction) -> Check:
    lines, signals = len(correction.seen.splitlines()), len(correction.signals)
    if not correction.seen.strip():
        return Check(False, "Say what they may have seen.")
    if lines not in (1, signals):
        return Check(
            False,
            f"Write a line for each of the {signals} signals, in their order, or one for all." if signals > 1 else "Say it in one line.",
        )
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
    return correction.place_kind == "note" and correction.owned is None


def same_signal_sent(correction: Correction) -> bool:
    """Whether one that says the same of one of its signals is out already, or on its way; one that follows it knows that."""
    if correction.state not in EDITABLE or correction.follows_id is not None:
        return False
    others = Correction.objects.gone_out().filter(run=correction.run_id, kind=Kind.CORRECTION).exclude(pk=correction.pk)
    return any(says_the_same(other, signal["step"], signal["how"]) for other in others for signal in correction.signals)
