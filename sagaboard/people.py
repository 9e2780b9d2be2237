"""The pages on which admins say who belongs to which team and may do what. Above the apps: rights name rows of all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe
from guardian.models import UserObjectPermission
from guardian.shortcuts import assign_perm, remove_perm

from runs.models import CapabilityRecord
from sagaboard.accounts.changes import history, note
from sagaboard.accounts.models import Team, User
from sagaboard.web import PageRequest

may_grant = permission_required("accounts.change_user", raise_exception=True)
# What a person may be given beside their roles: the name of the field -> the right, and what the page says before the rows.
ON_CAPABILITIES = {
    "decides": ("runs.decide_capability", "May decide calls of"),
    "drills": ("runs.drill_capability", "May drill"),
}
ON_TEAMS = {
    "watches": ("accounts.view_team_runs", "May look at the runs of"),
    "takes": ("accounts.take_for_team", "May take over and stop runs of"),
    "compensates": ("accounts.compensate_for_team", "May undo runs of"),
    "overrides": ("accounts.override_for_team", "May undo, past a call that went out, runs of"),
    "settles": ("accounts.settle_for_team", "May settle steps of"),
    "reviews": ("accounts.decide_for_team", "May decide what goes out of"),
    "corrects": ("accounts.correct_for_team", "May send corrections of"),
}


def _several(rows: QuerySet[Any], says: str, **more: Any) -> forms.ModelMultipleChoiceField[Any]:
    return forms.ModelMultipleChoiceField(rows.order_by("name"), required=False, label=says, **more)


class Grants(forms.Form):
    """What one person may do: roles in their teams, and single capabilities and teams beyond those."""

    is_active = forms.BooleanField(required=False, label="May sign in")
    teams = _several(Team.objects.all(), "Member of")
    roles = _several(Group.objects.all(), "Roles, in these teams")

    def __init__(self, person: User, by: User, data: Any = None) -> None:
        super().__init__(data, auto_id="%s", initial=held(person))
        self.person, self.by = person, by
        for name, (_, says) in ON_CAPABILITIES.items():
            self.fields[name] = _several(CapabilityRecord.objects.all(), says, to_field_name="name")
        for name, (_, says) in ON_TEAMS.items():
            self.fields[name] = _several(Team.objects.all(), says)
        # Read once for all of them.
        teams = [(team.pk, str(team)) for team in Team.objects.order_by("name")]
        capabilities = [(name, name) for name in CapabilityRecord.objects.order_by("name").values_list("name", flat=True)]
        for name in ("teams", *ON_CAPABILITIES, *ON_TEAMS):
            self.fields[name].choices = capabilities if name in ON_CAPABILITIES else teams  # type: ignore[attr-defined]
        for name in ("teams", "roles", *ON_CAPABILITIES, *ON_TEAMS):
            self.fields[name].widget.attrs.update({"class": "in", "size": 6})

    def on_capabilities(self) -> list[forms.BoundField]:
        return [self[name] for name in ON_CAPABILITIES]

    def on_teams(self) -> list[forms.BoundField]:
        return [self[name] for name in ON_TEAMS]

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        if self.person == self.by and not self.by.is_superuser:
            kept = Group.objects.filter(pk__in=said.get("roles", []), permissions__codename="change_user").exists()
            if not kept or not said.get("is_active"):
                raise forms.ValidationError("Nobody takes their own right to grant rights away; another admin does it.")
        return said


def held(person: User) -> dict[str, Any]:
    """What this person has now, by themselves; what comes with a role stands with the role."""
    granted = _granted(person)
    capabilities = CapabilityRecord.objects.in_bulk(_keys(granted, ON_CAPABILITIES))
    teams = Team.objects.in_bulk(_keys(granted, ON_TEAMS))
    return {
        "teams": list(person.teams.all()),
        "roles": list(person.groups.all()),
        **{name: [capabilities[pk] for pk in granted[right] if pk in capabilities] for name, (right, _) in ON_CAPABILITIES.items()},
        **{name: [teams[pk] for pk in granted[right] if pk in teams] for name, (right, _) in ON_TEAMS.items()},
        "is_active": person.is_active,
    }


def grant(person: User, wanted: dict[str, Any], *, by: User) -> list[str]:
    """Makes it so, in one transaction that also notes who changed what; it counts from that person's next request."""
    with transaction.atomic():
        person = User.objects.select_for_update().get(pk=person.pk)
        before = held(person)
        changes = [change for name in wanted if (change := _change(name, before[name], wanted[name]))]
        person.teams.set(wanted["teams"])
        person.groups.set(wanted["roles"])
        for name, (right, _) in (ON_CAPABILITIES | ON_TEAMS).items():
            _set(person, right, before[name], wanted[name])
        person.is_active = wanted["is_active"]
        person.save(update_fields=["is_active"])
        if changes:
            note(person, "; ".join(changes), by=by)
    return changes


def _granted(person: User) -> dict[str, list[int]]:
    """Rows on which this very person was given each right, not by a role or a group."""
    found: dict[str, list[int]] = defaultdict(list)
    rows = UserObjectPermission.objects.filter(user=person).order_by("object_pk")
    for app, codename, pk in rows.values_list("permission__content_type__app_label", "permission__codename", "object_pk"):
        found[f"{app}.{codename}"].append(int(pk))
    return found


def _keys(granted: dict[str, list[int]], rights: dict[str, tuple[str, str]]) -> set[int]:
    return {pk for right, _ in rights.values() for pk in granted[right]}


def _set(person: User, right: str, before: Iterable[models.Model], wanted: Iterable[models.Model]) -> None:
    had, want = set(before), set(wanted)
    for row in want - had:
        assign_perm(right, person, row)
    for row in had - want:
        remove_perm(right, person, row)


def _change(name: str, before: Any, wanted: Any) -> str:
    if isinstance(wanted, bool):
        return "" if before == wanted else f"{name}: {wanted}"
    had, want = {str(row) for row in before}, {str(row) for row in wanted}
    signs = [*(f"+{one}" for one in sorted(want - had)), *(f"−{one}" for one in sorted(had - want))]
    return f"{name}: {' '.join(signs)}" if signs else ""


@require_safe
@login_required
@may_grant
def people(request: PageRequest) -> HttpResponse:
    found = User.objects.order_by("-is_active", "first_name", "username").prefetch_related("groups", "teams")
    return render(request, "people.html", {"people": found})


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@may_grant
def person(request: PageRequest, person_id: int) -> HttpResponse:
    found = get_object_or_404(User, pk=person_id)
    form = Grants(found, request.user, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        grant(found, form.cleaned_data, by=request.user)
        return redirect("person", found.pk)
    context = {"person": found, "form": form, "changes": history(found)[:20]}
    return render(request, "person.html", context, status=422 if form.errors else 200)
