"""One step: what it did and how we know, and the ways on where the machine stopped."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from runs import blast_radius, facts, logwords, registry, rights, services
from runs.exceptions import Refused
from runs.forms import SettleForm
from runs.models import Step
from runs.views.shared import act, answer, find_run, find_step
from sagaboard.web import PageRequest

PAGE = 100


@login_required
@require_safe
def step_page(request: PageRequest, number: int, step: int) -> HttpResponse:
    return render(request, "runs/step.html", _context(request, find_step(request, number, step)))


@login_required
@require_safe
def steps_page(request: PageRequest, number: int) -> HttpResponse:
    """Steps of a run by their numbers, ?from to ?to, a page at a time: what a fold of the run's page stands for."""
    run = find_run(request, number)
    start, end = _given(request, "from", 1), _given(request, "to", 10**6)
    known = facts.read(run, marks=[])
    wanted = [step for step in known.steps if start <= step.number <= end]
    rows = [blast_radius.row(known, step) for step in wanted[:PAGE]]
    context = {
        "run": run,
        "rows": rows,
        "count": len(known.steps),
        "first": rows[0].step.number if rows else start,
        "last": rows[-1].step.number if rows else start,
        "following": wanted[PAGE].number if len(wanted) > PAGE else None,
        "to": end,
        "rights": rights.of(request.user, run),
    }
    return render(request, "runs/steps.html", context)


def _given(request: PageRequest, name: str, otherwise: int) -> int:
    found = request.GET.get(name, "")
    return int(found) if found.isascii() and found.isdigit() and len(found) < 9 else otherwise


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def settle(request: PageRequest, number: int, step: int) -> HttpResponse:
    """A person states how the step ended; the machine looks once more, and what it saw stands beside it."""
    found = find_step(request, number, step)
    form = SettleForm(request.POST or None)
    refusal: Refused | None = None
    if request.method == "POST" and form.is_valid():
        if _wants_second_press(request, found, form.cleaned_data["how"]):
            return render(request, "runs/step.html", _context(request, found, form=form, sure=_seen(found)))
        try:
            _settle(request, found, form.cleaned_data)
        except Refused as exc:
            refusal = exc
        else:
            return answer(request, number)
    status = refusal.status if refusal else 422 if form.errors else 200
    return render(request, "runs/step.html", _context(request, found, form=form, refusal=refusal), status=status)


def _wants_second_press(request: PageRequest, step: Step, how: str) -> bool:
    """What somebody else did is overwritten only once it was read what that is."""
    return how == "again" and step.state == "drifted" and request.POST.get("sure") != _seen(step)


def _seen(step: Step) -> str:
    return hashlib.sha256(step.undo_error.encode()).hexdigest()[:16]


def _settle(request: PageRequest, step: Step, given: dict[str, Any]) -> None:
    if given["how"] == "again":
        run, over = step.run, [step.number] if step.state == "drifted" else []
        services.compensate_run(
            run,
            actor=f"person:{request.user}",
            by=request.user,
            to=run.undo_to,
            override=run.override_pivot,
            undo_over=[*run.undo_over, *over],
            why=given["reason"],
        )
        return
    services.settle_step(step, by=request.user, how=given["how"], reason=given["reason"], effect=given["effect"])


@login_required
@require_POST
def let_through(request: PageRequest, number: int, step: int) -> HttpResponse:
    found = find_step(request, number, step)
    return act(request, number, lambda: services.let_through(found, by=request.user))


def _context(request: PageRequest, step: Step, **more: Any) -> dict[str, Any]:
    known = facts.read(step.run, marks=[])
    capability = registry.find(step.capability)
    entries = [logwords.line(entry) for entry in step.log().order_by("seq").select_related("step")]
    return {
        "run": step.run,
        "step": step,
        "row": blast_radius.row(known, next(one for one in known.steps if one.pk == step.pk)),
        "capability": capability,
        "args": _hidden(step.args, capability.secret if capability else ()),
        "attempts": [line for line in entries if line.entry.attempt is not None],
        "log": entries,
        "rights": rights.of(request.user, step.run),
        **more,
    }


def _hidden(args: dict[str, Any], secret: tuple[str, ...]) -> dict[str, Any]:
    return {name: f"secret, {len(str(value))} characters" if name in secret else value for name, value in args.items()}
