"""Calls people, and the services where people are: kept as rows, delivered from there, each once."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from runs.models import Page, Run, Step
from sagaboard.accounts.models import User
from sagaboard.accounts.rights import holders


def on_call(run: Run) -> Iterable[User]:
    """Who may undo this run."""
    return holders("runs.compensate_run", run.team)


def services_of(run: Run) -> list[str]:
    """Where this run's team is paged besides its people."""
    return [name for name, at in settings.PAGE_SERVICES.items() if run.team.name in at.get("teams", [run.team.name])]


def page(run: Run, subject: str, why: str, *, people: Iterable[User] | None = None, step: Step | None = None) -> None:
    """Writes down, in the caller's transaction, that on-call (or `people`) must be told. Nobody on call: the owner is."""
    told = list(people if people is not None else on_call(run)) or [run.owner]
    services = services_of(run) if people is None else []
    body = f"{run.title}\n\n{why}\n\n{settings.SAGABOARD_URL}{run.get_absolute_url()}\n"
    for person in told:
        Page.objects.create(run=run, person=person, subject=f"Run {run.number}: {subject}"[:200], body=body)
    for name in services:
        Page.objects.create(run=run, service=name, subject=f"Run {run.number}: {subject}"[:200], body=body)
    run.append("run.paged", step=step, people=[*map(str, told), *services], subject=subject, why=why)
