"""Columns that were added later get their default in the database, so that processes of an older release go on inserting.

Each by itself: several tables locked in one transaction would meet a writer that holds one and waits for another.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("outbox", "0007_what_was_wanted"),
    ]

    operations = [
        migrations.AlterField(
            model_name="policy",
            name="domains",
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="policy",
            name="editable",
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
        ),
    ]
