from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

# Here and not in the package: what only starts others (gunicorn, beat, the supervisor) does without Celery's app.
from sagaboard.celery import app as celery_app  # noqa: F401


class SagaboardConfig(AppConfig):
    name = "sagaboard"

    def ready(self) -> None:
        from sagaboard import connections, roles  # noqa: F401  (its check is registered)

        # The last app that has models (this one has none, so Django never signals it): every app's permissions exist then.
        post_migrate.connect(roles.make_after_migrate, sender=apps.get_app_config("corrections"))
