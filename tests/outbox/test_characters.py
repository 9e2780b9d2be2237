"""Characters that hide, reorder or imitate are made visible; ordinary text stays as it is."""

import json
import time

import pytest
import rfc8785
from django.template import Context, Template

from outbox.characters import ascii_host, show
from outbox.payloads import sheet
from runs.capability import Payload

HIDDEN = [
    ("a\u200bb", "U+200B", "zero width space"),
    ("a\u00a0b", "U+00A0", "no-break space"),
    ("a\u202eb", "U+202E", "right-to-left override"),
    ("a\u2066b", "U+2066", "left-to-right isolate"),
    ("a\u00adb", "U+00AD", "soft hyphen"),
    ("a\tb", "→", "tab"),
    ("a\rb", "U+000D", "carriage return"),
    ("a\x00b", "U+0000", "null"),
    ("a\x7fb", "U+007F", "delete"),
    ("a\x85b", "U+0085", "control character"),
    ("a\u2028b", "U+2028", "line separator"),
    ("a\u2003b", "U+2003", "em space"),
    ("a\u3000b", "U+3000", "ideographic space"),
    ("a\ufeffb", "U+FEFF", "zero width no-break space"),
    ("a\ufe0fb", "U+FE0F", "variation selector-16"),
    ("a\U000e0100b", "U+E0100", "variation selector-17"),
    ("a\U000e0041b", "U+E0041", "tag latin capital letter a"),
    ("a\ue000b", "U+E000", "private use"),
    ("a\u0378b", "U+0378", "unassigned"),
    ("a\ud800b", "U+D800", "lone surrogate"),
    ("a\u3164b", "U+3164", "hangul filler"),
    ("a\u115fb", "U+115F", "hangul choseong filler"),
    ("a\u2800b", "U+2800", "braille pattern blank"),
    ("a\u034fb", "U+034F", "combining grapheme joiner"),
    ("a" + " " * 42 + "b", "␠×42", "42 spaces"),
    ("end ", "␠×1", "1 space"),
]


@pytest.mark.parametrize(("text", "mark", "says"), HIDDEN, ids=[mark + says for _, mark, says in HIDDEN])
def test_what_cannot_be_seen_becomes_a_chip_with_its_name(text, mark, says):
    found = show(text).hidden
    assert [(one.mark, one.says, one.count, one.lines) for one in found] == [(mark, says, 1, [1])]
    assert show(text).lines[0].flagged


@pytest.mark.parametrize(
    "text",
    ["", "plain", "two words", "Grüße, señor", "日本語とLatin", "Привет, мир", "שלום עולם", "a  b", "e\u0301", "👍🏽", "x = {1: 2}", "µm"],
)
def test_honest_text_stays_as_it_is(text):
    shown = show(text)
    assert str(shown.lines[0]) == text
    assert not shown.hidden
    assert not shown.mixed


@pytest.mark.parametrize(
    ("text", "word", "says"),
    [
        ("pay p\u0430ypal now", "p\u0430ypal", "Latin + Cyrillic"),
        ("\u0391pple", "\u0391pple", "Latin + Greek"),
        ("g\uff4fogle", "g\uff4fogle", "Latin + Fullwidth"),
        ("p\U0001d41ay", "p\U0001d41ay", "Latin + Mathematical"),
    ],
)
def test_a_word_of_several_alphabets_is_marked(text, word, says):
    assert [(one.mark, one.says) for one in show(text).mixed] == [(word, says)]


def test_a_zero_width_space_does_not_part_a_mixed_word():
    shown = show("p\u200b\u0430y")
    assert [one.mark for one in shown.hidden] == ["U+200B"]
    assert {one.says for one in shown.mixed} == {"Latin + Cyrillic"}


def test_marks_piled_on_one_letter_are_counted():
    shown = show("z" + "\u0310\u0311\u0312\u0313\u0314")
    assert [one.mark for one in shown.hidden] == ["U+0313", "U+0314"]


def test_lines_are_lines_and_each_find_names_its_own():
    shown = show("one\ntwo\u200b\nthree\u200b")
    assert len(shown.lines) == 3
    assert [(one.count, one.lines) for one in shown.hidden] == [(2, [2, 3])]


@pytest.mark.parametrize(
    ("host", "ascii_name"),
    [("example.com", ""), ("EXAMPLE.com", ""), ("\u0430pple.com", "xn--pple-43d.com"), ("münchen.de", "xn--mnchen-3ya.de")],
)
def test_a_host_is_shown_as_the_network_knows_it(host, ascii_name):
    assert ascii_host(host) == ascii_name


def payload(body, *, content_type="application/json", **fields):
    return Payload(to={"url": "https://client.example/x", "recipient": "client"}, body=body, content_type=content_type, **fields)


def test_canonical_json_is_set_out_over_lines_and_loses_nothing():
    document = {"body": "two\u00a0words", "list": [1, {"deep": None}], "empty": {}, "was": "here"}
    shown = sheet(payload(rfc8785.dumps(document), was={"was": "there"})).shown
    assert [one.mark for one in shown.hidden] == ["U+00A0"]
    assert json.loads("".join(str(line).replace("U+00A0", "\u00a0") for line in shown.lines)) == document
    assert [line.was for line in shown.lines if line.was] == ['"there"']
    assert {segment.role for line in shown.lines for segment in line.segments} == {"", "key", "value"}


@pytest.mark.parametrize(
    "body", [b'{"a":1,"a":2}', b'{ "a": 1 }', b'{"b":1,"a":2}', b'{"a":1e2}', b"[" * 5000 + b"]" * 5000, b"not json"], ids=range(6)
)
def test_json_that_is_not_canonical_is_shown_as_it_is(body):
    assert "".join(str(line) for line in sheet(payload(body)).shown.lines) == body.decode()


def test_bytes_that_are_no_text_are_named_by_their_hash():
    laid_out = sheet(payload(b"\xff\xfe\x00", content_type="image/png"))
    assert (laid_out.shown, laid_out.size, len(laid_out.sha256)) == (None, 3, 64)


def test_what_the_template_prints_is_never_markup():
    attack = '<script>alert(1)</script><a href="https://evil.example">\u200b" onload="x'
    out = Template("{% load visible %}{{ text|visible }}").render(Context({"text": attack}))
    assert "<script" not in out
    assert "<a " not in out
    assert "&lt;script&gt;" in out
    assert '<span class="inv">U+200B<span class="sr"> zero width space </span></span>' in out


def test_the_template_prints_every_character_of_a_payload():
    out = Template('{% include "_payload.html" %}').render(Context({"sheet": sheet(payload(b'{"say":"<b>hi</b>"}')), "digest": "ab" * 32}))
    assert "&lt;b&gt;hi&lt;/b&gt;" in out
    assert "abab abab … abab" in out
    assert "https://client.example/x" in out


def test_a_megabyte_is_shown_whole_in_good_time():
    text = "Zwölf Boxkämpfer jagen Viktor.\n" * 33_000
    began = time.monotonic()
    assert len(show(text).lines) == 33_001
    assert time.monotonic() - began < 5
