"""The counts beside “Runs” and “Capabilities” in the navigation, and the lines about what holds for everything: frozen, delayed, alerts."""

from typing import Any

from django.db.models import QuerySet

from runs import lateness
from runs.models import CapabilityRecord, OutsideTool, Run
from sagaboard.accounts.models import User
from sagaboard.templatetags.words import name_of, short
from sagaboard.web import Loud, Needs, counts, louds


def needing_someone(user: User) -> list[QuerySet[Any]]:
    return [Run.objects.visible_to(user).needing_someone()]


def without_undo(user: User) -> list[QuerySet[Any]]:
    return [CapabilityRecord.objects.without_undo(), OutsideTool.objects.filter(undo="")]


def above_every_page() -> list[Loud]:
    return [_loud(one) for one in lateness.trouble()]


def _loud(one: lateness.Trouble) -> Loud:
    if one.what == "frozen":
        after = "Nothing is called, sent or undone until it is lifted."
        return Loud(f"Frozen since {short(one.at)} by {name_of(one.by)}:", one.says.rstrip("."), after)
    if one.what == "alert":
        return Loud(f"Alert of {short(one.at)}:", one.says.rstrip("."), "An admin looks into it and deletes the alert.")
    after = "Nothing is lost; it goes on by itself."
    return Loud(f"Sending and undoing are delayed since {short(one.at)}:", "no worker takes what is due", after)


counts["runs"] = Needs(needing_someone, "red", "need someone")
counts["capabilities"] = Needs(without_undo, "red", "without undo")
louds.append(above_every_page)
