"""The report of a run: what ran, who decided what, what was undone and verified, who saw what for how long, who was told."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q
from django.template.loader import render_to_string
from django.utils import timezone

from runs import blast_radius, exposure, facts, log, logwords, picture, situation
from runs.models import LogEntry, Run, Step
from runs.run_list import look_of
from runs.sections import Told
from sagaboard.templatetags.words import counted, duration, name_of

DECISIONS = [
    "run.taken", "run.paused", "run.failed", "run.left_standing", "run.compensating", "step.settled", "step.closed", "step.queued",
    "step.requested", "check.reported", "item.decided", "correction.dismissed",
]  # fmt: skip
VERIFIED = ("undo.verified", "undo.skipped")


def of(run: Run, now: dt.datetime | None = None) -> dict[str, Any]:
    """Everything the page, the Markdown and the mail show."""
    entries = _entries(run)
    known = facts.read(run, now or timezone.now(), marks=[entry for entry in entries if entry.event in facts.MARKS])
    table = blast_radius.table(known)
    look, label = look_of(known, len(known.awaiting), len(known.untold))
    first = known.first_press
    return {
        "run": run,
        "facts": known,
        "look": look,
        "look_label": label,
        "table": table,
        "situation": situation.of(known),
        "seen": _seen(known),
        "picture": picture.of(known, table),
        "pressed": known.mark("run.compensating"),
        "compensated_after": first - run.failed_at if first and run.failed_at and first >= run.failed_at else None,
        "decisions": _decisions(entries),
        "chain": log.verify(run),
        "verified": [logwords.line(entry) for entry in entries if entry.event in VERIFIED],
    }


def _seen(known: facts.Facts) -> str:
    """How long people could see what a run that failed had shown, once no one can any more; a sentence."""
    shown = [one for step in known.steps if (one := exposure.of(step)).started and not one.is_machines]
    if known.run.failed_at is None or any(one.is_visible for one in shown):
        return ""
    if not shown:
        return "No person could see any of it."
    longest = duration(max(one.seconds(known.now) for one in shown))
    return f"People could see {counted(len(shown), 'effect')}, {'the longest ' if len(shown) > 1 else ''}for {longest}."


def as_text(run: Run, zone: str = "") -> str:
    """The report in Markdown, in the time zone of whoever gets it."""
    with timezone.override(ZoneInfo(zone) if zone else None):
        return render_to_string("runs/report.md", of(run))


def as_data(run: Run, now: dt.datetime | None = None) -> dict[str, Any]:
    """The same as data."""
    found = of(run, now)
    known: facts.Facts = found["facts"]
    verified = {line.entry.step_id: line.entry for line in found["verified"]}
    after = {row.step.pk: row.told_after for row in found["table"].rows}
    return {
        "run": run.number,
        "title": run.title,
        "state": run.state,
        "agent": run.agent,
        "owner": run.owner.username,
        "ticket": run.ticket,
        "retry_of": run.retry_of_id,
        "opened_at": run.opened_at,
        "failed_at": run.failed_at,
        "failed_why": run.failed_why,
        "ended_at": run.ended_at,
        "finished": run.has_ended and not known.untold,
        "in_short": found["situation"].sentence,
        "steps": [_step(step, known, verified.get(step.pk), after.get(step.pk)) for step in known.steps],
        "told": [_told(one) for one in known.told],
        "decisions": found["decisions"],
        "log": {"entries": found["chain"].entries, "whole": found["chain"].whole, "head": found["chain"].head},
    }


def _step(step: Step, known: facts.Facts, verified: LogEntry | None, told_after: dt.timedelta | None) -> dict[str, Any]:
    seen = exposure.of(step)
    return {
        "number": step.number,
        "ref": step.ref,
        "capability": step.capability,
        "kind": step.kind,
        "audience": step.audience,
        "read_by": step.read_by,
        "state": step.state,
        "closed_why": step.closed_why,
        "error": step.error,
        "visible_from": None if seen.is_machines else seen.started,
        "visible_until": None if seen.is_machines else seen.ended,
        "visible_seconds": None if seen.is_machines or not seen.started else round(seen.seconds(known.now), 3),
        "told_after_seconds": round(told_after.total_seconds(), 3) if told_after else None,
        "undo_verified_at": verified.at if verified else None,
        "settled_by": step.settled_by,
        "settled_why": step.settled_why,
    }


def _told(one: Told) -> dict[str, Any]:
    return {
        "who": one.who,
        "where": one.how,
        "about": one.what,
        "state": one.state,
        "visible_from": one.since,
        "told_at": one.told_at,
        "told_after_seconds": round(one.believed_for.total_seconds(), 3) if one.believed_for else None,
        "by": one.by,
        "why": one.why,
        "text": one.text,
        "back_at": one.back_at,
    }


def _entries(run: Run) -> list[LogEntry]:
    """What the report tells of the log, oldest first."""
    by_people = Q(event__in=DECISIONS, actor__startswith="person:")
    wanted = run.entries.filter(by_people | Q(event__in=[*VERIFIED, *facts.MARKS]))
    return list(wanted.select_related("step").order_by("seq"))


def _decisions(all_entries: list[LogEntry]) -> list[dict[str, Any]]:
    """What persons decided, in order. A call that was closed by a rejection stands there as the rejection."""
    entries = [entry for entry in all_entries if entry.event in DECISIONS and entry.actor.startswith("person:")]
    decided = {entry.step_id for entry in entries if entry.event == "item.decided"}
    found = []
    for entry in entries:
        let_through = entry.data.get("let_through")
        if entry.event in ("step.queued", "step.requested") and not let_through:
            continue
        if entry.event == "step.closed" and (entry.step_id in decided or entry.data.get("why") == "withdrawn"):
            continue
        did, why = logwords.decision(entry)
        found.append({"at": entry.at, "who": name_of(entry.actor), "did": did, "why": why})
    return found
