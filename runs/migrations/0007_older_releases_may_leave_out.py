"""Columns that were added later get their default in the database, so that processes of an older release go on inserting.

Each by itself: several tables locked in one transaction would meet a writer that holds one and waits for another.
"""

import uuid

import django.contrib.postgres.functions
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("runs", "0006_steps_are_updated_in_place"),
    ]

    operations = [
        migrations.AlterField(
            model_name="page",
            name="receipt",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AlterField(
            model_name="page",
            name="service",
            field=models.CharField(blank=True, db_default="", default="", max_length=80),
        ),
        migrations.AlterField(
            model_name="page",
            name="worker",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
        migrations.AlterField(
            model_name="run",
            name="worker",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
        migrations.AlterField(
            model_name="step",
            name="touches",
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="step",
            name="worker",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
        migrations.AlterField(
            model_name="system",
            name="installation",
            field=models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, editable=False),
        ),
        migrations.AlterField(
            model_name="system",
            name="thawed_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]
