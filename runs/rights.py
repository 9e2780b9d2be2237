"""What one person may do to one run, read once for a page. The services check again, by name, in their transaction."""

from __future__ import annotations

import dataclasses

from django.contrib.auth.models import Permission
from django.db.models import Q

from runs.models import Run
from runs.paging import on_call
from sagaboard.accounts.models import User


@dataclasses.dataclass(frozen=True)
class Rights:
    """`on_call` names those who may undo this run; only filled for somebody who may not."""

    take: bool
    compensate: bool
    override: bool
    settle: bool
    on_call: list[str]


def of(user: User, run: Run) -> Rights:
    member = user.is_active and (user.is_superuser or run.team.members.filter(pk=user.pk).exists())
    has = {right: member and user.has_perm(f"runs.{right}") for right in ("take_run", "compensate_run", "override_pivot", "settle_step")}
    names = [] if has["compensate_run"] else [str(person) for person in on_call(run)]
    return Rights(has["take_run"], has["compensate_run"], has["override_pivot"], has["settle_step"], names)


def who_may_override(run: Run) -> list[str]:
    """Those of the team who may undo past a call that went out."""
    permission = Permission.objects.filter(codename="override_pivot", content_type__app_label="runs")
    granted = Q(user_permissions__in=permission) | Q(groups__permissions__in=permission)
    return [str(person) for person in User.objects.filter(granted, teams=run.team_id, is_active=True).distinct()]
