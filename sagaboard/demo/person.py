"""A person at a browser without scripts: opens pages, finds the form with the button, and sends it as it stands there."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from typing import Self

import httpx


@dataclasses.dataclass
class Form:
    """A form of a page: where it goes, and what its fields hold."""

    action: str
    method: str
    fields: dict[str, str] = dataclasses.field(default_factory=dict)


class Page(HTMLParser):
    """A page's forms and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.text = ""
        self._inside = self._in_area = False
        self._select = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(found.get("action", ""), found.get("method", "get").lower()))
            self._inside = True
        elif self._inside and found.get("name"):
            self._take(tag, found)
        elif tag == "option" and self._inside and self._select and ("selected" in found or self._select not in self.forms[-1].fields):
            self.forms[-1].fields[self._select] = found.get("value", "")

    def _take(self, tag: str, found: dict[str, str]) -> None:
        fields, name = self.forms[-1].fields, found["name"]
        if tag == "textarea":
            fields[name], self._in_area = "", True
            self._area = name
        elif tag == "select":
            self._select = name
        elif tag == "input" and found.get("type") in ("checkbox", "radio"):
            if "checked" in found:
                fields[name] = found.get("value", "on")
        elif tag == "input" and found.get("type") not in ("submit", "button"):
            fields[name] = found.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"
        self._in_area = self._in_area and tag != "textarea"
        self._select = "" if tag == "select" else self._select

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_area:
            self.forms[-1].fields[self._area] += data

    def form(self, action: str) -> Form:
        """The form that goes to an address ending in `action`; LookupError, saying what there is, if the page has none."""
        for form in self.forms:
            if form.action.endswith(action) and form.method == "post":
                return form
        raise LookupError(f"No button for {action}; the page has {[form.action for form in self.forms]}.")


class Person:
    """Signed in, with the pages' own session and CSRF token."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self.client = httpx.Client(base_url=url, follow_redirects=True, timeout=60, trust_env=False, headers={"Referer": url})
        self.name = username
        form = next(form for form in self.open("/login/").forms if "password" in form.fields)
        self._send(form, "/login/", {"username": username, "password": password})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.client.close()

    def open(self, path: str) -> Page:
        answer = self.client.get(path)
        answer.raise_for_status()
        return Page(answer.text)

    def press(self, path: str, action: str, **fields: str) -> Page:
        """Opens the page and sends its form that goes to `action`, with these fields filled in."""
        return self._send(self.open(path).form(action), path, fields)

    def _send(self, form: Form, path: str, fields: dict[str, str]) -> Page:
        answer = self.client.post(form.action or path, data={**form.fields, **fields})
        answer.raise_for_status()
        return Page(answer.text)
