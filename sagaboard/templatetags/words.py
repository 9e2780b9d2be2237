"""How times, durations and digests are written on every page (UI.md 11)."""

from django import template

register = template.Library()
