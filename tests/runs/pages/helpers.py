"""Runs in the states that pages show."""

from __future__ import annotations

from typing import Any

from corrections import services as corrections
from runs import services
from runs.engine import compensate
from runs.models import Run, Step
from tests.factories import do, make_run, make_token
from tests.tools import world


def failed_run(team: Any, **fields: Any) -> Run:
    """Three effects out there, one of them seen by people; one call withdrawn."""
    token = make_token(team=team)
    run = make_run(token=token, **fields)
    for ref in ("one", "two", "show"):
        do(run, ref)
    do(run, "tell")
    services.fail_run(run, token=token, reason="CI died")
    return again(run)


def compensated_run(team: Any) -> Run:
    run = failed_run(team)
    services.compensate_run(run, actor="person:Alice Ahn")
    compensate.compensate(run.pk)
    return again(run)


def told_run(team: Any) -> Run:
    """Undone, and nobody is left who believes what they saw."""
    run = compensated_run(team)
    for correction in run.corrections.all():
        corrections.dismiss(correction, by=run.owner, reason="nobody was in")
    return run


def stuck_run(team: Any) -> Run:
    """The undo of the third step lies: it answers, and the effect is still there."""
    run = failed_run(team)
    world.before["undo panel"] = _fails
    services.compensate_run(run, actor="person:Alice Ahn")
    compensate.compensate(run.pk)
    world.before.clear()
    return again(run)


def _fails(call: Any) -> None:
    raise RuntimeError("the shelf is locked")


def again(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def state_of(run: Run, ref: str) -> str:
    return str(Step.objects.get(run=run, ref=ref).state)
