"""What a token may: the rules an admin bound to it, and how fast it may call.

Calls are counted a minute at a time in the broker, which may forget, since this only protects others.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import redis
from django.db.models import F, QuerySet
from django.db.models.functions import JSONObject

from runs import bell
from runs.exceptions import TooMany
from runs.models import Rules, TokenRules
from sagaboard.accounts.models import Token

log = logging.getLogger(__name__)
_RELATION: Any = Token._meta.get_field("rules")
_FIELDS = [field.attname for field in Rules._meta.concrete_fields]


def with_rules(tokens: QuerySet[Token]) -> QuerySet[Token]:
    """Adds what `know_rules` reads, so that every call asks for its token and the rules of that at once."""
    return tokens.annotate(bound=JSONObject(**{name: F(f"rules__rules__{name}") for name in _FIELDS}))


def know_rules(token: Any) -> None:
    found = Rules(**json.loads(token.bound))
    _RELATION.set_cached_value(token, TokenRules(token=token, rules=found) if found.pk else None)


def rules_of(token: Token) -> Rules:
    """What an admin set for this token; without that, the strictest: a plan's calls only, and a person at the end."""
    bound: TokenRules | None = getattr(token, "rules", None)
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
