"""The count beside “Outbox” in the navigation: what this very person may decide."""

from outbox.models import Item
from outbox.policies import Approver
from sagaboard.accounts.models import User
from sagaboard.web import Count, counts


def waiting_for(user: User) -> Count:
    approver = Approver(user)
    waiting = Item.objects.visible_to(user).awaiting().with_everything()
    return Count(sum(approver.waits(item) for item in waiting[:200]), "hot", "wait for you")


counts["outbox"] = waiting_for
