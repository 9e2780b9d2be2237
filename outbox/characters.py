"""Makes characters visible that hide words, reorder them or look like others: pure, from text to lines of segments.

The template escapes; nothing here is markup. What is hidden follows Unicode's categories and Default_Ignorable_Code_Point.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator

# Blank although their category says letter, mark or symbol.
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
SELECTORS = ((0x180B, 0x180D), (0x180F, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# Unicode gives these no name of their own.
NAMES = {"\t": "tab", "\r": "carriage return", "\x00": "null", "\x1b": "escape", "\x7f": "delete", "\x08": "backspace"}
NO_NAME = {"Cc": "control character", "Co": "private use", "Cn": "unassigned", "Cs": "lone surrogate"}
MARKS_PER_LETTER = 3
MANY_SPACES = 8
# Alphabets whose letters are taken for each other's. Others stand beside Latin letters in honest text.
ALPHABETS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "GEORGIAN", "LISU", "FULLWIDTH", "MATHEMATICAL"})
# Printable ASCII and the letters of western European languages: most lines are nothing else, and are not looked at closer.
ORDINARY = re.compile(r"[!-~¡-¬®-ſ]+(?: {1,7}[!-~¡-¬®-ſ]+)*|")


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of a line. `kind` is "" for text, "chip" for what can't be seen, "mixed" for a word of several alphabets.

    `role` is "key" or "value" where the text is JSON; `says` is a chip's name, or the alphabets of a word.
    """

    text: str
    kind: str = ""
    says: str = ""
    role: str = ""


@dataclasses.dataclass
class Line:
    segments: list[Segment]
    # Beside a value that replaces a known one.
    was: str = ""
    # Where several are read together: the first has another here.
    differs: bool = False

    @property
    def flagged(self) -> bool:
        return any(segment.kind for segment in self.segments)

    def __str__(self) -> str:
        return "".join(segment.text for segment in self.segments)


@dataclasses.dataclass(frozen=True)
class Found:
    """One sort of thing that is marked: how often, and in which lines."""

    mark: str
    says: str
    count: int
    lines: list[int]


@dataclasses.dataclass
class Shown:
    """A text as a person can judge it."""

    lines: list[Line]

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    @property
    def hidden(self) -> list[Found]:
        """Every sort of character that can't be seen."""
        return self._found("chip")

    @property
    def mixed(self) -> list[Found]:
        """Every word that mixes alphabets."""
        return self._found("mixed")

    @property
    def count_hidden(self) -> int:
        return sum(found.count for found in self.hidden)

    def _found(self, kind: str) -> list[Found]:
        places: dict[tuple[str, str], list[int]] = {}
        for number, line in enumerate(self.lines, 1):
            for segment in line.segments:
                if segment.kind == kind:
                    places.setdefault((segment.text, segment.says), []).append(number)
        return [Found(mark, says, len(at), sorted(set(at))) for (mark, says), at in places.items()]


def show(text: str) -> Shown:
    """The text, line by line, with everything marked that a reader would miss."""
    return Shown([Line(segments(line)) for line in text.split("\n")])


def segments(text: str, *, role: str = "", trailing: bool = True) -> list[Segment]:
    """One line as segments; `trailing` says that spaces at its end can't be seen either."""
    if ORDINARY.fullmatch(text):
        return [Segment(text, role=role)] if text else []
    found: list[Segment] = []
    for piece, label in _words(text):
        found += _joined(_characters(piece), "mixed" if label else "", label, role)
    return _spaces(found, trailing=trailing)


def ascii_host(host: str) -> str:
    """The host as the network knows it, where that differs from how it is written."""
    try:
        coded = host.encode("idna").decode()
    except UnicodeError:
        return "not a valid host name"
    return "" if coded.lower() == host.lower() else coded


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The text in pieces; with a word that mixes alphabets come their names."""
    for is_word, run in _runs(text):
        yield run, _mixture(run) if is_word else ""


def _runs(text: str) -> Iterator[tuple[bool, str]]:
    """Words and what stands between them. What can't be seen doesn't end a word."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or _in_word(text[at]) != _in_word(text[start]):
            yield _in_word(text[start]), text[start:at]
            start = at


def _in_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char) in ("Mn", "Mc", "Cf")


def _mixture(word: str) -> str:
    names = Counter(alphabet for char in word if char.isalpha() and (alphabet := _alphabet(char)))
    return " + ".join(name.capitalize() for name, _ in names.most_common()) if len(names) > 1 else ""


def _alphabet(char: str) -> str:
    first = unicodedata.name(char, "").partition(" ")[0]
    return first if first in ALPHABETS else ""


def _characters(text: str) -> Iterator[tuple[str, str]]:
    """Each character as it is shown, with the name of one that can't be seen."""
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) == "Mn" else 0
        if _is_hidden(char) or marks > MARKS_PER_LETTER:
            yield "→" if char == "\t" else f"U+{ord(char):04X}", _name(char)
        else:
            yield char, ""


def _is_hidden(char: str) -> bool:
    category = unicodedata.category(char)
    if category in HIDDEN or char in BLANK or (category == "Zs" and char != " "):
        return True
    return any(first <= ord(char) <= last for first, last in SELECTORS)


def _name(char: str) -> str:
    known = NAMES.get(char) or unicodedata.name(char, "").lower()
    return known or NO_NAME.get(unicodedata.category(char), "character without a name")


def _joined(characters: Iterable[tuple[str, str]], kind: str, says: str, role: str) -> list[Segment]:
    """Neighbouring visible characters as one segment, every other one as a chip."""
    found: list[Segment] = []
    for shown, name in characters:
        if name:
            found.append(Segment(shown, "chip", name, role))
        elif found and found[-1].kind == kind:
            found[-1] = dataclasses.replace(found[-1], text=found[-1].text + shown)
        else:
            found.append(Segment(shown, kind, says, role))
    return found


def _spaces(found: list[Segment], *, trailing: bool) -> list[Segment]:
    """Long runs of spaces as a chip that counts them, and those at the end of the line."""
    spaced: list[Segment] = []
    for at, segment in enumerate(found):
        if segment.kind:
            spaced.append(segment)
            continue
        pattern = rf"( {{{MANY_SPACES},}}{'| +$' if trailing and at == len(found) - 1 else ''})"
        for piece in filter(None, re.split(pattern, segment.text)):
            blank = not piece.strip(" ") and re.fullmatch(pattern, piece)
            spaced.append(_counted(len(piece), segment.role) if blank else dataclasses.replace(segment, text=piece))
    return spaced


def _counted(spaces: int, role: str) -> Segment:
    return Segment(f"␠×{spaces}", "chip", f"{spaces} space{'' if spaces == 1 else 's'}", role)
