"""What calls touch: of two unfinished runs only one holds a resource, as long as it has, or may have, an effect there."""

from __future__ import annotations

from typing import Any

from runs import keys
from runs.capability import Capability
from runs.models import Claim, Run, Step
from runs.states import IN_EFFECT, PENDING

HOLDS = PENDING | IN_EFFECT


def touched(capability: Capability[Any], args: Any) -> list[str]:
    """The names under which this call's resources are claimed."""
    # Sorted: two runs that claim the same in different orders would wait for each other.
    return sorted({keys.resource(name) for name in capability.touches(args)})


def claim(run: Run, step: Step) -> tuple[str, int] | None:
    """Claims for the run what the step touches and nobody holds; returns a resource that another run holds, and its number."""
    if not step.touches:
        return None
    # A retry goes on from where the run it retries stopped, and takes over what that still holds.
    Claim.objects.filter(live=True, resource__in=step.touches, run__in=_retried(run)).update(run=run)
    Claim.objects.bulk_create([Claim(run=run, resource=resource) for resource in step.touches], ignore_conflicts=True)
    return Claim.objects.filter(live=True, resource__in=step.touches).exclude(run=run).values_list("resource", "run_id").first()


def free(run: Run, step: Step) -> None:
    """A call that ended without an effect holds up nobody: gives back what no other call of the run touches."""
    if not step.touches or step.state in HOLDS:
        return
    freed = set(step.touches) - _held(run, besides=step)
    for before in _retried(run):
        # Back to the run that this one retried, whose effect is there still.
        back = freed & _held(before)
        run.claims.filter(live=True, resource__in=back).update(run=before)
        freed -= back
    run.claims.filter(live=True, resource__in=freed).update(live=False)


def _held(run: Run, *, besides: Step | None = None) -> set[str]:
    """What the run's calls touch that may have an effect."""
    holding = run.steps.filter(state__in=HOLDS).values_list("pk", "touches")
    return {resource for pk, touches in holding if besides is None or pk != besides.pk for resource in touches}


def _retried(run: Run) -> list[Run]:
    """The unfinished runs that this one retries, the nearest first."""
    found, before = [], run.retry_of
    while before is not None:
        found.append(before)
        before = before.retry_of
    return [one for one in found if not one.has_ended]
