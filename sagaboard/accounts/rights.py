"""Who may do what for which team: by a role in the teams one belongs to, or by a grant that names the team."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.models import AnonymousUser, Permission
from django.db.models import CharField, Q, QuerySet, Value
from guardian.models import GroupObjectPermission, UserObjectPermission
from guardian.shortcuts import get_objects_for_user, get_users_with_perms

from sagaboard.accounts.models import Team, User

# A right that roles hold -> the grant on a team that says the same for that team alone.
ON_TEAM = {
    "runs.take_run": "take_for_team",
    "runs.compensate_run": "compensate_for_team",
    "runs.override_pivot": "override_for_team",
    "runs.settle_step": "settle_for_team",
    "runs.decide_capability": "decide_for_team",
    "corrections.send_correction": "correct_for_team",
}
# Whoever acts on a team's runs sees them. Deciding and correcting show just the items and the corrections.
SHOWS_RUNS = ("view_team_runs", "take_for_team", "compensate_for_team", "override_for_team", "settle_for_team")


def held(user: User, team: Team) -> frozenset[str]:
    """The rights over this team's runs that this person has now."""
    if not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset(ON_TEAM)
    on_team = {"permission__codename__in": ON_TEAM.values(), "permission__content_type__app_label": "accounts", "object_pk": str(team.pk)}
    own = UserObjectPermission.objects.filter(user=user, **on_team).values_list("permission__codename")
    of_groups = GroupObjectPermission.objects.filter(group__in=user.groups.all(), **on_team).values_list("permission__codename")
    member = Team.objects.filter(pk=team.pk, members=user).values_list(Value("member", CharField()))
    found = {name for (name,) in own.union(of_groups, member)}
    return frozenset(right for right, grant in ON_TEAM.items() if grant in found or ("member" in found and user.has_perm(right)))


def teams_with(user: User, right: str) -> QuerySet[Team]:
    """Where this person has the right, as a query."""
    if not user.is_active:
        return Team.objects.none()
    if user.is_superuser:
        return Team.objects.all()
    of_role = Q(members=user) if user.has_perm(right) else Q(pk__in=[])
    return Team.objects.filter(of_role | Q(pk__in=granted(user, ON_TEAM[right]).values("pk"))).distinct()


def teams_shown(user: User | AnonymousUser) -> QuerySet[Team]:
    """Whose runs this person may look at, as a query."""
    return Team.objects.filter(Q(members=user) | Q(pk__in=granted(user, *SHOWS_RUNS).values("pk"))).distinct()


def granted(user: User | AnonymousUser, *grants: str) -> QuerySet[Team]:
    """The teams that a grant to this person, or to a group of theirs, names."""
    names = [f"accounts.{grant}" for grant in grants]
    return get_objects_for_user(user, names, Team, any_perm=True, accept_global_perms=False, with_superuser=False)


def holders(right: str, team: Team) -> QuerySet[User]:
    """Who has the right there. Superusers have every right, but are not looked for by one."""
    app, _, codename = right.partition(".")
    permission = Permission.objects.filter(codename=codename, content_type__app_label=app)
    of_role = Q(teams=team) & (Q(user_permissions__in=permission) | Q(groups__permissions__in=permission))
    of_grant = cast("QuerySet[User]", get_users_with_perms(team, only_with_perms_in=[ON_TEAM[right]]))
    return User.objects.filter(of_role | Q(pk__in=of_grant.values("pk")), is_active=True).distinct()
