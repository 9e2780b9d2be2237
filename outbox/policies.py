"""Which policy counts for a call, and whether one person may decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from django.db.models import CharField, Exists, Q, QuerySet
from django.db.models.functions import Cast
from guardian.models import GroupObjectPermission, UserObjectPermission
from guardian.shortcuts import get_objects_for_user

from outbox.models import DECIDE, Item, Policy, Version
from outbox.states import Verdict
from runs.models import CapabilityRecord
from runs.states import Audience
from sagaboard.accounts.models import User
from sagaboard.accounts.rights import holders, teams_shown, teams_with


def policy_for(capability: str, audience: str) -> Policy:
    """The most specific policy there is. Where none is, a yes is needed."""
    return _most_specific(Policy.objects.filter(capability__in=[capability, ""], audience__in=[audience, ""]))


def _most_specific(rows: Iterable[Policy]) -> Policy:
    return min(rows, key=lambda row: (row.capability == "", row.audience == ""), default=Policy())


def goes_out() -> Callable[[str, str], str]:
    """What a call of a capability to an audience waits for, in words. The policies are read once."""
    rows = list(Policy.objects.all())

    def of(capability: str, audience: str) -> str:
        policy = _most_specific(row for row in rows if row.capability in (capability, "") and row.audience in (audience, ""))
        wants_yes = audience == Audience.CLIENTS or policy.needs_yes
        return f"{policy.quorum} approval{'s' * (policy.quorum > 1)}" if wants_yes else "after green"

    return of


def needs_yes(item: Item) -> bool:
    """Gates and whatever clients see always need a person."""
    if item.is_gate or item.step.audience == Audience.CLIENTS:
        return True
    return item.policy is None or item.policy.needs_yes or item.wanted_yes


def disabled_why(item: Item) -> str:
    """Why nothing of its capability goes out now; "" unless it is disabled."""
    found = CapabilityRecord.objects.filter(name=item.step.capability).exclude(disabled_at=None).first()
    return disabled_in_words(item, found.disabled_why if found else None)


def disabled_in_words(item: Item, because: str | None) -> str:
    return "" if because is None else f"{item.step.capability} is disabled: {because or 'no reason was given'}"


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
        if not item.four_eyes:
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
        return item.step.capability in self._capabilities or item.step.run.team_id in self._teams

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
        return set(teams_with(self.user, DECIDE).values_list("pk", flat=True))

    @cached_property
    def _capabilities(self) -> set[str]:
        found = get_objects_for_user(self.user, DECIDE, CapabilityRecord, accept_global_perms=False)
        return set(found.values_list("name", flat=True))


def approvers(item: Item) -> list[User]:
    """Who could decide this item now, by name."""
    found = [person for person in _with_right(item) if not Approver(person).same_eyes(item)]
    return sorted(found, key=str)


def if_decider(user: User) -> QuerySet[User]:
    """This very person, if any item at all could wait for them; as a query."""
    found = User.objects.filter(pk=user.pk)
    if user.is_superuser:
        return found
    capabilities = get_objects_for_user(user, DECIDE, CapabilityRecord, accept_global_perms=False)
    named = Policy.objects.filter(Q(people=user) | Q(groups__in=user.groups.all()))
    return found.filter(Exists(teams_with(user, DECIDE)) | Exists(capabilities) | Exists(named))


def approvers_for_clients(user: User) -> list[User]:
    """Who lets out what clients read, in the teams that this person sees, by name: those whom its policy names, else by right."""
    policy = policy_for("", Audience.CLIENTS)
    named = User.objects.filter(Q(pk__in=policy.people.all()) | Q(groups__in=policy.groups.all()), is_active=True) if policy.pk else None
    found = set(named) if named else {person for team in teams_shown(user) for person in holders(DECIDE, team)}
    return sorted(found, key=str)


def _with_right(item: Item) -> set[User]:
    """As `Approver` judges one person, but whoever it may be; superusers only where they belong to the team."""
    team, policy = item.step.run.team, item.policy
    record = CapabilityRecord.objects.filter(name=item.step.capability).values(key=Cast("pk", CharField()))
    grant = {"permission__codename": "decide_capability", "permission__content_type__app_label": "runs", "object_pk__in": record}
    own, of_groups = UserObjectPermission.objects.filter(**grant), GroupObjectPermission.objects.filter(**grant)
    theirs = Q(pk__in=own.values("user")) | Q(groups__in=of_groups.values("group")) | Q(pk__in=holders(DECIDE, team).values("pk"))
    if policy is not None:
        naming = Policy.objects.filter(Q(people__isnull=False) | Q(groups__isnull=False), pk=policy.pk)
        theirs = Q(pk__in=policy.people.all()) | Q(groups__in=policy.groups.all()) | (~Q(Exists(naming)) & theirs)
    return set(User.objects.filter(theirs | Q(is_superuser=True, teams=team), is_active=True))


class Reader(Approver):
    """The same, over items that were read with what this very person may do: nothing more is asked."""

    def _has_right(self, item: Item) -> bool:
        return bool(item.has_right)  # type: ignore[attr-defined]  # annotated
