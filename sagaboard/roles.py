"""The roles people have, as groups. Made after each migration, so that the rights they name exist."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission

from sagaboard.accounts.models import ShippedRight

ROLES = {
    "reviewer": ["runs.view_step", "runs.decide_capability"],
    "on-call": ["runs.take_run", "runs.compensate_run", "runs.settle_step"],
    "owner": ["runs.take_run", "corrections.send_correction"],
    "admin": [
        "runs.take_run",
        "runs.compensate_run",
        "runs.override_pivot",
        "runs.settle_step",
        "runs.drill_capability",
        "runs.change_capabilityrecord",
        "runs.view_run",
        "runs.view_logentry",
        "outbox.add_policy",
        "outbox.change_policy",
        "outbox.view_policy",
        "accounts.change_user",
        "accounts.view_user",
        "corrections.send_correction",
        "corrections.add_audience",
        "corrections.change_audience",
        "corrections.add_template",
    ],
    "auditor": ["runs.view_run", "runs.view_logentry"],
    "read-only": [],
}


def make_after_migrate(**kwargs: Any) -> None:
    """Gives each role what it comes with and never had; what an admin took from it or gave to it stays as it is."""
    for name, rights in ROLES.items():
        role, _ = Group.objects.get_or_create(name=name)
        had = set(ShippedRight.objects.filter(role=role).values_list("right", flat=True))
        fresh = [right for right in rights if right not in had]
        role.permissions.add(*map(_permission, fresh))
        ShippedRight.objects.bulk_create(ShippedRight(role=role, right=right) for right in fresh)


def _permission(right: str) -> Permission:
    app, _, codename = right.partition(".")
    return Permission.objects.get(codename=codename, content_type__app_label=app)
