"""The log may say that a document beside it was erased."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_older_releases_may_leave_out"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="logentry",
            name="entry_event_is_known",
        ),
        migrations.AddConstraint(
            model_name="logentry",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "event__in",
                        [
                            "run.opened",
                            "run.resumed",
                            "run.checking",
                            "run.released",
                            "run.failed",
                            "run.compensating",
                            "run.compensated",
                            "run.succeeded",
                            "run.stuck",
                            "run.left_standing",
                            "run.paused",
                            "run.taken",
                            "run.paged",
                            "check.reported",
                            "step.requested",
                            "step.on_hold",
                            "step.queued",
                            "step.started",
                            "step.prepared",
                            "step.done",
                            "step.sent",
                            "step.failed",
                            "step.unknown",
                            "step.probed",
                            "step.late_effect",
                            "step.settled",
                            "step.closed",
                            "item.decided",
                            "item.refused",
                            "item.edited",
                            "item.expired",
                            "undo.started",
                            "undo.verified",
                            "undo.skipped",
                            "undo.failed",
                            "undo.drifted",
                            "correction.drafted",
                            "correction.edited",
                            "correction.sent",
                            "correction.failed",
                            "correction.dismissed",
                            "capability.drilled",
                            "payload.erased",
                        ],
                    )
                ),
                name="entry_event_is_known",
            ),
        ),
    ]
