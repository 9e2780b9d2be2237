"""Beat on its own: a process that is to know nothing but names."""

from __future__ import annotations

import subprocess
import sys

from sagaboard.celery import app
from sagaboard.env import BASE

LOOK = """
from django.apps import apps
from sagaboard.beat import app
app.loader.init_worker()
app.finalize()
print(apps.ready, *(entry["task"] for entry in app.conf.beat_schedule.values()))
"""


def test_beat_calls_tasks_that_workers_know_and_loads_none_of_them():
    said = subprocess.run([sys.executable, "-c", LOOK], cwd=BASE, capture_output=True, text=True, check=True).stdout
    ready, *names = said.split()
    app.loader.import_default_modules()
    assert (ready, len(names)) == ("False", 2)
    assert set(names) <= set(app.tasks)
