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
    Claim.objects.bulk_create([Claim(run=run, resource=resource) for resource in step.touches], ignore_conflicts=True)
    return Claim.objects.filter(live=True, resource__in=step.touches).exclude(run=run).values_list("resource", "run_id").first()


def free(run: Run, step: Step) -> None:
    """A call that ended without an effect holds up nobody: gives back what no other call of the run touches."""
    if not step.touches or step.state in HOLDS:
        return
    holding = run.steps.filter(state__in=HOLDS).exclude(pk=step.pk).values_list("touches", flat=True)
    kept = {resource for touches in holding for resource in touches}
    run.claims.filter(live=True, resource__in=set(step.touches) - kept).update(live=False)
