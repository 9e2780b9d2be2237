"""What the views of one run share: finding it, all that its page shows, and the answer to an action."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.core import signing
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from runs import blast_radius, facts, logwords, picture, rights, situation
from runs.exceptions import Refused
from runs.models import LogEntry, Run, Step
from runs.run_list import look_of
from runs.states import WAITS_FOR_WORKER, RunState, StepState
from sagaboard.web import PageRequest

SHOWN_ENTRIES = 8
# Seconds between two looks of an open page: while the run moves, while it waits for somebody.
MOVING, WAITING = 1, 5
SALT = "runs.live"


def find_run(request: PageRequest, number: int) -> Run:
    """The run, if this person can see it; a foreign one is not there."""
    run = Run.objects.as_seen_by(request.user).filter(pk=number).first()
    if run is None:
        raise Http404(f"No run {number} that you can see.")
    return run


def find_step(request: PageRequest, number: int, step: int) -> Step:
    run = find_run(request, number)
    found = run.steps.filter(number=step).first()
    if found is None:
        raise Http404(f"Run {number} has no step {step}.")
    found.run = run
    return found


def entries_of(number: int, *, since: int = 0) -> list[LogEntry]:
    """What a run's page needs of its log, newest first; none while there is nothing after `since`."""
    return LogEntry.objects.newest_of(number, SHOWN_ENTRIES, events=facts.MARKS, since=since)


def context_of(request: PageRequest, number: int, *, entries: list[LogEntry] | None = None, **more: Any) -> dict[str, Any]:
    """All that a run's page shows. The log's end is read first: what comes later is seen as news by the next look."""
    entries = entries_of(number) if entries is None else entries
    run = find_run(request, number)
    marks = [entry for entry in reversed(entries) if entry.event in facts.MARKS]
    known = facts.read(run, timezone.now(), marks=marks)
    look, label = look_of(known, len(known.awaiting), len(known.untold))
    return {
        "run": run,
        "name": f"Run {run.number}",
        "facts": known,
        "look": look,
        "look_label": label,
        "made": _regions(known, entries),
        "rights": rights.of(request.user, run),
        "seq": entries[0].seq if entries else 0,
        "pace": pace(known),
        "seen": seal(request, run),
        "pressed": known.mark("run.compensating"),
        **more,
    }


def _regions(known: facts.Facts, entries: list[LogEntry]) -> dict[str, Callable[[], dict[str, Any]]]:
    """What each region is made of, worked out where that region is made: one that can't be takes no other with it."""
    table = functools.cache(lambda: blast_radius.table(known))
    said = functools.cache(lambda: situation.of(known))
    lines = functools.cache(lambda: [logwords.line(entry) for entry in entries[:SHOWN_ENTRIES]])
    return {
        "situation": lambda: {"situation": said()},
        "facts": lambda: {"situation": said()},
        "blast-rows": lambda: {"table": table()},
        "expo": lambda: {"picture": picture.of(known, table())},
        "log": lambda: {"log": lines()},
        "says": lambda: {"situation": said(), "log": lines()},
        "paged": lambda: {"paged": known.run.pages.select_related("person").order_by("-pk")[:20]},
    }


def pace(known: facts.Facts) -> int | None:
    """Seconds until an open page asks again; None once nothing more can come."""
    if known.run.has_ended:
        return WAITING if known.untold else None
    moves = known.run.state in (RunState.OPEN, RunState.COMPENSATING) or bool(known.among(*WAITS_FOR_WORKER))
    going_out = known.run.state == RunState.RELEASING and not known.awaiting and bool(known.among(StepState.QUEUED))
    return MOVING if moves or going_out else WAITING


def seal(request: PageRequest, run: Run) -> str:
    """Says that this person was shown this run, so that “nothing new” needs no second look at who they are."""
    return signing.Signer(salt=SALT).signature(f"{run.pk}:{request.user.pk}")


def is_sealed(request: PageRequest, number: int) -> bool:
    expected = signing.Signer(salt=SALT).signature(f"{number}:{request.user.pk}")
    return constant_time_compare(request.GET.get("seen", ""), expected)


def act(request: PageRequest, number: int, service: Callable[[], None]) -> HttpResponse:
    """Does it and answers with what changed; a refusal stands on the page, with its status."""
    try:
        service()
    except Refused as exc:
        return answer(request, number, refusal=exc)
    return answer(request, number)


def answer(request: PageRequest, number: int, *, refusal: Refused | None = None) -> HttpResponse:
    status = refusal.status if refusal else 200
    if request.htmx:
        return render(request, "runs/_live.html", context_of(request, number, refusal=refusal, answers=True), status=status)
    if refusal:
        return render(request, "runs/run.html", context_of(request, number, refusal=refusal), status=status)
    return HttpResponseRedirect(f"/runs/{number}/")
