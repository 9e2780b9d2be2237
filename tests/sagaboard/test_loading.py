"""What a process loads before it has anything to do: beat knows nothing but names, and none loads what few ever need."""

from __future__ import annotations

import subprocess
import sys

from sagaboard.celery import app
from sagaboard.env import BASE

BEAT = """
from django.apps import apps
from sagaboard.beat import app
app.loader.init_worker()
app.finalize()
print(apps.ready, *(entry["task"] for entry in app.conf.beat_schedule.values()))
"""
WORKER = """
import sys
from sagaboard.celery import app
app.loader.init_worker()
app.finalize()
from runs import registry
print(registry.find("run_migration") is not None, *{"alembic", "sqlalchemy"} & set(sys.modules))
"""


def said_by(program: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=BASE, capture_output=True, text=True, check=True).stdout.split()


def test_beat_calls_tasks_that_workers_know_and_loads_none_of_them():
    ready, *names = said_by(BEAT)
    app.loader.import_default_modules()
    assert (ready, len(names)) == ("False", 2)
    assert set(names) <= set(app.tasks)


def test_a_worker_that_never_migrates_loads_neither_alembic_nor_sqlalchemy():
    assert said_by(WORKER) == ["True"]
