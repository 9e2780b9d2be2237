"""Unfinished runs that need code which no longer exists: said at start-up, before anybody presses Compensate."""

from __future__ import annotations

import logging
from typing import Any

from runs import registry
from runs.models import Run, Step
from runs.states import PENDING, TO_UNDO

log = logging.getLogger(__name__)


def missing() -> list[tuple[int, str, str]]:
    """Run number, capability and version of each call whose undo, or whose doing, nothing defines any more."""
    needed = Step.objects.filter(run__in=Run.objects.unfinished(), state__in=PENDING | TO_UNDO).exclude(capability__in=registry.classes())
    return list(needed.order_by("run", "capability").values_list("run", "capability", "version").distinct())


def in_words() -> list[str]:
    return [
        f"Run {run} needs {capability} (version {version or 'unknown'}), which no code defines any more: it can't be undone by the machine."
        for run, capability, version in missing()
    ]


def say(**kwargs: Any) -> None:
    """After a migration and when a worker starts, which is when code changes."""
    for line in in_words():
        log.warning(line)
