"""sagaboard stands between AI agents and their tools."""

from sagaboard.celery import app as celery_app

__all__ = ["celery_app"]
