"""The pages on which admins say who must approve what."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from outbox import governing
from outbox.forms import PolicyForm
from outbox.models import Policy
from sagaboard.web import PageRequest

may_govern = permission_required("outbox.change_policy", raise_exception=True)


@require_safe
@login_required
@may_govern
def policies(request: PageRequest) -> HttpResponse:
    found = Policy.objects.order_by("capability", "audience").prefetch_related("groups", "people")
    return render(request, "outbox/policies.html", {"policies": found})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@may_govern
def add(request: PageRequest) -> HttpResponse:
    return _form(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@may_govern
def policy(request: PageRequest, policy_id: int) -> HttpResponse:
    return _form(request, get_object_or_404(Policy, pk=policy_id))


def _form(request: PageRequest, found: Policy | None) -> HttpResponse:
    form = PolicyForm(request.POST or None, instance=found, auto_id="%s")
    if request.method == "POST" and form.is_valid():
        governing.save(form, by=request.user)
        return redirect("policies:list")
    shown = Policy.objects.get(pk=found.pk) if found else None
    versions = shown.versions.all() if shown else []
    context = {"form": form, "policy": shown, "versions": versions}
    return render(request, "outbox/policy.html", context, status=422 if form.errors else 200)
