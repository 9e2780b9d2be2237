"""What differs between two versions of a payload: line by line as the card lays them out, and in the target they go to."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator

from outbox.characters import Line, segments
from outbox.payloads import Sheet

AROUND = 3
# Comparing takes the square of this; longer ones are read whole, side by side, instead.
AT_MOST = 5_000


@dataclasses.dataclass(frozen=True)
class Row:
    """One line: `sort` is "gone" for one that is gone, "new" for a new one, "cut" for equal ones left out, else ""."""

    sort: str
    line: Line


def difference(before: Sheet, after: Sheet) -> list[Row]:
    """The changed lines, with a few around them; nothing for what can't be compared by lines."""
    rows = [*_targets(before, after)]
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > AT_MOST:
        return [*rows, Row("cut", _plain("too long to compare: read both versions"))]
    matcher = difflib.SequenceMatcher(None, [_text(line) for line in old], [_text(line) for line in new], autojunk=False)
    for place, group in enumerate(matcher.get_grouped_opcodes(AROUND)):
        if place or group[0][1]:
            rows.append(Row("cut", _plain("…")))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows += [Row("", line) for line in new[new_from:new_to]]
            else:
                rows += [Row("gone", line) for line in old[old_from:old_to]]
                rows += [Row("new", line) for line in new[new_from:new_to]]
    return rows


def _targets(before: Sheet, after: Sheet) -> Iterator[Row]:
    old, new = dict([("to", before.where), *before.target]), dict([("to", after.where), *after.target])
    for name in [*old, *(name for name in new if name not in old)]:
        if old.get(name) != new.get(name):
            yield from (Row(sort, _plain(f"{name}: {where[name]}")) for sort, where in (("gone", old), ("new", new)) if name in where)


def _lines(sheet: Sheet) -> list[Line]:
    if sheet.shown is None:
        return [_plain(f"{sheet.size} bytes that are no text, SHA-256 {sheet.sha256}")]
    return sheet.shown.lines


def _text(line: Line) -> str:
    # Two characters that look alike are different, and so are their chips.
    return "\x00".join(segment.text + segment.says for segment in line.segments)


def _plain(text: str) -> Line:
    return Line(segments(text))
