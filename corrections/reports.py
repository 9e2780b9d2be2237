"""The run's report to its owner by mail: when the run ends, and again when the last one who was misled was told."""

from __future__ import annotations

from corrections.models import Correction, Report
from runs import bell, report
from runs.locking import locked_run
from runs.models import Page, Run

AT_ONCE = 50


def ended(run: Run) -> None:
    """The owner gets the report. Written down in the caller's transaction, made outside of it."""
    owed, _ = Report.objects.get_or_create(run=run, mailed_at=None)
    bell.ring("corrections.tasks.mail_report", run.pk, owed.pk)


def told(run: Run) -> None:
    """A correction was sent or dismissed; after the last one the report is final."""
    if run.has_ended and not Correction.objects.untold().filter(run=run).exists():
        ended(run)


def due() -> None:
    """Rings for reports that no message carries."""
    for pk, run_id in Report.objects.filter(mailed_at=None).values_list("pk", "run_id")[:AT_ONCE]:
        bell.ring("corrections.tasks.mail_report", run_id, pk)


def mail(run_id: int, report_id: int) -> None:
    """Puts the report into the queue of mails, once."""
    run = Run.objects.select_related("owner", "team").get(pk=run_id)
    # Made before the lock: it reads the whole log.
    body = f"{report.as_text(run, run.owner.time_zone)}\n"
    untold = Correction.objects.untold().filter(run=run).count()
    with locked_run(run_id) as locked:
        owed = Report.objects.filter(pk=report_id, mailed_at=None)
        if not owed.update(mailed_at=locked.now):
            return
        how = f"{run.get_state_display().lower()}, {untold} still to be told" if untold else run.get_state_display().lower()
        Page.objects.create(run=locked, person=run.owner, subject=f"Report of run {run.number}: {how}", body=body)
