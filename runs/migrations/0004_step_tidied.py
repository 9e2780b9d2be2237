from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_touches_and_restores"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="tidied_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
