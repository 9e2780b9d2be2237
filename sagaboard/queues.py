"""Celery's settings: the queues and beat's schedule. A message is a hint; what is due stands in PostgreSQL."""

from __future__ import annotations

from typing import Any

from kombu import Queue


def configuration() -> dict[str, Any]:
    """Read at first use and not at import, so that what needs no broker (a test's servers, say) needs no settings."""
    from django.conf import settings

    return dict(
        broker_url=settings.REDIS_URL,
        include=["sagaboard.celery_hooks", "sagaboard.ready_file"],
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_default_queue="steps",
        task_queues=[Queue("steps"), Queue("walks"), Queue("corrections")],
        task_create_missing_queues=True,
        task_routes={
            "runs.tasks.compensate_run": {"queue": "walks"},
            "runs.tasks.sweep": {"queue": "walks"},
            "runs.tasks.tidy_up": {"queue": "walks"},
            "runs.tasks.deliver_pages": {"queue": "corrections"},
            "corrections.tasks.*": {"queue": "corrections"},
            "outbox.tasks.*": {"queue": "corrections"},
        },
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        # A blip of the broker must not kill a running call; the lease guards against doubles.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        # Redelivery only rings a bell again (the claim refuses doubles), so the visibility timeout stays far above any call.
        broker_transport_options={
            "visibility_timeout": 3600,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 30,
            "socket_connect_timeout": 2,
            "max_retries": 1,
            "interval_start": 0,
            "interval_max": 0.2,
        },
        # Without this Celery's Django fix-up closes the connection around every task, which costs more than the task.
        CELERY_DB_REUSE_MAX=1_000_000,
        beat_schedule={
            "sweep": {"task": "runs.tasks.sweep", "schedule": settings.SWEEP_EVERY, "options": {"expires": settings.SWEEP_EVERY * 2}},
            "tidy": {"task": "runs.tasks.tidy_up", "schedule": 3600, "options": {"expires": 3600}},
        },
        timezone="UTC",
    )
