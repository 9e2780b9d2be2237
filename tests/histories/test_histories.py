"""300 histories beside the model, the same at every run of the tests, so that a commit's verdict is no luck.

`make histories N=2000` makes others, each time; SEED=… makes the same again.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.histories.known import KNOWN
from tests.histories.machine import Histories, tried
from tests.histories.system import People, install_clock

pytestmark = pytest.mark.django_db
HISTORIES = int(os.environ.get("HISTORIES", "300"))
SEED = int(os.environ.get("SEED") or (random.SystemRandom().randrange(2**32) if "HISTORIES" in os.environ else 7))
# Every lease, and every wait that is not patience with people, is over after less than half of a unit of the model's time.
QUICK = {"LEASE_MARGIN": 400, "PATIENCE_AT_MOST": 0, "CALL_TIMEOUT_AT_MOST": 20, "CHECKING_DEADLINE": 7500}
# Reminders change nothing that a history looks at.
NEVER = dict.fromkeys(["PAGE_AFTER", "HELD_AT_MOST", "PUT_OFF_AT_MOST", "REMIND_EVERY"], 10**7)


@pytest.fixture(autouse=True)
def people(settings, caplog):
    caplog.set_level("CRITICAL")
    for name, value in {**QUICK, **NEVER}.items():
        setattr(settings, name, value)
    install_clock(connection.owner_url)
    Histories.people = People()


@pytest.mark.parametrize("history", KNOWN, ids=lambda known: known.__name__)
def test_a_known_history_goes_as_the_model_says(history):
    one = Histories()
    try:
        history(one)
    finally:
        one.teardown()


def test_every_history_goes_as_the_model_says():
    began = time.monotonic()
    print(f"SEED={SEED}")
    try:
        run_state_machine_as_test(seed(SEED)(Histories), settings=SETTINGS)
    except BaseException as exc:
        exc.add_note(f"The same again: make histories N={HISTORIES} SEED={SEED}")
        raise
    took = time.monotonic() - began
    print(f"{HISTORIES} histories, {sum(tried.values())} actions of {len(tried)} kinds, 0 differences, in {took:.0f} s. SEED={SEED}")


SETTINGS = settings(
    max_examples=HISTORIES,
    stateful_step_count=20,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
)
