"""The count beside “Outbox” in the navigation: what this very person may decide. And how long items wait."""

import datetime as dt

from outbox.models import Item, ItemQuerySet
from outbox.states import ItemState
from runs import ages
from sagaboard.accounts.models import User
from sagaboard.web import Needs, counts


def waiting_for(user: User) -> list[ItemQuerySet]:
    # Whoever may decide an item sees it.
    return [Item.objects.waiting_for(user)]


counts["outbox"] = Needs(waiting_for, "hot", "wait for you")


def _ages(now: dt.datetime) -> list[ages.Age]:
    waits = {
        ItemState.AWAITING: ages.Waits("awaiting_since", "its policy's deadline", "reviewer"),
        ItemState.APPROVED: ages.Waits("awaiting_since", "its policy's deadline, until the first call went out", "worker"),
        ItemState.EXPIRED: ages.Waits("expires_at", ages.REMINDED, "owner"),
    }
    return [ages.of_rows("item", Item.objects.filter(state=state), state, waiting, now) for state, waiting in waits.items()]


ages.more.append(_ages)
