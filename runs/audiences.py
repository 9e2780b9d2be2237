"""Audiences that nobody owns: they read what agents do, and there is nobody who would be told."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections import defaultdict
from typing import Any

from django.utils import timezone

from runs import keys, plan, registry
from runs.models import Run, Step
from runs.sections import sections
from sagaboard.accounts.models import User

log = logging.getLogger(__name__)
RECENT = dt.timedelta(days=30)
AT_MOST = 500


@dataclasses.dataclass(frozen=True)
class Unowned:
    """An audience, and the page on which its owner is named."""

    name: str
    url: str


def unowned(user: User) -> dict[str, list[Unowned]]:
    """By capability: whom its latest calls reach, of those this person can see, with nobody to tell."""
    calls = Step.objects.seen_by_people().filter(leaves_effect=True, run__is_drill=False, run__opened_at__gte=timezone.now() - RECENT)
    latest = calls.filter(run__in=Run.objects.visible_to(user)).order_by("-pk").values_list("capability", "args")[:AT_MOST]
    different = {(name, keys.digest(args)): args for name, args in latest}
    owned, found = set(sections.owned_audiences()), defaultdict(set)
    for (capability, _), args in different.items():
        audience = _audience(capability, args)
        if audience and audience not in owned:
            found[capability].add(audience)
    return {capability: [Unowned(name, sections.owner_page(name)) for name in sorted(names)] for capability, names in found.items()}


def _audience(name: str, args: dict[str, Any]) -> str:
    capability = registry.find(name)
    known = plan.validated(capability, args) if capability is not None else None
    if capability is None or known is None:
        return ""
    try:
        return capability.audience_name(known)
    except Exception:
        log.exception("%s can't say who reads a call of it.", name)
        return ""
