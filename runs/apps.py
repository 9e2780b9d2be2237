from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs, steps and the log"

    def ready(self) -> None:
        from runs import checks, counts, needed, registry, roles  # noqa: F401  (the first two register themselves)

        post_migrate.connect(registry.sync_after_migrate, sender=self)
        post_migrate.connect(needed.say, sender=self)
        post_migrate.connect(roles.grant_after_migrate, sender=self)
