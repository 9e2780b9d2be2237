"""How times, durations, digests, numbers and states are written on every page (UI.md 4 and 11)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sagaboard import web

register = template.Library()

# Characters of what an agent wrote that stand there before it is folded.
FOLD = 300
MARKUP = re.compile(r"[\\`*_{}\[\]()#!|~]")
# What hides, or turns round how the text beside it reads. A line break is neither.
HIDES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

# State -> its class, its icon, its label. Steps, runs, items and corrections share them; one word, one look.
LOOKS = {
    "planned": ("planned", "planned", "Planned"),
    "requested": ("planned", "requested", "Requested"),
    "on_hold": ("await", "await", "On hold"),
    "queued": ("held", "queued", "Held"),
    "running": ("running", "running", "Running"),
    "done": ("done", "done", "Done"),
    "sent": ("sent", "sent", "Sent"),
    "nothing_to_undo": ("none", "skipped", "Nothing to undo"),
    "skipped": ("skipped", "skipped", "Skipped"),
    "failed": ("failed", "failed", "Failed"),
    "unknown": ("unknown", "unknown", "Unknown"),
    "undoing": ("undoing", "undoing", "Undoing"),
    "undone": ("undone", "undone", "Undone"),
    "undo_failed": ("stuck", "stuck", "Stuck"),
    "drifted": ("unknown", "drifted", "Drifted"),
    "settled": ("undone", "settled", "Settled"),
    "left_standing": ("partial", "skipped", "Left standing"),
    "open": ("running", "running", "Running"),
    "checking": ("running", "running", "Checking"),
    "releasing": ("releasing", "releasing", "Releasing"),
    "succeeded": ("done", "done", "Succeeded"),
    "compensating": ("undoing", "undoing", "Compensating"),
    "compensated": ("undone", "undone", "Compensated"),
    "stuck": ("stuck", "stuck", "Stuck"),
    "held": ("held", "queued", "Held"),
    "awaiting": ("await", "await", "Awaiting approval"),
    "approved": ("done", "approved", "Approved"),
    "rejected": ("rejected", "rejected", "Rejected"),
    "withdrawn": ("withdrawn", "withdrawn", "Withdrawn"),
    "expired": ("expired", "expired", "Expired"),
    "dropped": ("none", "skipped", "Dropped"),
    "draft": ("await", "edit", "Draft"),
    "held_back": ("held", "lock", "Held back"),
    "sending": ("running", "running", "Sending"),
    "not_delivered": ("stuck", "stuck", "Not delivered"),
    "dismissed": ("none", "skipped", "Dismissed"),
}


# A page has hundreds of these, of which few differ: each is drawn once. `typed`, so that what is marked safe stays by itself.
_once = lru_cache(maxsize=2000, typed=True)


@register.simple_tag
@_once
def state(key: str, label: str = "", *, big: bool = False) -> SafeString:
    """The pill of a state: shape, colour and word."""
    css, shape, word = LOOKS[key]
    return render_to_string("_state.html", {"css": css, "icon": shape, "label": label or word, "big": big})


@register.simple_tag
@_once
def drawn(strip: Hashable) -> SafeString:
    """A run's steps in one row, from a `runs.strip.Strip`."""
    return render_to_string("_strip.html", {"strip": strip})


@register.simple_tag
@_once
def icon(name: str) -> SafeString:
    """A shape of the sprite; the words beside it carry the meaning."""
    return format_html('<svg class="i" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One name in the navigation."""

    name: str
    label: str
    url: str
    icon: str
    key: str
    current: bool
    count: web.Count | None


@register.simple_tag(takes_context=True)
def nav(context: Context) -> list[Entry]:
    """The entries of the navigation, with what needs someone."""
    here = context["request"].path if "request" in context else ""
    counts = context.get("nav_counts") or {}
    entries = (
        ("runs", "runs", "r"),
        ("outbox", "queued", "o"),
        ("corrections", "chat", "c"),
        ("capabilities", "tool", "k"),
        ("audit", "book", "a"),
    )
    return [
        Entry(name, name.capitalize(), f"/{name}/", shape, key, here.startswith(f"/{name}/"), counts.get(name))
        for name, shape, key in entries
    ]


@register.filter
def clock(value: dt.datetime | None) -> str:
    """03:04 UTC."""
    return f"{timezone.localtime(value):%H:%M %Z}" if value else ""


@register.simple_tag
def zone() -> str:
    return f"{timezone.localtime():%Z}"


def short(value: dt.datetime, now: dt.datetime | None = None) -> str:
    """`03:07:14` within a day, `Wed 22:05` within a week, `9 Jul` else."""
    local, age = timezone.localtime(value), (now or timezone.now()) - value
    if age < dt.timedelta(days=1):
        return f"{local:%H:%M:%S}"
    if age < dt.timedelta(days=7):
        return f"{local:%a %H:%M}"
    return f"{local.day} {local:%b}" if age < dt.timedelta(days=300) else f"{local.day} {local:%b %Y}"


@register.filter
def when(value: dt.datetime | None) -> SafeString | str:
    """`short`, in the viewer's zone. Where that is not UTC, UTC is in the title: an hour comes twice a year in most zones."""
    if not value:
        return ""
    if timezone.localtime(value).utcoffset() == dt.timedelta():
        return format_html('<time datetime="{}">{}</time>', value.isoformat(), short(value))
    utc = f"{value.astimezone(dt.UTC):%-d %b %Y, %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), utc, short(value))


@register.filter
def duration(value: float | dt.timedelta | None) -> str:
    """`under 1 s`, `8 s`, `11 min 03 s`, `3 h 46 min`, `143 days`."""
    if value is None:
        return ""
    seconds = int(value.total_seconds() if isinstance(value, dt.timedelta) else value)
    if seconds < 1:
        return "under 1 s"
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 60:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min {seconds % 60:02} s"
    if hours < 48:
        return f"{hours} h {minutes % 60:02} min"
    return f"{hours // 24} days"


@register.filter
def about(value: float | dt.timedelta) -> str:
    """`about 8 s`, `under 1 s`: an estimate."""
    said = duration(value)
    return said if said.startswith("under") else f"about {said}"


@register.filter
def since(value: dt.datetime | None) -> SafeString | str:
    """How long ago, ticking where scripts run."""
    if value is None:
        return ""
    said = duration(timezone.now() - value)
    return format_html('<time datetime="{0}" data-since="{0}">{1}</time>', value.isoformat(), said)


@register.filter
def until(value: dt.datetime) -> SafeString:
    """How long until then, ticking where scripts run."""
    said = duration(max(value - timezone.now(), dt.timedelta()))
    return format_html('<time datetime="{0}" data-until="{0}">{1}</time>', value.isoformat(), said)


@register.filter
def digest(value: str) -> str:
    """`9c41 e07a … 5d18`: groups of four, the first eight and the last four."""
    return f"{value[:4]} {value[4:8]} … {value[-4:]}" if len(value) > 16 else value


@register.filter
def number_word(value: int) -> str:
    """Up to ten as a word."""
    return NUMBERS[value] if 0 < value <= 10 else f"{value:,}"


def counted(number: int, one: str, many: str = "") -> str:
    """`three effects`, `one effect`."""
    return f"{number_word(number) if number else 'no'} {one if number == 1 else many or one + 's'}"


@register.filter
def sentence(value: str) -> str:
    """The first letter a capital one, a full stop at its end."""
    value = value.strip()
    return value[:1].upper() + value[1:] + ("" if value[-1:] in (".", "!", "?", "…", "") else ".")


@register.filter
def name_of(actor: str) -> str:
    """An actor of the log for a reader: `person:Priya Nair` is Priya Nair."""
    kind, _, name = actor.partition(":")
    return name if kind in ("person", "token") and name else {"worker": "a worker", "engine": "sagaboard"}.get(kind, actor)


@register.simple_tag
def csrf_headers(token: str) -> SafeString:
    """What htmx sends with every request, as the JSON that an attribute holds."""
    return format_html("{}", json.dumps({"X-CSRFToken": str(token)}))


@register.filter
def json_lines(value: Any) -> list[str]:
    """A document as indented lines, for a block of numbered ones."""
    return shown(json.dumps(value, indent=2, ensure_ascii=False, default=str)).split("\n")


@register.filter
def plural(number: int, words: str) -> str:
    """`{{ 3|plural:"effect,effects" }}` is “3 effects”."""
    one, _, many = words.partition(",")
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@register.filter
def shown(value: object) -> str:
    """Text that others wrote, with what hides in it or reorders it in sight: `⟨U+202E⟩`."""
    return HIDES.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", str(value))


@register.filter
def own(value: object) -> SafeString:
    """The same, kept to itself: its direction reorders nothing beside it."""
    return format_html('<bdi dir="auto">{}</bdi>', shown(value))


@register.inclusion_tag("_fold.html")
def fold(value: object, name: str) -> dict[str, Any]:
    """The same, folded where it is long, with how much there is. `name` keeps it open over what is new on the page."""
    said = shown(value)
    return {"lead": said[:FOLD], "rest": said[FOLD:], "length": len(said), "name": name}


@register.filter
def cap(value: str) -> str:
    return value[:1].upper() + value[1:]


@register.filter
def oneline(value: object) -> str:
    """Text from elsewhere in a line of Markdown: no line breaks, and nothing that Markdown or HTML would read as markup."""
    return MARKUP.sub(r"\\\g<0>", " ".join(shown(value).replace("⟨U+0009⟩", " ").split())).replace("<", "&lt;")
