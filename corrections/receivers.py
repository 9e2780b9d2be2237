"""What corrections hear from runs, inside the sender's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.dispatch import receiver

from corrections import drafting
from corrections.models import Audience, Correction
from corrections.states import CorrectionState
from runs import bell, signals
from runs.clock import Clock
from runs.models import Run, Step
from runs.models.leased import lease_is_free
from runs.sections import Told, sections


@receiver(signals.effect_ended)
def draft_correction(sender: Any, run: Run, step: Step, how: str, **kwargs: Any) -> None:
    drafting.draft(run, step, how)


@receiver(signals.sweeping)
def send_what_is_due(sender: Any, **kwargs: Any) -> None:
    due = Correction.objects.filter(lease_is_free(), Q(due_at=None) | Q(due_at__lte=Clock()), state=CorrectionState.SENDING)
    for pk, run_id in due.values_list("pk", "run_id")[:200]:
        bell.ring("corrections.tasks.deliver_correction", run_id, pk)


def _owned_audiences() -> Iterable[str]:
    return Audience.objects.values_list("name", flat=True)


def _told(run: Run) -> list[Told]:
    return [
        Told(
            who=correction.recipient or correction.place_label,
            what=correction.seen,
            how=correction.place_label,
            url=correction.get_absolute_url(),
            state=correction.state,
            owned=bool(correction.recipient) or correction.place_kind != "note",
        )
        for correction in Correction.objects.filter(run=run).order_by("drafted_at")
    ]


def _would_tell(run: Run, steps: list[Step]) -> list[Told]:
    """Who would hear of it if these steps were undone: one line a place."""
    found: dict[str, Told] = {}
    for step in steps:
        if not step.seen_by_people or step.done_at is None:
            continue
        source = drafting.Source(step)
        owned = drafting.owner_of(source.audience)
        who = str(owned.owner) if owned else source.place.label
        told = Told(who, source.signal("")["signal"], source.place.label, owned=owned is not None or source.place.kind != "note")
        found.setdefault(source.place.key, told)
    return list(found.values())


sections.owned_audiences = _owned_audiences
sections.told = _told
sections.would_tell = _would_tell
