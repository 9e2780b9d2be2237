"""What is one's own: settings, and who did what over all runs one can see."""

from __future__ import annotations

import zoneinfo

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from runs import logwords
from runs.forms import SettingsForm
from runs.models import LogEntry, Run
from sagaboard.web import PageRequest

PAGE = 100


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
    """What people and tokens did, newest first."""
    given = {name: request.GET.get(name, "").replace("\x00", "").strip()[:200] for name in ("who", "run", "kind", "before")}
    entries = LogEntry.objects.filter(run__in=Run.objects.visible_to(request.user)).by_people().narrowed(**given)
    found = list(entries.order_by("-id").select_related("step", "run")[: PAGE + 1])
    context = {
        "lines": [logwords.line(entry) for entry in found[:PAGE]],
        "older": found[PAGE - 1].pk if len(found) > PAGE else None,
        "given": given,
        "kinds": sorted({event.partition(".")[0] for event in logwords.WORDS}),
    }
    return render(request, "runs/audit.html", context)
