"""Columns that were added later get their default in the database, so that processes of an older release go on inserting.

Each by itself: several tables locked in one transaction would meet a writer that holds one and waits for another.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("accounts", "0004_rights_of_teams"),
    ]

    operations = [
        migrations.AlterField(
            model_name="user",
            name="digest_hour",
            field=models.PositiveSmallIntegerField(db_default=9, default=9),
        ),
        migrations.AlterField(
            model_name="user",
            name="mail",
            field=models.CharField(
                choices=[("at_once", "at once"), ("digest", "one mail a day"), ("none", "not at all")],
                db_default="at_once",
                default="at_once",
                max_length=8,
            ),
        ),
    ]
