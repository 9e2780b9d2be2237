"""What the mockups show, made by the engine: a green run whose calls wait, and a note to the owner of a cohort."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from corrections.models import Audience, Correction
from outbox.models import Item
from outbox.states import ItemState
from runs.models import Run
from tests.checker import forged
from tests.corrections.scenes import draft_of, make_undone
from tests.factories import make_token, make_user
from tests.outbox.scenes import item_of, make_released, make_waiting

TARGETS = {
    "tickets": {
        "system": "jira",
        "base_url": "https://acme.atlassian.example",
        "token": "t",
        "webhook": True,
        "audience": "Halden & Sons",
    },
    "chat": {"system": "slack", "base_url": "https://slack.example/api", "token": "t"},
}
COMMENT = "The billing field is ready for review. Please test with\u00a0your sandbox\u200b account before Friday."
WHY = "All checks pass and the panel is live for QA. Moving the ticket so that review can start."
PLAN = [
    {"ref": "branch", "capability": "put_thing", "args": {"name": "branch"}},
    {"ref": "schema", "capability": "put_thing", "args": {"name": "schema"}},
    {"ref": "flag", "capability": "show_thing", "args": {"name": "panel"}},
    {"ref": "ticket", "capability": "transition_ticket", "args": {"issue": "BILL-318", "to": "In Review", "comment": COMMENT}},
    {"ref": "tell", "capability": "tell_client", "args": {"name": "the sandbox", "value": "field v1"}},
    {"ref": "summary", "capability": "post_summary", "args": {"channel": "#web-dev", "text": "The billing field is in review."}},
]


def make_board(team: Any, settings: Any) -> Run:
    """A green run with a ticket, a notice and a summary to send, and one that is not green yet."""
    settings.SAGABOARD_TARGETS = TARGETS
    token = make_token(team=team, person=make_user(first_name="Ana", last_name="Ruiz", team=team))
    token.name = "feature-runner"
    token.save()
    run = make_released(token=token, plan=PLAN, why=WHY)
    make_waiting(token=token, plan=PLAN[:3] + PLAN[4:5])
    return run


def make_letters(token: Any) -> list[Item]:
    """Six letters to clients to whom something was sent before."""
    names = ("Lena Vogt", "Rui Tavares", "Aoife Byrne", "Ivan Petrov", "Mia Chen", "Omar Haddad")
    plan = [{"ref": f"c{n}", "capability": "tell_client", "args": {"name": name, "value": f"Dear {name}"}} for n, name in enumerate(names)]
    first = make_released(token=token, plan=[{"ref": "first", "capability": "tell_client", "args": {"name": "first", "value": "first"}}])
    forged(first, "as if somebody had written there before")
    Item.objects.filter(step__run=first).update(state=ItemState.SENT, closed_at=timezone.now())
    run = make_released(token=token, plan=plan)
    return [item_of(run, f"c{n}") for n in range(len(names))]


def make_note(team: Any) -> Correction:
    """A draft to the owner of a cohort."""
    meera = make_user("meera", first_name="Meera", last_name="Joshi", time_zone="Asia/Kolkata")
    Audience.objects.create(name="team", owner=meera, address={"target": "chat", "user": "U1"})
    return draft_of(make_undone(token=make_token(team=team, person=make_user(first_name="Ana", last_name="Ruiz", team=team))))
