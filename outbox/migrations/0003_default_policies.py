"""The rules an installation begins with: the team's own messages need no yes, everything else does."""

from django.db import migrations


def add_policies(apps, schema_editor):
    policies = apps.get_model("outbox", "Policy").objects.using(schema_editor.connection.alias)
    policies.get_or_create(capability="", audience="", defaults={"needs_yes": True})
    policies.get_or_create(capability="", audience="people", defaults={"needs_yes": False})
    policies.get_or_create(capability="", audience="clients", defaults={"needs_yes": True})


class Migration(migrations.Migration):
    dependencies = [("outbox", "0002_initial")]

    operations = [migrations.RunPython(add_policies, migrations.RunPython.noop)]
