from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "outbox"

    def ready(self) -> None:
        from outbox import counts, receivers  # noqa: F401  (both register themselves)
