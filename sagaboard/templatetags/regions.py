"""A region of a page that is made by itself: where it can't be, it says so in its place, and the rest of the page stands."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from django import template
from django.db import OperationalError
from django.http import HttpRequest
from django.template import Context

from sagaboard.web import page_of

register = template.Library()
log = logging.getLogger(__name__)


@register.simple_tag(takes_context=True)
def region(context: Context, part: str, name: str, heading: str, **look: Any) -> str:
    """The template `name`, whose root has the id `part`, with what `made` in the context has for that part.

    Where that raises, `_region_failed.html` stands there; `look` is for it. A database that is not there breaks every region, so
    that is left to what answers for the page.
    """
    engine = context.template.engine  # type: ignore[union-attr]  # set while a template is rendered
    try:
        make = (context.get("made") or {}).get(part, dict)
        with context.push(**make()):
            return engine.get_template(name).render(context)
    except OperationalError:
        raise
    except Exception:
        reference, request = secrets.token_hex(4), context["request"]
        log.exception("The region “%s” of %s could not be made, reference %s.", part, request.path, reference)
        failed = {"part": part, "heading": heading, "reference": reference, "again": _address(request), **look}
        with context.push(**failed):
            return engine.get_template("_region_failed.html").render(context)


def _address(request: HttpRequest) -> str:
    """The page on which the region stands, which may have asked for a part of itself, or have been answered after a press."""
    here = getattr(request, "htmx", None) and request.htmx.current_url_abs_path  # type: ignore[attr-defined]
    return here or (request.get_full_path() if request.method in ("GET", "HEAD") else page_of(request))
