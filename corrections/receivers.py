"""What corrections hear from runs, inside the sender's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Coalesce
from django.dispatch import receiver

from corrections import drafting, reports
from corrections.models import Audience, Correction, owners_of
from corrections.states import CorrectionState, Kind
from runs import bell, lateness, signals
from runs.clock import Clock
from runs.models import Run, Step
from runs.models.leased import lease_is_free
from runs.paging import page
from runs.sections import Told, sections
from runs.states import RunState


@receiver(signals.effect_ended)
def draft_correction(sender: Any, run: Run, step: Step, how: str, **kwargs: Any) -> None:
    drafting.draft(run, step, how)


@receiver(signals.sweeping)
def send_what_is_due(sender: Any, **kwargs: Any) -> None:
    for pk, run_id in _due().values_list("pk", "run_id")[:200]:
        bell.ring("corrections.tasks.deliver_correction", run_id, pk)
    for pk, run_id in Correction.objects.filter(state=CorrectionState.DRAFT, goes_at__lte=Clock()).values_list("pk", "run_id")[:200]:
        bell.ring("corrections.tasks.send_by_itself", run_id, pk)
    for pk, run_id in Correction.objects.filter(replies_due_at__lte=Clock()).values_list("pk", "run_id")[:50]:
        bell.ring("corrections.tasks.count_replies", run_id, pk)
    reports.due()


@receiver([signals.run_opened, signals.run_failed])
def say_whether_it_is_retried(sender: Any, run: Run, **kwargs: Any) -> None:
    drafting.retried(run)


@receiver(signals.run_ended)
def report_the_end(sender: Any, run: Run, **kwargs: Any) -> None:
    """The owner gets the report; where a retry holds, whoever was told that it was premature can be told that it is back."""
    if run.state == RunState.SUCCEEDED and (again := drafting.holds_again(run)):
        page(run, "it is back", _who_can_be_told(again), people={one.run.owner for one in again})
    reports.ended(run)


def _who_can_be_told(again: list[Correction]) -> str:
    addresses = "\n".join(f"{settings.SAGABOARD_URL}{one.get_absolute_url()}" for one in again)
    return f"The retry succeeded. Whoever was told that it was premature can be told that it is back, with one press:\n{addresses}"


def _due() -> QuerySet[Correction]:
    return Correction.objects.filter(lease_is_free(), Q(due_at=None) | Q(due_at__lte=Clock()), state=CorrectionState.SENDING)


def _owned_audiences() -> Iterable[str]:
    return Audience.objects.values_list("name", flat=True)


def _owner_page(audience: str) -> str:
    return f"/audiences/new/?{urlencode({'name': audience})}"


def _told(run: Run) -> list[Told]:
    found = list(Correction.objects.filter(run=run).order_by("drafted_at"))
    back = {one.follows_id: one.sent_at for one in found if one.kind == Kind.BACK}
    return [
        Told(
            who=(correction.place_kind == "note" and correction.recipient) or correction.place_label,
            what=correction.about,
            how=correction.place_label,
            url=correction.get_absolute_url(),
            reaches=correction.place_kind != "note" or bool(correction.recipient),
            audience=correction.audience,
            state=correction.state,
            owned=bool(correction.recipient),
            steps=frozenset(one["step"] for one in correction.signals),
            since=correction.shown_since,
            told_at=correction.sent_at,
            by=correction.dismissed_by or correction.sent_by,
            text=correction.text if correction.sent_at else "",
            why=correction.dismissed_why,
            back_at=back.get(correction.pk),
        )
        for correction in found
        if correction.kind == Kind.CORRECTION
    ]


def _untold() -> dict[int, int]:
    return dict(Correction.objects.untold().order_by().values_list("run").annotate(Count("pk")))


def _would_tell(run: Run, steps: list[Step]) -> list[Told]:
    """Who would hear of it if these steps were undone: one line a place."""
    found: dict[str, Told] = {}
    sources = [drafting.Source(step) for step in steps if step.seen_by_people and step.done_at is not None]
    owners = owners_of(source.audience for source in sources)
    for source in sources:
        owned = owners.get(source.audience)
        who = str(owned.owner) if owned and source.place.kind == "note" else source.place.label
        told = Told(
            who,
            source.signal("")["signal"],
            source.place.label,
            owned=owned is not None,
            reaches=owned is not None or source.place.kind != "note",
            audience=source.audience,
            owner_page=_owner_page(source.audience),
        )
        found.setdefault(source.place.key, told)
    return list(found.values())


sections.owned_audiences = _owned_audiences
sections.owner_page = _owner_page
sections.told = _told
sections.untold = _untold
sections.would_tell = _would_tell
lateness.due.append(lateness.Due("correction", _due, Coalesce("lease_until", "due_at", "drafted_at")))
