"""The list of runs, and the jump box."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from runs import news
from runs.models import LogEntry, Run, Step
from runs.run_list import FILTERS, Wanted, board
from sagaboard.web import PageRequest


@login_required
@require_safe
def home(request: PageRequest) -> HttpResponse:
    """A reviewer who belongs to no team lands where their work is."""
    runs = Run.objects.visible_to(request.user)
    return redirect("runs:index" if request.user.teams.exists() or runs.exists() else "/outbox/")


@login_required
@require_safe
def index(request: PageRequest) -> HttpResponse:
    if request.htmx and "at" in request.GET and not news.since(request.GET["at"]):
        return HttpResponse(status=204)
    at = news.mark()
    wanted = _wanted(request)
    asked = request.GET.copy()
    asked.pop("at", None)
    query = asked.urlencode()
    found = board(request.user, wanted, timezone.now())
    chips = [("", "All", "", found.counts["all"])]
    icons = {"needs": "alert", "visible": "eye", "running": "running", "compensated": "undone"}
    chips += [(state, label, icons[state], found.counts[state]) for state, label in FILTERS.items()]
    context = {
        "board": found,
        "wanted": wanted,
        "chips": chips,
        "at": at,
        "query": query,
        "here": f"/runs/?{query}" if query else "/runs/",
        "kept": _kept(request, "q", "owner", "agent"),
        "removable": _removable(request),
        "address": request.build_absolute_uri("/"),
    }
    return render(request, "runs/runs.html", context)


def _wanted(request: PageRequest) -> Wanted:
    given = request.GET
    before = given.get("before", "")
    state = given.get("state", "")
    return Wanted(
        state=state if state in FILTERS else "",
        q=given.get("q", "").replace("\x00", "").strip()[:200],
        owner=given.get("owner", "").replace("\x00", "")[:150],
        agent=given.get("agent", "").replace("\x00", "")[:80],
        seen=given.get("seen", ""),
        before=int(before) if before.isascii() and before.isdigit() and len(before) < 18 else None,
    )


def _kept(request: PageRequest, *names: str) -> str:
    """The filters that stay when another is changed."""
    return urlencode({name: request.GET[name] for name in names if request.GET.get(name)})


def _removable(request: PageRequest) -> list[tuple[str, str]]:
    """Those that only an address sets, with the address without each."""
    set_by = {"owner": ("state", "q", "agent"), "agent": ("state", "q", "owner")}
    return [(f"{name} {request.GET[name]}", _kept(request, *others)) for name, others in set_by.items() if request.GET.get(name)]


@login_required
@require_safe
def go(request: PageRequest) -> HttpResponse:
    """Jumps to what the text names: a run, a ticket, a step's key, an entry's hash; else searches."""
    text = request.GET.get("q", "").replace("\x00", "").strip()[:200]
    runs = Run.objects.visible_to(request.user)
    number = text.lower().removeprefix("run").strip().lstrip("#")
    if number.isascii() and number.isdigit() and len(number) < 18 and runs.filter(pk=int(number)).exists():
        return redirect("runs:run", int(number))
    if text:
        ticket = list(runs.filter(ticket__iexact=text)[:2])
        if len(ticket) == 1:
            return redirect(ticket[0])
        if len(text) >= 8:
            step = Step.objects.filter(run__in=runs, key__startswith=text).order_by("-run_id").first()
            if step is not None:
                return redirect("runs:step", step.run_id, step.number)
            entry = LogEntry.objects.filter(run__in=runs, hash__startswith=text.replace(" ", "")).first()
            if entry is not None:
                return redirect("runs:run", entry.run_id)
    return redirect(f"/runs/?{urlencode({'q': text})}" if text else "/runs/")
