import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_append_only_log"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="touches",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="system",
            name="installation",
            field=models.UUIDField(default=uuid.uuid4, editable=False),
        ),
        migrations.AddField(
            model_name="system",
            name="thawed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="system",
            name="thawed_by",
            field=models.CharField(blank=True, default="", max_length=200),
        ),
    ]
