from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SagaboardConfig(AppConfig):
    name = "sagaboard"

    def ready(self) -> None:
        from sagaboard import roles

        # The last installed app: by its signal every app's permissions exist.
        post_migrate.connect(roles.make_after_migrate, sender=self)
