"""The registry: which tools have no way back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from runs import drills, registry
from runs.exceptions import NotAllowed, Refused
from runs.forms import DrillForm, DueForm, ReasonForm
from runs.models import CapabilityRecord, LogEntry, Run
from runs.services import governing
from runs.services.drilling import check_drill_right, drillable_by, sandboxes, start_drill
from runs.tools import Filters, all_tools, chips, one_tool
from sagaboard.accounts import changes
from sagaboard.web import PageRequest


@login_required
@require_safe
def capabilities(request: PageRequest) -> HttpResponse:
    tools = all_tools(request.user)
    due = [tool.name for tool in tools if tool.is_due]
    filters = Filters.read(request.GET.dict())
    shown = filters.narrow(tools)
    context = {
        "tools": tools,
        "filters": filters,
        "chips": chips(tools),
        "may_drill_due": bool(due) and drillable_by(request.user).filter(name__in=due).exists(),
        "groups": [found for found in ([tool for tool in shown if tool.group == group] for group in (0, 1, 2)) if found],
        "proven": sum(tool.proof == "ok" for tool in tools),
        "blank": sum(tool.blank for tool in tools),
        "old": sum(tool.is_due for tool in tools),
        "by_nature": sum(tool.by_nature for tool in tools),
        "unowned": {one for tool in tools for one in tool.unowned},
        "no_effect": sum(not tool.leaves_effect for tool in tools),
    }
    return render(request, "runs/capabilities.html", context)


@login_required
@require_safe
def capability(request: PageRequest, name: str) -> HttpResponse:
    tool = one_tool(name, request.user)
    if tool is None or tool.record is None:
        raise Http404(f"No capability is called “{name}”.")
    runs = Run.objects.visible_to(request.user).filter(steps__capability=name).distinct()
    drilled = Run.objects.visible_to(request.user).filter(is_drill=True)
    drills = LogEntry.objects.filter(event="capability.drilled", step__capability=name, run__in=drilled)
    schema = json.dumps(tool.record.schema, indent=2, ensure_ascii=False)
    context = {
        "tool": tool,
        "record": tool.record,
        # A proof that nobody can renew is no use: the button is there for whoever may press it.
        "may_drill": tool.leaves_effect and tool.record.has_undo and drillable_by(request.user).filter(name=name).exists(),
        "may_govern": request.user.has_perm(governing.GOVERN),
        "history": changes.history(tool.record)[:20],
        "said": registry.find(name),
        "runs": runs[:20],
        "drills": drills.order_by("-id")[:10],
        "schema": schema,
    }
    return render(request, "runs/capability.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def disable(request: PageRequest, name: str) -> HttpResponse:
    return _govern(request, name, governing.disable)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def enable(request: PageRequest, name: str) -> HttpResponse:
    return _govern(request, name, governing.enable)


def _govern(request: PageRequest, name: str, service: Callable[..., None]) -> HttpResponse:
    """Asks for the reason, with the runs that it stops; the press does it, or comes back with what was typed."""
    record = get_object_or_404(CapabilityRecord, name=name)
    form, refusal = ReasonForm(request.POST or None), None
    try:
        governing.check_govern_right(request.user)
        if request.method == "POST" and form.is_valid():
            service(record, by=request.user, reason=form.cleaned_data["reason"])
            return redirect("runs:capability", name)
    except Refused as exc:
        refusal = exc
    wanting = Run.objects.visible_to(request.user).wanting(name).order_by("-pk")
    context = {"record": record, "form": form, "refusal": refusal, "disables": service is governing.disable, "wanting": wanting[:20]}
    return render(request, "runs/govern.html", context, status=refusal.status if refusal else 422 if form.errors else 200)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def drill(request: PageRequest, name: str) -> HttpResponse:
    """Arguments first; then what would be touched, named, and the second press."""
    record = get_object_or_404(CapabilityRecord, name=name)
    try:
        check_drill_right(request.user, name)
    except NotAllowed as exc:
        return render(request, "runs/drill.html", {"record": record, "refusal": exc.detail}, status=403)
    form = DrillForm(request.user, request.POST or None, initial={"arguments": drills.last_arguments([name], request.user).get(name, {})})
    if request.method != "POST" or not form.is_valid():
        return render(request, "runs/drill.html", {"record": record, "form": form}, status=422 if form.is_bound else 200)
    try:
        targets = sandboxes(form.cleaned_data["arguments"], name)
        if not form.cleaned_data["confirmed"]:
            return render(request, "runs/drill.html", {"record": record, "form": form, "targets": targets, "once": uuid.uuid4()})
        given = form.cleaned_data
        run = start_drill(name, given["arguments"], by=request.user, team=given["team"], once=given["once"])
    except Refused as exc:
        form.add_error(None, exc.detail)
        return render(request, "runs/drill.html", {"record": record, "form": form}, status=422)
    return redirect("runs:drilled", name, run.pk)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def drill_due(request: PageRequest) -> HttpResponse:
    """All that are due: named first, with what each would touch; the press drills those that can be."""
    found = drills.due(request.user)
    form = DueForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        begun = [_begun(request, one, form.cleaned_data) for one in found if not one.why_not and one.name in request.POST.getlist("name")]
        return render(request, "runs/drills.html", {"begun": begun})
    context = {"due": found, "ready": [one for one in found if not one.why_not], "form": form, "once": uuid.uuid4()}
    return render(request, "runs/drills.html", context, status=422 if form.is_bound else 200)


def _begun(request: PageRequest, one: drills.DueDrill, given: dict[str, Any]) -> tuple[str, Run | None, str]:
    """One that is refused holds up no other."""
    try:
        return one.name, start_drill(one.name, one.arguments, by=request.user, team=given["team"], once=given["once"]), ""
    except Refused as exc:
        return one.name, None, exc.detail


@login_required
@require_safe
def drilled(request: PageRequest, name: str, number: int) -> HttpResponse:
    """A drill's three steps, as far as it has come."""
    runs = Run.objects.visible_to(request.user).filter(is_drill=True, steps__capability=name)
    run = get_object_or_404(runs, pk=number)
    return render(request, "runs/drilled.html", {"name": name, "run": run, "drill": drills.of(run)})
