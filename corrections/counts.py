"""The count beside “Corrections” in the navigation, and how long they wait."""

import datetime as dt

from corrections.models import Correction, CorrectionQuerySet
from corrections.states import CorrectionState
from runs import ages
from sagaboard.accounts.models import User
from sagaboard.web import Needs, counts


def drafts_of(user: User) -> list[CorrectionQuerySet]:
    return [Correction.objects.waiting_for(user)]


counts["corrections"] = Needs(drafts_of, "hot", "for you to send")


def _ages(now: dt.datetime) -> list[ages.Age]:
    waiting = ages.Waits("drafted_at", "until it is sent or dismissed", "owner")
    states = [CorrectionState.DRAFT, CorrectionState.HELD_BACK, CorrectionState.SENDING, CorrectionState.NOT_DELIVERED]
    return [ages.of_rows("correction", Correction.objects.filter(state=state), state, waiting, now) for state in states]


ages.more.append(_ages)
