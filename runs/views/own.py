"""What is one's own: settings, and who did what over all runs one can see."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from runs import audit as acts
from runs.forms import SettingsForm
from runs.models.log import EVENTS
from sagaboard.web import PageRequest


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
    asked = _asked(request)
    context = {
        "page": acts.page(request.user, asked, request.GET.get("before", "")),
        "asked": asked,
        "kinds": acts.KINDS,
        "events": EVENTS,
        "may_export": request.user.has_perm(acts.EXPORT),
    }
    return render(request, "runs/audit.html", context)


@login_required
@require_safe
@permission_required(acts.EXPORT, raise_exception=True)
def audit_csv(request: PageRequest) -> StreamingHttpResponse:
    return _file(acts.as_csv(request.user, _asked(request)), "audit.csv", "text/csv; charset=utf-8")


@login_required
@require_safe
@permission_required(acts.EXPORT, raise_exception=True)
def audit_lines(request: PageRequest) -> StreamingHttpResponse:
    return _file(acts.as_json_lines(request.user, _asked(request)), "audit.jsonl", "application/jsonl; charset=utf-8")


def _asked(request: PageRequest) -> acts.Asked:
    return acts.Asked.read(request.GET.dict())


def _file(lines: Iterator[str], name: str, kind: str) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(lines, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
