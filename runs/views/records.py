"""What stays of a run: its log, with the chain checked while it is read, and its report."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from runs import log, logwords, services
from runs import report as reports
from runs.views.shared import find_run
from sagaboard.web import PageRequest

PAGE = 100


@login_required
@require_safe
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
@require_safe
def plan_page(request: PageRequest, number: int) -> HttpResponse:
    """The plan as its agent declared it when it opened the run, and what came of each call since."""
    run = find_run(request, number)
    said = services.declared(run)
    calls = [{**call, "step": step} for call, step in zip(said.get("plan", []), run.steps.filter(planned=True).as_planned(), strict=False)]
    return render(request, "runs/plan.html", {"run": run, "said": said, "calls": calls})


@login_required
@require_safe
def log_lines(request: PageRequest, number: int) -> StreamingHttpResponse:
    """The whole log as JSON lines, with its hashes."""
    run = find_run(request, number)
    answer = StreamingHttpResponse(log.export(run), content_type="application/jsonl; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="run-{run.number}-log.jsonl"'
    return answer


@login_required
@require_safe
def report(request: PageRequest, number: int) -> HttpResponse:
    return render(request, "runs/report.html", reports.of(find_run(request, number)))


@login_required
@require_safe
def report_text(request: PageRequest, number: int) -> HttpResponse:
    """The report in Markdown, to paste into a post-mortem."""
    text = render_to_string("runs/report.md", reports.of(find_run(request, number)))
    return HttpResponse(text, content_type="text/markdown; charset=utf-8")


@login_required
@require_safe
def report_data(request: PageRequest, number: int) -> JsonResponse:
    """The report as data."""
    return JsonResponse(reports.as_data(find_run(request, number)), json_dumps_params={"indent": 2, "ensure_ascii": False})


def _number(request: PageRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else None
