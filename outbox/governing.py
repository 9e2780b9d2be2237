"""Changing a policy: a new version each time, which keeps what the policy said for the decisions made under it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from outbox.models import Item, Policy, PolicyVersion
from outbox.policies import policy_for
from sagaboard.accounts import changes
from sagaboard.accounts.models import User

FIELDS = ("capability", "audience", "needs_yes", "quorum", "four_eyes", "open_for", "bulk", "editable", "domains")


def save(form: Any, *, by: User) -> Policy:
    """Saves a valid policy form as the next version of its policy."""
    with transaction.atomic():
        policy: Policy = form.save(commit=False)
        next_version(policy)
        policy.save()
        form.save_m2m()
        keep(policy, by=by)
        changes.note(policy, f"version {policy.version}: {changes.named(form)}", by=by)
        return policy


def _reach_what_waits() -> None:
    """A policy that is more specific than the one an open item is under counts for it too, with what it was queued under."""
    for item in Item.objects.open().select_related("step"):
        found = policy_for(item.step.capability, item.step.audience)
        if found.pk and found.pk != item.policy_id:
            Item.objects.filter(pk=item.pk).update(policy=found)


def next_version(policy: Policy) -> None:
    """Under a lock: two admins who save at once make two versions, not one twice."""
    if policy.pk:
        policy.version = Policy.objects.select_for_update().get(pk=policy.pk).version + 1


def keep(policy: Policy, *, by: User) -> None:
    """Writes down what this version says, and puts under it what waits and it is the most specific for."""
    rules = {name: getattr(policy, name) for name in FIELDS}
    rules["groups"] = sorted(policy.groups.values_list("name", flat=True))
    rules["people"] = sorted(policy.people.values_list("username", flat=True))
    PolicyVersion.objects.create(policy=policy, number=policy.version, rules=rules, made_by=str(by))
    _reach_what_waits()
