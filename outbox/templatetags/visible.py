"""Prints text that others wrote with what can't be seen made visible. Escapes everything; nothing in it becomes markup."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from outbox.characters import Line, Segment, show

register = template.Library()


@register.filter
def visible(text: str) -> SafeString:
    """A title, a reason, a name: with chips where characters hide, in an element that keeps its own direction."""
    lines = format_html_join("\n", "{}", ((marked(line),) for line in show(str(text))))
    return format_html('<bdi dir="auto">{}</bdi>', lines)


@register.filter
def plain(text: object) -> str:
    """The same where no markup can stand: a label, the page's title. What hides is written out."""
    return "\n".join("".join(f"⟨{one.text}⟩" if one.kind == "chip" else one.text for one in line.segments) for line in show(str(text)))


@register.filter
def marked(line: Line) -> SafeString:
    """One line of a payload."""
    return format_html_join("", "{}", ((_html(segment),) for segment in line.segments))


def _html(segment: Segment) -> SafeString:
    if segment.kind == "chip":
        return format_html('<span class="inv">{}<span class="sr"> {} </span></span>', segment.text, segment.says)
    if segment.kind == "mixed":
        shown = format_html('<u class="mixed">{}</u><span class="inv">{}</span>', segment.text, segment.says)
    else:
        shown = format_html("{}", segment.text)
    if segment.role:
        return format_html('<bdi class="{}">{}</bdi>', segment.role[0], shown)
    return shown
