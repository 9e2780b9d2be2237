import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.storable import LONGEST_TEXT, refusals, restored, storable, text

texts = st.text(alphabet=st.characters(codec=None), max_size=20)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8).filter(lambda name: not name.startswith("$"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(names, values, max_size=5))
def test_whatever_a_target_says_comes_back_unchanged(value):
    stored = storable(value)
    assert restored(stored) == value
    assert not list(refusals(stored))


def test_nan_is_marked_and_comes_back():
    stored = storable({"n": math.nan, "m": math.inf})
    assert stored["n"] == "nan"
    assert math.isnan(restored(stored)["n"])


def test_an_oversized_text_is_cut_with_its_digest():
    stored = storable({"t": "x" * (LONGEST_TEXT + 1)})
    assert "sha256" in stored["t"]
    assert len(stored["t"]) < LONGEST_TEXT + 200


@pytest.mark.parametrize("value", ["a string", 7, None, ["a", "list"]])
def test_what_is_no_object_becomes_one(value):
    assert storable(value) == {"value": value}


def test_a_text_shows_what_cannot_be_stored():
    assert text("a\x00b\ud800") == "a\\u0000b\\ud800"
