"""Reads JSON from outside so that what is stored and hashed is what was meant: no NaN, no NUL, no double names.

Numbers of one value are one number (RFC 8785 writes 1, 1.0 and 1e0 alike), so that the same intent has one key.
"""

from __future__ import annotations

import json
import math
from typing import Any

from runs.exceptions import Invalid
from runs.storable import refusals

DEEPEST = 32
BIGGEST = 2**53


def load(body: bytes) -> Any:
    """The document, or Invalid with a sentence that names what is wrong."""
    try:
        found = json.loads(
            body.decode("utf-8"), object_pairs_hook=_no_doubles, parse_constant=_no_constant, parse_float=_number, parse_int=_whole
        )
    except UnicodeDecodeError:
        raise Invalid("The body is not UTF-8. Send JSON in UTF-8.") from None
    except RecursionError:
        raise Invalid(f"The body is nested deeper than {DEEPEST} levels.") from None
    except ValueError as exc:
        raise Invalid(f"The body is not JSON: {exc}.") from None
    _check_depth(found, 1)
    problem = next(refusals(found), None)
    if problem:
        raise Invalid(f"{problem} Nothing was stored.")
    return found


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise Invalid(f"The name {double!r} stands twice in one object; which one counts can't be told.")
    return found


def _no_constant(name: str) -> Any:
    raise Invalid(f"{name} is not a JSON number. Send it as a string, or leave it out.")


def _number(text: str) -> float | int:
    value = float(text)
    if not math.isfinite(value):
        raise Invalid(f"{text} is too large for a number. Send it as a string.")
    return int(value) if value.is_integer() and abs(value) <= BIGGEST else value


def _whole(text: str) -> int:
    value = int(text) if len(text) < 20 else BIGGEST + 1
    if abs(value) > BIGGEST:
        raise Invalid(f"{text[:40]} is beyond 2^53, where numbers lose digits on the way. Send it as a string.")
    return value


def _check_depth(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise Invalid(f"The body is nested deeper than {DEEPEST} levels.")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        _check_depth(item, depth + 1)
