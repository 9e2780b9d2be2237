"""One run: its page, what changed since, and what people do to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from runs import blast_radius, facts, services
from runs.exceptions import Refused
from runs.forms import ReasonForm
from runs.models import Run, Step
from runs.views.shared import act, context_of, entries_of, find_run, find_step, is_sealed
from sagaboard.web import PageRequest


@login_required
@require_safe
def run_page(request: PageRequest, number: int) -> HttpResponse:
    return render(request, "runs/run.html", context_of(request, number))


@login_required
@require_safe
def live(request: PageRequest, number: int) -> HttpResponse:
    """The changed regions; 204, at the price of one query, while the log has not grown."""
    seq = request.GET.get("seq", "")
    if not seq.isascii() or not seq.isdigit() or len(seq) > 9:
        return HttpResponse("seq is the number of the last entry you have.", status=422)
    entries = entries_of(number, since=int(seq))
    if not entries:
        if not is_sealed(request, number):
            find_run(request, number)
        return HttpResponse(status=204)
    return render(request, "runs/_live.html", context_of(request, number, entries=entries))


@login_required
@require_POST
def take(request: PageRequest, number: int) -> HttpResponse:
    run = find_run(request, number)
    return act(request, number, lambda: services.take_run(run, by=request.user))


@login_required
@require_POST
def step_back(request: PageRequest, number: int) -> HttpResponse:
    run = find_run(request, number)
    return act(request, number, lambda: services.step_back(run, by=request.user))


@login_required
@require_POST
def retry_sending(request: PageRequest, number: int) -> HttpResponse:
    run = find_run(request, number)
    return act(request, number, lambda: services.retry_sending(run, by=request.user))


@dataclasses.dataclass(frozen=True)
class Question:
    """A page that is asked before something happens. `label` names the reason it wants; "" wants none."""

    heading: str
    text: str
    button: str
    busy: str
    label: str = ""
    hint: str = ""
    lists_effects: bool = False


LEAVE = Question(
    "Leave the effects of run {run.number} standing?",
    "Nothing of it is undone. For each effect that people can see, a correction is drafted.",
    "Leave them standing",
    "Leaving…",
    label="Why they stay",
    hint="stands in the log and in the report, with your name",
    lists_effects=True,
)
PAUSE = Question(
    "Pause after this step?",
    "The undo that runs is finished and verified. Then nothing more is undone until somebody goes on.",
    "Pause after this step",
    "Pausing…",
)
STOP = Question(
    "Stop run {run.number}?",
    "It fails now: nothing that waits goes out, and on-call is asked about the undo. A call that runs is not cut off.",
    "Stop this run",
    "Stopping…",
    label="Why it is stopped",
    hint="the agent and the owner get this",
    lists_effects=True,
)
CONFIRM = Question(
    "Say that run {run.number} is good?",
    "No check decides this run. With your word for it, what waits in its outbox can be decided and sent.",
    "Say that it is good",
    "Writing it down…",
    label="What you checked",
    hint="stands in the log, with your name",
    lists_effects=True,
)


REFUSE = Question(
    "Refuse step {step.number} of run {run.number}?",
    "It is not called. The agent gets your words, and the run goes on without it.",
    "Refuse it",
    "Refusing…",
    label="Why it is refused",
    hint="the agent gets this",
)
DROP = Question(
    "Drop step {step.number} of run {run.number}, unsent?",
    "It could not be sent, and is not tried again. What waits behind it goes out.",
    "Drop it",
    "Dropping…",
    label="Why it is not sent",
    hint="stands in the log and in the report, with your name",
)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def leave(request: PageRequest, number: int) -> HttpResponse:
    return _ask(request, number, LEAVE, services.leave_standing)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def pause(request: PageRequest, number: int) -> HttpResponse:
    return _ask(request, number, PAUSE, services.pause_run)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def stop(request: PageRequest, number: int) -> HttpResponse:
    return _ask(request, number, STOP, services.stop_run)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: PageRequest, number: int) -> HttpResponse:
    return _ask(request, number, CONFIRM, services.confirm_green)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def refuse(request: PageRequest, number: int, step: int) -> HttpResponse:
    return _ask(request, number, REFUSE, services.refuse_held, step=find_step(request, number, step))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def drop(request: PageRequest, number: int, step: int) -> HttpResponse:
    return _ask(request, number, DROP, services.drop_send, step=find_step(request, number, step))


def _ask(request: PageRequest, number: int, question: Question, service: Callable[..., None], *, step: Step | None = None) -> HttpResponse:
    """Asks by GET; does it by POST, or comes back with what was typed and why it was not done."""
    run = step.run if step else find_run(request, number)
    form = ReasonForm(request.POST or None) if question.label else None
    refusal: Refused | None = None
    if request.method == "POST" and (form is None or form.is_valid()):
        given = {"reason": form.cleaned_data["reason"]} if form else {}
        try:
            service(step or run, by=request.user, **given)
        except Refused as exc:
            refusal = exc
        else:
            return redirect(run)
    status = refusal.status if refusal else 422 if form and form.errors else 200
    return render(request, "runs/ask.html", _question(run, step, question, form, refusal), status=status)


def _question(run: Run, step: Step | None, question: Question, form: ReasonForm | None, refusal: Refused | None) -> dict[str, Any]:
    known = facts.read(run)
    rows = [row for row in blast_radius.table(known).rows if row.step in [*known.in_effect, *known.maybe]] if question.lists_effects else []
    heading = question.heading.format(run=run, step=step)
    return {"run": run, "question": question, "heading": heading, "form": form, "refusal": refusal, "rows": rows}
