"""Every colour that says something can be read: the table of UI.md 11, computed from the stylesheet itself."""

import re

import pytest
from django.conf import settings

SHEET = (settings.BASE_DIR / "static" / "sagaboard.css").read_text()
HEX = r"#[0-9a-f]{6}"
TOKENS = dict(re.findall(rf"--([\w-]+):\s*light-dark\(({HEX}, {HEX})\)", SHEET))
TEXT = {
    "ink": "surface bg raised", "ink-2": "surface bg raised", "ink-3": "surface bg mute-bg raised", "undo": "undo-bg surface",
    "live": "live-bg surface", "seen": "seen-bg surface", "bad": "bad-bg surface", "odd": "odd-bg surface", "mute": "mute-bg surface",
    "on-undo": "undo-mark", "on-ink": "ink", "on-live": "live-mark", "on-bad": "bad-mark",
}  # fmt: skip
MARKS = {
    "undo-mark": "surface sunken", "live-mark": "surface", "seen-mark": "surface sunken", "bad-mark": "surface", "odd-mark": "surface",
    "mute-mark": "surface mute-bg", "field": "raised", "focus": "bg surface",
}  # fmt: skip


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (MARKS, 3.0)], ids=["text", "marks"])
def test_every_pair_can_be_told_apart(pairs, least, scheme):
    found = {
        f"{front} on {ground}": contrast(TOKENS[front].split(", ")[scheme], TOKENS[ground].split(", ")[scheme])
        for front, grounds in pairs.items()
        for ground in grounds.split()
    }
    assert {pair: round(value, 2) for pair, value in found.items() if value < least} == {}


def test_the_chip_of_a_hidden_character_can_be_read():
    (chip,) = set(re.findall(rf"\.inv \{{[^}}]*color: light-dark\(({HEX}), {HEX}\)", SHEET))
    assert all(contrast(chip, ground) >= 4.5 for ground in TOKENS["seen-mark"].split(", "))


def test_no_colour_stands_outside_the_table():
    """A colour written where it is used would be in no scheme and in no test."""
    layers = SHEET[SHEET.index("--shadow-l") :]
    outside = re.sub(r"@media print \{.*?\n  \}", "", layers, flags=re.S)
    assert set(re.findall(HEX, outside)) <= {"#231300"}
