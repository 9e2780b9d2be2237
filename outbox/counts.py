"""The count beside “Outbox” in the navigation: what this very person may decide."""

from outbox.models import Item
from outbox.policies import why_not
from sagaboard.accounts.models import User
from sagaboard.web import Count, counts


def waiting_for(user: User) -> Count:
    waiting = Item.objects.visible_to(user).awaiting().select_related("step__run__token", "step__run__team", "policy")
    return Count(sum(not why_not(user, item) for item in waiting.prefetch_related("versions")[:100]), "hot", "wait for you")


counts["outbox"] = waiting_for
