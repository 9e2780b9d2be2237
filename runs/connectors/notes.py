"""Notes to one person: where their address says, in the chat or by e-mail."""

from __future__ import annotations

from django.conf import settings

from runs.capability import JSON, Message
from runs.connectors import mail, slack


def note(message: Message, timeout: float) -> JSON:
    """Tells `message.to`; posted once for one `message.key` where the place can be looked into."""
    return mail.note(message, timeout) if is_mail(message.to) else slack.note(message, timeout)


def find_note(message: Message, timeout: float) -> JSON | None:
    return slack.find_note(message, timeout)


def can_look(address: JSON) -> bool:
    """Whether a note to `address` could be found again: not one by e-mail."""
    return not is_mail(address)


def replies(message: Message, posted: JSON, timeout: float) -> int | None:
    """How many answers a posted note got; None where nobody can tell."""
    return None if is_mail(message.to) else slack.replies_to(message, posted, timeout)


def is_mail(address: JSON) -> bool:
    options = settings.SAGABOARD_TARGETS.get(str(address.get("target", "")), {})
    return bool(options.get("system") == "mail" or (not options and address.get("email")))
