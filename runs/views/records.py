"""What stays of a run: its log, with the chain checked while it is read, and its report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from runs import log, logwords
from runs.models import LogEntry, Run
from runs.views.shared import context_of, find_run
from sagaboard.templatetags.words import name_of
from sagaboard.web import PageRequest

PAGE = 100
DECISIONS = [
    "run.taken", "run.paused", "run.failed", "run.left_standing", "run.compensating", "step.settled", "step.closed", "step.queued",
    "step.requested", "check.reported", "item.decided",
]  # fmt: skip


@login_required
@require_GET
def log_page(request: PageRequest, number: int) -> HttpResponse:
    run = find_run(request, number)
    entries = run.entries.newest_first().select_related("step")
    step, before = _number(request, "step"), _number(request, "before")
    if step is not None:
        entries = entries.filter(step__number=step)
    if before is not None:
        entries = entries.filter(seq__lt=before)
    found = list(entries[: PAGE + 1])
    context = {
        "run": run,
        "chain": log.verify(run),
        "lines": [logwords.line(entry) for entry in found[:PAGE]],
        "older": found[PAGE - 1].seq if len(found) > PAGE else None,
        "steps": run.steps.as_planned(),
        "only": step,
    }
    return render(request, "runs/log.html", context)


@login_required
@require_GET
def log_lines(request: PageRequest, number: int) -> StreamingHttpResponse:
    """The whole log as JSON lines, with its hashes."""
    run = find_run(request, number)
    answer = StreamingHttpResponse(log.export(run), content_type="application/jsonl; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="run-{run.number}-log.jsonl"'
    return answer


@login_required
@require_GET
def report(request: PageRequest, number: int) -> HttpResponse:
    return render(request, "runs/report.html", _report(request, number))


@login_required
@require_GET
def report_text(request: PageRequest, number: int) -> HttpResponse:
    """The report in Markdown, to paste into a post-mortem."""
    return HttpResponse(render_to_string("runs/report.md", _report(request, number)), content_type="text/markdown; charset=utf-8")


def _report(request: PageRequest, number: int) -> dict[str, Any]:
    context = context_of(request, number)
    run = context["run"]
    corrections = [entry for entry in context["facts"].marks if entry.event == "correction.sent"]
    verified = LogEntry.objects.filter(run=run, event__in=["undo.verified", "undo.skipped"]).select_related("step").order_by("seq")
    lines: dict[str, Iterable[LogEntry]] = {"corrections": corrections, "verified": verified}
    first = context["facts"].first_press
    after = first - run.failed_at if first and run.failed_at and first >= run.failed_at else None
    return {
        **context,
        "compensated_after": after,
        "decisions": _decisions(run),
        "chain": log.verify(run),
        **{name: [logwords.line(entry) for entry in found] for name, found in lines.items()},
    }


def _decisions(run: Run) -> list[dict[str, Any]]:
    """What persons decided, in order. A call that was closed by a rejection stands there as the rejection."""
    people = LogEntry.objects.filter(run=run, event__in=DECISIONS, actor__startswith="person:")
    entries = list(people.select_related("step").order_by("seq"))
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


def _number(request: PageRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else None
