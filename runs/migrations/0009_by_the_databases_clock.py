"""What silence and paging are measured from is stamped by the clock they are measured with. Each column by itself, as 0007 says why."""

from django.db import migrations, models

import runs.clock


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("runs", "0008_payloads_are_erased"),
    ]

    operations = [
        migrations.AlterField(model_name=model, name=name, field=models.DateTimeField(db_default=runs.clock.Clock()))
        for model, name in (("run", "opened_at"), ("run", "last_heard_at"), ("page", "due_at"))
    ]
