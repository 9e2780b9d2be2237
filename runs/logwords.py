"""The log for readers: what its dotted events are called on the pages, and one line of detail for each entry."""

from __future__ import annotations

import dataclasses
from typing import Any

from runs import naming
from runs.models import LogEntry
from sagaboard.templatetags.words import name_of, shown

# Event -> its word and the tone it is written in.
WORDS = {
    "run.opened": ("opened", ""),
    "run.resumed": ("resumed", ""),
    "run.checking": ("checking", ""),
    "run.released": ("released", ""),
    "run.failed": ("run failed", "bad"),
    "run.compensating": ("compensate", "undo"),
    "run.compensated": ("compensated", "undo"),
    "run.succeeded": ("succeeded", ""),
    "run.stuck": ("stuck", "bad"),
    "run.left_standing": ("left standing", "held"),
    "run.paused": ("pause", "held"),
    "run.taken": ("taken", ""),
    "run.paged": ("paged", "bad"),
    "check.reported": ("check", ""),
    "step.requested": ("intent", ""),
    "step.on_hold": ("on hold", "held"),
    "step.queued": ("queued", "held"),
    "step.started": ("started", ""),
    "step.prepared": ("prepared", ""),
    "step.done": ("done", ""),
    "step.sent": ("sent", ""),
    "step.failed": ("failed", "bad"),
    "step.unknown": ("unknown", "bad"),
    "step.probed": ("looked", ""),
    "step.late_effect": ("late effect", "bad"),
    "step.settled": ("settled", "undo"),
    "step.closed": ("closed", "held"),
    "item.decided": ("decided", ""),
    "item.refused": ("refused", "bad"),
    "item.edited": ("edited", ""),
    "item.expired": ("expired", "held"),
    "undo.started": ("undoing", "undo"),
    "undo.verified": ("undone", "undo"),
    "undo.skipped": ("already gone", "undo"),
    "undo.failed": ("undo failed", "bad"),
    "undo.drifted": ("drifted", "bad"),
    "correction.drafted": ("drafted", "undo"),
    "correction.edited": ("reworded", ""),
    "correction.sent": ("corrected", "undo"),
    "correction.failed": ("not delivered", "bad"),
    "correction.dismissed": ("dismissed", "held"),
    "capability.drilled": ("drilled", "undo"),
    "payload.erased": ("erased", "held"),
}
# The first of these that an entry holds is its detail.
TELLING = ("said", "why", "evidence", "subject", "place", "says", "title")
LONGEST = 140


@dataclasses.dataclass(frozen=True)
class Line:
    """An entry as the page shows it."""

    entry: LogEntry
    word: str
    tone: str
    about: str
    detail: str
    who: str


def line(entry: LogEntry) -> Line:
    word, tone = WORDS[entry.event]
    if entry.event == "step.closed":
        word = str(entry.data.get("why") or word)
    about = entry.step.capability if entry.step else "on-call" if entry.event == "run.paged" else "run"
    return Line(entry, word, tone, about, cut(shown(detail(entry))), shown(name_of(entry.actor)))


def decision(entry: LogEntry) -> tuple[str, str]:
    """What a person decided, as the end of a sentence that begins with the name, and the reason given."""
    data: dict[str, Any] = entry.data
    step = f"step {entry.step.number}, {naming.title_of(entry.step)}" if entry.step else "it"
    why = str(data.get("why") or data.get("said") or data.get("reason") or "")
    match entry.event:
        case "run.taken":
            return ("stepped back" if data.get("back") else "said: I’m on it"), ""
        case "run.paused":
            return "asked to pause the undo", ""
        case "run.failed":
            return "stopped the run", why
        case "run.left_standing":
            return "left its effects standing", why
        case "run.compensating":
            over = data.get("undo_over") or []
            past = ", past what went out" if data.get("override") else ""
            drift = f", over what somebody changed at step {', '.join(map(str, over))}" if over else ""
            did = "let the undo go on" if why == "settled" else "had the run undone"
            return f"{did}{past}{drift}", "" if why == "settled" else why
        case "step.settled":
            saw = f"; sagaboard saw: {shown(data['seen'])}" if data.get("seen") else ""
            return f"settled {step} as {str(data.get('how', '')).replace('_', ' ')}{saw}", why
        case "step.closed":
            return f"closed {step} unsent", why
        case "check.reported":
            return "said that the run is good", str(data.get("subject") or "")
        case "correction.dismissed":
            return "said that nobody needs to be told", why
        case "item.decided":
            return f"{VERDICTS.get(str(data.get('verdict')), 'decided')} {step}", why
    return f"let {step} through", why


VERDICTS = {"approve": "approved", "reject": "rejected", "withdraw": "took back the approval of"}


def detail(entry: LogEntry) -> str:
    """One line: who, why or what exactly. The entry's own JSON says the rest."""
    data: dict[str, Any] = entry.data
    if "$beside" in data:
        return f"{data.get('bytes', 0):,} bytes beside the log"
    match entry.event:
        case "run.paged":
            return ", ".join(map(str, data.get("people", [])))
        case "step.requested" if entry.step:
            return naming.identifier_of(entry.step)
        case "step.queued":
            return "held for release" if not data.get("again") else "to be sent again"
        case "step.done" | "step.sent" if entry.step:
            return naming.identifier_of(entry.step)
        case "step.started":
            return f"attempt {entry.attempt}"
        case "step.probed":
            return "not there" if data.get("found") is False else str(data.get("why") or "no answer")
        case "check.reported":
            return f"{data.get('check')}: {data.get('state')}"
        case "item.decided":
            reason = f": {data['reason']}" if data.get("reason") else ""
            return f"{data.get('verdict', '')} by {name_of(entry.actor)}{reason}"
        case "run.compensating" if data.get("why") and data["why"] != "settled":
            return f"{name_of(entry.actor)}: {data['why']}"
        case "run.taken" if data.get("back"):
            return f"{name_of(entry.actor)} stepped back"
        case "run.compensating" | "run.taken" | "run.paused":
            return name_of(entry.actor)
        case "step.closed":
            return str(data.get("said") or "never sent")
        case "payload.erased":
            return f"{data['bytes']:,} bytes by {name_of(entry.actor)}: {data['why']}"
        case "correction.sent" | "correction.edited":
            return f"by {name_of(entry.actor)}"
    return next((str(data[name]) for name in TELLING if data.get(name)), "")


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
