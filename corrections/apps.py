from django.apps import AppConfig


class CorrectionsConfig(AppConfig):
    name = "corrections"

    def ready(self) -> None:
        from corrections import counts, receivers  # noqa: F401  (both register themselves)
