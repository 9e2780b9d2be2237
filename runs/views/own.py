"""What is one's own: settings, and who did what over all runs one can see."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from runs import audit as acts
from runs import logwords
from runs.forms import SettingsForm
from runs.models.log import EVENTS, LogQuerySet
from sagaboard.web import PageRequest

# An auditor's right: to take the acts of others away as a file.
EXPORT = "runs.view_logentry"


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def me(request: PageRequest) -> HttpResponse:
    form = SettingsForm(request.POST or None, instance=request.user)
    if request.method == "POST" and form.is_valid():
        form.save()
        return redirect("runs:me")
    if form.errors:
        request.user.refresh_from_db()
    context = {"form": form, "zones": sorted(zoneinfo.available_timezones())}
    return render(request, "runs/me.html", context, status=422 if form.errors else 200)


@login_required
@require_safe
def audit(request: PageRequest) -> HttpResponse:
    """What people and tokens did, newest first, a page at a time."""
    asked = acts.Asked.read(request.GET.dict())
    found = list(acts.entries(request.user, asked).narrowed(before=request.GET.get("before", ""))[: acts.PAGE + 1])
    context = {
        "lines": [logwords.line(entry) for entry in found[: acts.PAGE]],
        "older": found[acts.PAGE - 1].pk if len(found) > acts.PAGE else None,
        "asked": asked,
        "kinds": acts.KINDS,
        "events": EVENTS,
        "may_export": request.user.has_perm(EXPORT),
    }
    return render(request, "runs/audit.html", context)


@login_required
@require_safe
@permission_required(EXPORT, raise_exception=True)
def audit_csv(request: PageRequest) -> StreamingHttpResponse:
    return _file(acts.as_csv(_asked_for(request)), "audit.csv", "text/csv; charset=utf-8")


@login_required
@require_safe
@permission_required(EXPORT, raise_exception=True)
def audit_lines(request: PageRequest) -> StreamingHttpResponse:
    return _file(acts.as_json_lines(_asked_for(request)), "audit.jsonl", "application/jsonl; charset=utf-8")


def _asked_for(request: PageRequest) -> LogQuerySet:
    return acts.entries(request.user, acts.Asked.read(request.GET.dict()))


def _file(lines: Iterator[str], name: str, kind: str) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(lines, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
