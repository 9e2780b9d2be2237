"""What an operator must know of this installation: written once, counted when it happens again, shown above every page."""

from __future__ import annotations

import logging

from django.db.models import F
from django.utils import timezone

from runs.models import Alert

log = logging.getLogger(__name__)


def alert(name: str, says: str) -> None:
    log.error(says)
    made = Alert.objects.get_or_create(name=name[:120], defaults={"says": says})[1]
    if not made:
        Alert.objects.filter(name=name[:120]).update(says=says, times=F("times") + 1, last_at=timezone.now())
