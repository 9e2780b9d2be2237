"""The pages of admins and owners: who owns which audience, and how messages are worded."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import IntegrityError, transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from corrections import wording, wording_pages
from corrections.forms import AudienceForm, TemplateForm
from corrections.models import Audience, Template
from corrections.states import Kind
from corrections.wording_pages import ANYWHERE, PLACES
from sagaboard.accounts import changes
from sagaboard.accounts.models import User
from sagaboard.web import PageRequest


@require_safe
@login_required
def audiences(request: PageRequest) -> HttpResponse:
    context = {
        "audiences": Audience.objects.select_related("owner"),
        "unowned": wording_pages.unowned(request.user),
        "may_add": request.user.has_perm("corrections.add_audience"),
        "saved": "saved" in request.GET,
    }
    return render(request, "corrections/audiences.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def audience(request: PageRequest, audience_id: int | None = None) -> HttpResponse:
    """One audience; admins change all of it, its owner how and when they are told."""
    found = get_object_or_404(Audience.objects.select_related("owner"), pk=audience_id) if audience_id else None
    if not _may_change(request.user, found):
        return _audience_page(request, found, None, status=403 if request.method == "POST" else 200)
    form = AudienceForm(found, request.POST if request.method == "POST" else None, by=request.user)
    if request.method != "POST":
        if found is None:
            form.initial["name"] = request.GET.get("name", "")[:120]
        return _audience_page(request, found, form)
    if not form.is_valid() or not _save(found or Audience(), form, by=request.user):
        return _audience_page(request, found, form, status=422)
    return redirect("/audiences/?saved")


def _may_change(user: User, found: Audience | None) -> bool:
    if found is None:
        return user.has_perm("corrections.add_audience")
    return user.has_perm("corrections.change_audience") or (user.is_active and found.owner_id == user.pk)


def _save(audience: Audience, form: AudienceForm, *, by: User) -> bool:
    """False where somebody registered the name meanwhile; the form says so."""
    given = form.cleaned_data
    audience.name, audience.owner = given.get("name") or audience.name, given.get("owner") or audience.owner
    audience.address, audience.send_after = form.address(), given["send_after"]
    try:
        with transaction.atomic():
            audience.save()
            changes.note(audience, f"{changes.named(form)}; owner {audience.owner}", by=by)
    except IntegrityError:
        form.add_error("name", f"“{audience.name}” was registered a moment ago: change that one.")
        return False
    return True


def _audience_page(request: PageRequest, found: Audience | None, form: AudienceForm | None, status: int = 200) -> HttpResponse:
    return render(request, "corrections/audience.html", {"audience": found, "form": form}, status=status)


@require_safe
@login_required
def templates(request: PageRequest) -> HttpResponse:
    context = {"wordings": wording_pages.wordings(), "may_change": _may_word(request.user), "saved": "saved" in request.GET}
    return render(request, "corrections/templates.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def template(request: PageRequest, kind: str, place_kind: str) -> HttpResponse:
    """One wording with its example and its versions; a POST adds a version. Messages that are drafted keep theirs."""
    kind, place_kind = _named(kind, place_kind)
    now = wording_pages.wording_of(kind, place_kind)
    form = TemplateForm(request.POST if request.method == "POST" else None, initial={"body": now.body}, auto_id="%s")
    status = 200
    if request.method == "POST":
        if _may_word(request.user) and form.is_valid():
            _word(kind, place_kind, form.cleaned_data["body"], by=request.user)
            return redirect("/templates/?saved")
        status = 422 if _may_word(request.user) else 403
    body = request.POST.get("body", now.body)
    context = {
        "wording": now,
        "form": form,
        "may_change": _may_word(request.user),
        "versions": Template.objects.filter(kind=kind, place_kind=place_kind).select_related("by").order_by("-pk")[:20],
        "slots": wording.SLOTS,
        "required": wording.REQUIRED,
        **_example(body, kind, place_kind, request.user),
    }
    return render(request, "corrections/template.html", context, status=status)


@require_POST
@login_required
def template_preview(request: PageRequest, kind: str, place_kind: str) -> HttpResponse:
    """The example with what is typed now. Saves nothing."""
    kind, place_kind = _named(kind, place_kind)
    return render(request, "corrections/_example.html", _example(request.POST.get("body", "")[:4000], kind, place_kind, request.user))


def _example(body: str, kind: str, place_kind: str, user: User) -> dict[str, Any]:
    shown = wording_pages.example(kind, place_kind, user)
    return {"lines": wording.worded(body, shown), "place": PLACES[place_kind], "against": wording.against_template(body)}


@transaction.atomic
def _word(kind: str, place_kind: str, body: str, *, by: User) -> None:
    changes.note(Template.objects.create(kind=kind, place_kind=place_kind, body=body, by=by), "worded anew", by=by)


def _may_word(user: User) -> bool:
    return user.has_perm("corrections.add_template")


def _named(kind: str, place_kind: str) -> tuple[str, str]:
    place_kind = "" if place_kind == ANYWHERE else place_kind
    if kind not in Kind.values or place_kind not in PLACES:
        raise Http404("No message of that kind goes to such a place.")
    return kind, place_kind
