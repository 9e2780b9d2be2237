"""The registry: which tools have no way back."""

from __future__ import annotations

import json

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from runs.models import LogEntry, Run
from runs.tools import all_tools, one_tool
from sagaboard.web import PageRequest


@login_required
@require_GET
def capabilities(request: PageRequest) -> HttpResponse:
    tools = all_tools()
    context = {
        "tools": tools,
        "groups": [found for found in ([tool for tool in tools if tool.group == group] for group in (0, 1, 2)) if found],
        "proven": sum(tool.proof == "ok" for tool in tools),
        "blank": sum(tool.blank for tool in tools),
        "old": sum(tool.is_due for tool in tools),
        "by_nature": sum(tool.by_nature for tool in tools),
        "no_effect": sum(not tool.leaves_effect for tool in tools),
    }
    return render(request, "runs/capabilities.html", context)


@login_required
@require_GET
def capability(request: PageRequest, name: str) -> HttpResponse:
    tool = one_tool(name)
    if tool is None or tool.record is None:
        raise Http404(f"No capability is called “{name}”.")
    runs = Run.objects.visible_to(request.user).filter(steps__capability=name).distinct()
    drills = LogEntry.objects.filter(event="capability.drilled", step__capability=name, run__in=Run.objects.visible_to(request.user))
    schema = json.dumps(tool.record.schema, indent=2, ensure_ascii=False)
    context = {"tool": tool, "record": tool.record, "runs": runs[:20], "drills": drills.order_by("-id")[:10], "schema": schema}
    return render(request, "runs/capability.html", context)
