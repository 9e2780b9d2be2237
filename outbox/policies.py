"""Which policy counts for a call, and whether one person may decide it."""

from __future__ import annotations

from django.db.models import Q

from outbox.models import Item, Policy
from runs.models import CapabilityRecord
from runs.states import Audience
from sagaboard.accounts.models import User


def policy_for(capability: str, audience: str) -> Policy:
    """The most specific policy there is. Where none is, a yes is needed."""
    rows = Policy.objects.filter(Q(capability=capability) | Q(capability=""), Q(audience=audience) | Q(audience=""))
    ranked = sorted(rows, key=lambda row: (row.capability == "", row.audience == ""))
    return ranked[0] if ranked else Policy()


def needs_yes(item: Item) -> bool:
    """Gates and whatever clients see always need a person."""
    if item.is_gate or item.step.audience == Audience.CLIENTS:
        return True
    return item.policy is None or item.policy.needs_yes


def why_not(user: User, item: Item) -> str:
    """Why this person can't decide this item, in words; "" if nothing stands against it."""
    if not user.is_active or not _has_right(user, item):
        return f"you may not decide {item.step.capability} for {item.step.audience}"
    if item.policy is not None and item.policy.four_eyes and (why := _same_eyes(user, item)):
        return why
    return ""


def _has_right(user: User, item: Item) -> bool:
    if item.policy is not None and item.policy.pk and not user.is_superuser:
        named = item.policy.people.exists() or item.policy.groups.exists()
        if named:
            return item.policy.people.filter(pk=user.pk).exists() or item.policy.groups.filter(user=user).exists()
    record = CapabilityRecord.objects.filter(name=item.step.capability).first()
    if record is not None and user.has_perm("runs.decide_capability", record):
        return True
    return user.has_perm("runs.decide_capability") and (user.is_superuser or item.step.run.team.members.filter(pk=user.pk).exists())


def _same_eyes(user: User, item: Item) -> str:
    """Four eyes: not by whoever owns the run, answers for its token, opened it, or edited the payload last."""
    run = item.step.run
    if user.pk == run.owner_id:
        return "you own the run, so someone else must approve it"
    if run.token is not None and user.pk == run.token.person_id:
        return "you answer for the agent that asked, so someone else must approve it"
    if user.pk == run.opened_by_id:
        return "you opened the run, so someone else must approve it"
    if user.pk == item.current.edited_by_id:
        return "you edited it last, so someone else must approve it"
    return ""
