"""Which policy counts for a call, and whether one person may decide it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import cast

from django.db.models import Q, QuerySet
from guardian.shortcuts import get_objects_for_user, get_users_with_perms

from outbox.models import Item, Policy, Version, teams_of
from outbox.states import Verdict
from runs.models import CapabilityRecord
from runs.states import Audience
from sagaboard.accounts.models import User

RIGHT = "runs.decide_capability"


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


def disabled_why(item: Item) -> str:
    """Why nothing of its capability goes out now; "" unless it is disabled."""
    found = CapabilityRecord.objects.filter(name=item.step.capability).exclude(disabled_at=None).first()
    return f"{found.name} is disabled: {found.disabled_why or 'no reason was given'}" if found else ""


def was_served(version: Version, user: User) -> bool:
    """Whether the server has shown this person the whole of it."""
    return version.served.filter(person=user).exists()


class Approver:
    """What one person may decide. Rights are read once, so that a whole queue costs a handful of queries."""

    def __init__(self, user: User) -> None:
        self.user = user

    def why_not(self, item: Item) -> str:
        return self.no_right(item) or self.same_eyes(item)

    def no_right(self, item: Item) -> str:
        if self.user.is_active and self._has_right(item):
            return ""
        return f"you may not decide {item.step.capability} for {item.step.audience}"

    def same_eyes(self, item: Item) -> str:
        """Four eyes: not by whoever owns the run, answers for a token that asked, opened it, or edited the payload last."""
        if item.policy is not None and not item.policy.four_eyes:
            return ""
        run = item.step.run
        theirs = {
            run.owner_id: "own the run",
            run.token.person_id if run.token else None: "answer for the agent that asked",
            item.step.asked_by_id: "answer for the agent that asked",
            run.opened_by_id: "opened the run",
            item.current.edited_by_id: "edited it last",
        }
        did = next((what for person, what in theirs.items() if person == self.user.pk), "")
        return did and f"you {did}, so someone else must approve it"

    def waits(self, item: Item) -> bool:
        """Whether the item waits for this very person: decidable, and not yet decided by them."""
        return item.is_awaiting and not self.said_yes(item) and not self.why_not(item)

    def said_yes(self, item: Item) -> bool:
        return any(one.by_id == self.user.pk and one.verdict == Verdict.APPROVE for one in item.standing())

    def _has_right(self, item: Item) -> bool:
        people, groups = self._named.get(item.policy_id or 0, (set(), set()))
        if self.user.is_superuser:
            return True
        if people or groups:
            return self.user.pk in people or bool(groups & self._groups)
        if item.step.capability in self._capabilities or item.step.run.team_id in self._granted_teams:
            return True
        return self._everywhere and item.step.run.team_id in self._teams

    @cached_property
    def _named(self) -> dict[int, tuple[set[int], set[int]]]:
        """The people and groups that policies name, by policy."""
        return {
            policy.pk: ({person.pk for person in policy.people.all()}, {group.pk for group in policy.groups.all()})
            for policy in Policy.objects.prefetch_related("people", "groups")
        }

    @cached_property
    def _groups(self) -> set[int]:
        return set(self.user.groups.values_list("pk", flat=True))

    @cached_property
    def _teams(self) -> set[int]:
        return set(self.user.teams.values_list("pk", flat=True))

    @cached_property
    def _capabilities(self) -> set[str]:
        found = get_objects_for_user(self.user, RIGHT, CapabilityRecord, accept_global_perms=False)
        return set(found.values_list("name", flat=True))

    @cached_property
    def _granted_teams(self) -> set[int]:
        return set(teams_of(self.user).values_list("pk", flat=True))

    @cached_property
    def _everywhere(self) -> bool:
        return self.user.has_perm(RIGHT)


def approvers(item: Item, known: dict[int, Approver] | None = None) -> list[User]:
    """Who could decide this item now, by name. Over many items `known` keeps what was read of each person's rights."""
    known = {} if known is None else known
    found = set(_candidates(item))
    return sorted((user for user in found if not known.setdefault(user.pk, Approver(user)).why_not(item)), key=str)


def _candidates(item: Item) -> Iterable[User]:
    if item.policy is not None:
        yield from item.policy.people.filter(is_active=True)
        yield from User.objects.filter(groups__in=item.policy.groups.all(), is_active=True)
    yield from item.step.run.team.members.filter(is_active=True)
    team = get_users_with_perms(item.step.run.team, only_with_perms_in=["decide_for_team"])
    yield from cast("QuerySet[User]", team).filter(is_active=True)
    record = CapabilityRecord.objects.filter(name=item.step.capability).first()
    if record is not None:
        yield from cast("QuerySet[User]", get_users_with_perms(record, only_with_perms_in=["decide_capability"])).filter(is_active=True)
