"""Columns that were added later get their default in the database, so that processes of an older release go on inserting.

Each by itself: several tables locked in one transaction would meet a writer that holds one and waits for another.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("corrections", "0003_wording_places_and_follow_ups"),
    ]

    operations = [
        migrations.AlterField(
            model_name="correction",
            name="doubted",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="correction",
            name="drafted",
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AlterField(
            model_name="correction",
            name="edited_in",
            field=models.CharField(blank=True, db_default="", default="", max_length=32),
        ),
        migrations.AlterField(
            model_name="correction",
            name="for_clients",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name="correction",
            name="kind",
            field=models.CharField(
                choices=[("correction", "Correction"), ("back", "It is back")], db_default="correction", default="correction", max_length=16
            ),
        ),
        migrations.AlterField(
            model_name="correction",
            name="place_address",
            field=models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AlterField(
            model_name="correction",
            name="quote",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="correction",
            name="readers",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
        migrations.AlterField(
            model_name="correction",
            name="worker",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
    ]
