"""The list, the editor with its preview, and what an owner does with a draft. No GET sends."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from corrections import services, wording
from corrections.exceptions import NotSendable, StaleEdit
from corrections.forms import Dismissal, Words
from corrections.models import Correction
from corrections.pages import Filters, editor_of, shelf_of
from runs import news
from runs.exceptions import NotAllowed
from sagaboard.web import PageRequest

CONFIRM = {"send", "dismiss"}


@require_safe
@login_required
def shelf(request: PageRequest) -> HttpResponse:
    return render(request, "corrections/corrections.html", {"shelf": shelf_of(request.user, Filters.read(request.GET.dict()))})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def editor(request: PageRequest, correction_id: int) -> HttpResponse:
    """The editor; a POST saves the words, and with `then=send` goes on to the line that the second press is on."""
    correction = _correction(request, correction_id)
    if request.method == "POST":
        return _save(request, correction)
    return _page(request, correction, confirm=_asked(request, correction))


@require_POST
@login_required
def preview(request: PageRequest, correction_id: int) -> HttpResponse:
    """The message with what is typed now, by the very words that would be sent. Saves nothing."""
    form = Words(_correction(request, correction_id), request.POST)
    context = {"editor": editor_of(form.applied(), request.user), "unsaved": form.differs()}
    return render(request, "corrections/_preview.html", context)


@require_POST
@login_required
def send(request: PageRequest, correction_id: int) -> HttpResponse:
    """Sends the revision that was on the page."""
    revision = request.POST.get("revision", "")
    return _done(request, correction_id, services.send, revision=int(revision) if revision.isdecimal() else 0)


@require_POST
@login_required
def dismiss(request: PageRequest, correction_id: int) -> HttpResponse:
    form = Dismissal(request.POST)
    if not form.is_valid():
        return _page(request, _correction(request, correction_id), confirm="dismiss", dismissal=form, status=422)
    return _done(request, correction_id, services.dismiss, reason=form.cleaned_data["reason"])


@require_POST
@login_required
def hold(request: PageRequest, correction_id: int) -> HttpResponse:
    """It goes only when a person sends it."""
    return _done(request, correction_id, services.hold_back)


@require_POST
@login_required
def elsewhere(request: PageRequest, correction_id: int) -> HttpResponse:
    """Another place for it, which the owner chose; it is sent from the page that shows how it looks there."""
    return _done(request, correction_id, services.hand_over, to=request.POST.get("to", ""))


@require_POST
@login_required
def another(request: PageRequest, correction_id: int) -> HttpResponse:
    """A second message after one that went out."""
    return _done(request, correction_id, services.write_another)


@require_POST
@login_required
def back(request: PageRequest, correction_id: int) -> HttpResponse:
    """Tells the same people that it is back."""
    return _done(request, correction_id, services.say_back)


def _done(request: PageRequest, correction_id: int, service: Callable[..., Correction], **given: Any) -> HttpResponse:
    """What the service made of it, or the page with the refusal."""
    correction = _correction(request, correction_id)
    try:
        made = service(correction, by=request.user, **given)
    except (StaleEdit, NotSendable, NotAllowed) as exc:
        return _refused(request, correction, exc)
    return redirect("corrections:correction", made.pk)


@require_POST
@login_required
def autosave(request: PageRequest, correction_id: int) -> HttpResponse:
    """Saves what is typed, without a press; the answer says whether it did, and changes nothing that is being typed."""
    correction = _correction(request, correction_id)
    form = Words(correction, request.POST)
    status, says = 200, ""
    if not form.is_valid():
        status, says = 422, " ".join(str(message) for messages in form.errors.values() for message in messages)
    else:
        try:
            _edited(request, correction, form)
        except (StaleEdit, NotSendable, NotAllowed) as exc:
            status, says = 409, str(exc)
    context = {"editor": editor_of(_correction(request, correction.pk), request.user), "says": says, "editing": True}
    return render(request, "corrections/_saved.html", context, status=status)


@require_safe
@login_required
def live(request: PageRequest) -> HttpResponse:
    """What changed since `seen`, on the list or on one correction's page; 204 if nothing happened."""
    if not news.since(request.GET.get("at", "")):
        return HttpResponse(status=204)
    asked, moment = request.GET.get("id", ""), news.mark()
    if asked.isdecimal() and len(asked) < 19:
        shown = editor_of(_correction(request, int(asked)), request.user, moment)
        context: dict[str, Any] = {"editor": shown, "editing": "editing" in request.GET}
        moved = shown.seen != request.GET.get("seen")
    else:
        found = shelf_of(request.user, Filters.read(request.GET.dict()))
        context, moved = {"shelf": found}, found.seen != request.GET.get("seen")
    return render(request, "corrections/_live.html", {**context, "moved": moved})


def _save(request: PageRequest, correction: Correction) -> HttpResponse:
    form = Words(correction, request.POST)
    if not form.is_valid():
        return _page(request, correction, form=form, status=422)
    try:
        _edited(request, correction, form)
    except (StaleEdit, NotSendable, NotAllowed) as exc:
        return _refused(request, correction, exc, form=form)
    then = f"?confirm=send&tried={correction.attempt}" if request.POST.get("then") == "send" else "?saved"
    return redirect(f"{correction.get_absolute_url()}{then}")


def _asked(request: PageRequest, correction: Correction) -> str:
    """The second press that this address asks for. One for an attempt that was made since is over: what became of it is shown."""
    asked, tried = request.GET.get("confirm", ""), request.GET.get("tried", "0")
    is_over = asked == "send" and tried != str(correction.attempt)
    return asked if asked in CONFIRM and not is_over else ""


def _edited(request: PageRequest, correction: Correction, form: Words) -> None:
    given = form.cleaned_data
    services.edit(
        correction, by=request.user, revision=given["revision"], questions_to=given["questions_to"], page=given["page"], **form.words()
    )


def _correction(request: PageRequest, correction_id: int) -> Correction:
    return get_object_or_404(Correction.objects.visible_to(request.user).with_everything(), pk=correction_id)


def _refused(
    request: PageRequest, correction: Correction, exc: StaleEdit | NotSendable | NotAllowed, *, form: Words | None = None
) -> HttpResponse:
    """The page as it is now, with what happened, and with what was typed."""
    now = _correction(request, correction.pk)
    return _page(
        request, now, form=form, refusal=str(exc), stale=isinstance(exc, StaleEdit), status=403 if isinstance(exc, NotAllowed) else 409
    )


def _page(
    request: PageRequest,
    correction: Correction,
    *,
    confirm: str = "",
    form: Words | None = None,
    dismissal: Dismissal | None = None,
    refusal: str = "",
    stale: bool = False,
    status: int = 200,
) -> HttpResponse:
    """The editor. With a form that was typed in, the preview shows what was typed."""
    shown = editor_of(form.applied() if form is not None else correction, request.user)
    context = {
        "editor": shown,
        "form": form or Words(correction),
        "dismissal": dismissal or Dismissal(),
        "confirm": confirm if shown.is_editable else "",
        "refusal": refusal,
        "stale": stale and form is not None,
        # What stands there now, beside what was typed.
        "stored": wording.render_text(correction),
        "revision": correction.revision,
        # Names this open page, so that what it saves by itself is not taken for somebody else's change.
        "page": (form.data.get("page", "") if form is not None else "") or secrets.token_hex(8),
        "saved": "saved" in request.GET,
    }
    return render(request, "corrections/correction.html", context, status=status)
