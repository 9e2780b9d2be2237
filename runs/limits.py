"""What a token may: the rules an admin bound to it, and how fast it may call.

Calls are counted a minute at a time in the broker, which may forget, since this only protects others.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import redis

from runs import bell
from runs.exceptions import TooMany
from runs.models import Rules, TokenRules
from runs.models.quick import Prepared
from sagaboard.accounts.models import Token

log = logging.getLogger(__name__)
_BOUND = Prepared(lambda token: Rules.objects.filter(tokens__token=token), -1)


def rules_of(token: Token) -> Rules:
    """What an admin set for this token; without that, the strictest: a plan's calls only, and a person at the end."""
    relation: Any = Token._meta.get_field("rules")
    if not relation.is_cached(token):
        found = _BOUND.first(token.pk)
        relation.set_cached_value(token, TokenRules(token=token, rules=found) if found else None)
    bound = relation.get_cached_value(token)
    return bound.rules if bound else Rules(name="default")


def check_rate(token: Token) -> None:
    """TooMany, with the seconds to wait, once the token has called more often in this minute than its rules allow."""
    limit = rules_of(token).calls_per_minute
    minute = int(time.time() // 60)
    name = f"sagaboard:rate:{token.pk}:{minute}"
    try:
        with bell.client().pipeline(transaction=False) as pipe:
            calls, _ = pipe.incr(name).expire(name, 120).execute()
    except redis.RedisError as exc:
        log.warning("Calls are not counted, the broker does not answer: %s", exc)
        return
    if calls > limit:
        wait = 60 - int(time.time() % 60)
        raise TooMany(f"This token may call {limit} times a minute. Wait {wait} s.", retry_after=wait, limit="calls_per_minute")
