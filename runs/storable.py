"""Makes whatever comes back from a target storable as JSON, without loss.

PostgreSQL's jsonb holds no NUL, no lone surrogate and no NaN. Such values are written escaped, as visible text, and the
paths where that was done are kept under `$marked`, so that an undo gets back exactly what the target had said.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

MARK = "$marked"
LONGEST_TEXT = 262_144
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
Path = tuple[str | int, ...]


def storable(value: Any) -> dict[str, Any]:
    """`value` as a JSON object that jsonb accepts; `restored` gives the original back."""
    marked: list[list[str | int]] = []
    document = value if isinstance(value, dict) else {"value": value}
    if MARK in document:
        # A target's own field of that name would be taken for ours.
        document = {(f"{MARK}_" if name == MARK else name): inner for name, inner in document.items()}
    clean = _clean(document, (), marked)
    if marked:
        clean[MARK] = marked
    return dict(clean)


def restored(value: dict[str, Any]) -> dict[str, Any]:
    """What `storable` was given, text that was cut excepted."""
    if MARK not in value:
        return value
    result = json.loads(json.dumps({k: v for k, v in value.items() if k != MARK}))
    for path in value[MARK]:
        *way, last = path
        place = result
        for part in way:
            place = place[part]
        place[last] = _unescaped(place[last])
    return dict(result)


def text(value: object, longest: int = 4_000) -> str:
    """Any object as a text that PostgreSQL stores: bounded, with what it can't hold made visible."""
    found = str(value)
    if len(found) > longest:
        found = f"{found[:longest]}… ({len(found):,} characters)"
    return _UNSTORABLE.sub(lambda m: f"\\u{ord(m.group()):04x}", found)


def refusals(value: Any, path: str = "") -> Iterator[str]:
    """What in a document from outside can't be stored as it is: one sentence each, naming the field."""
    if isinstance(value, str) and _UNSTORABLE.search(value):
        yield f"{path or 'The text'} holds a NUL or a lone surrogate; take it out."
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path or 'The number'} is not a finite number."
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from refusals(key, f"a name in {path or 'the document'}")
            yield from refusals(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from refusals(inner, f"{path}[{index}]")


def _clean(value: Any, path: Path, marked: list[list[str | int]]) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _clean_text(value, path, marked)
    if isinstance(value, float):
        return value if math.isfinite(value) else _mark(str(value), path, marked)
    if isinstance(value, dict):
        return {_clean_key(key): _clean(inner, (*path, _clean_key(key)), marked) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_clean(inner, (*path, index), marked) for index, inner in enumerate(value)]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    return _clean_text(str(value), path, marked)


def _clean_text(value: str, path: Path, marked: list[list[str | int]]) -> str:
    if len(value) > LONGEST_TEXT:
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        value = f"{value[:LONGEST_TEXT]}… (cut: {len(value):,} characters, sha256 {digest})"
    if not _UNSTORABLE.search(value):
        return value
    return _mark(json.dumps(value)[1:-1], path, marked)


def _clean_key(key: object) -> str:
    return _UNSTORABLE.sub(lambda m: f"\\u{ord(m.group()):04x}", str(key))


def _mark(value: str, path: Path, marked: list[list[str | int]]) -> str:
    marked.append(list(path))
    return value


def _unescaped(value: str) -> str | float:
    return float(value) if value in {"nan", "inf", "-inf"} else str(json.loads(f'"{value}"'))
