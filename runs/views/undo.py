"""The preview of a compensation, and the press."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from runs import preview, rights, services
from runs.exceptions import Invalid, Refused
from runs.models import Run
from runs.states import RunState
from runs.views.shared import find_run
from sagaboard.web import PageRequest

CAN_BE_UNDONE = (RunState.FAILED, RunState.STUCK, RunState.SUCCEEDED, RunState.LEFT_STANDING)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def compensate(request: PageRequest, number: int) -> HttpResponse:
    """GET looks and changes nothing; POST undoes exactly what was shown, or nothing."""
    run = find_run(request, number)
    if request.method == "POST":
        return _press(request, run)
    if run.state == RunState.COMPENSATING:
        return redirect(run)
    return _show(request, run)


def _press(request: PageRequest, run: Run) -> HttpResponse:
    shown = None
    try:
        shown = preview.shown(run, request.POST.get("token", ""))
        _undo(request, run, shown)
    except Refused as exc:
        run.refresh_from_db()
        return _show(request, run, refusal=exc, before=shown)
    return HttpResponseClientRedirect(run.get_absolute_url()) if request.htmx else redirect(run)


def _undo(request: PageRequest, run: Run, shown: preview.Shown) -> None:
    known = request.POST.getlist("know")
    for step in shown.unproven:
        if str(step) not in known:
            raise Invalid(f"Nothing was undone. Tick that you know that the undo of step {step} was never proven.")
    number = request.POST.get("number", "").strip()
    if (number and number != str(run.number)) or (shown.wants_override and not number):
        raise Invalid(f"Nothing was undone. To undo past what went out, type the run’s number, {run.number}.")
    services.compensate_run(
        run,
        actor=f"person:{request.user}",
        by=request.user,
        head=shown.head,
        to=shown.to,
        override=bool(number),
        undo_over=[step for step in shown.drifted if str(step) in request.POST.getlist("over")],
    )


def _show(request: PageRequest, run: Run, *, refusal: Refused | None = None, before: preview.Shown | None = None) -> HttpResponse:
    to = before.to if before else request.GET.get("to", "").replace("\x00", "")
    try:
        preview.check_to(run, to)
    except Refused as exc:
        refusal, to = exc, ""
    can_be = run.state in CAN_BE_UNDONE
    look = can_be and request.GET.get("look") != "later"
    shown = preview.of(run, to=to, look=look, before=before)
    own = rights.of(request.user, run)
    others = rights.who_may_override(run) if shown.sent and not own.override else []
    context = {"run": run, "preview": shown, "refusal": refusal, "rights": own, "can_be": can_be, "who_may_override": others}
    return render(request, "runs/compensate.html", context, status=refusal.status if refusal else 200)
