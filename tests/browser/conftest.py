"""A real browser, signed in as somebody."""

from __future__ import annotations

import os
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.db import connection
from django.test import Client

from tests.corrections.real import mails, told  # noqa: F401  (fixtures)
from tests.runs.connectors.conftest import running_world, world, world_state  # noqa: F401  (fixtures)

DESK = {"width": 1440, "height": 1000}
REFUSALS = ("403 (Forbidden)", "404 (Not Found)", "409 (Conflict)", "422 (")


@pytest.fixture(scope="session", autouse=True)
def _second_wrapper(django_db_setup, live_server, browser):
    """While Playwright's loop runs, Django sees async code and keeps a second wrapper of the database for this thread."""
    connection.owner_url = os.environ["DATABASE_URL"]
    yield
    connection.close()


@pytest.fixture
def open_as(browser, live_server):
    """A page in a context of its own, signed in unless by nobody; whatever the browser complains of fails the test."""
    contexts, complaints = [], []

    def open_as(user: Any, address: str, **options: Any) -> Any:
        context = browser.new_context(base_url=live_server.url, **{"viewport": DESK, **options})
        if user is not None:
            # A client of its own: one that signs in anew ends the session it had.
            client = Client()
            client.force_login(user)
            cookie = client.cookies[settings.SESSION_COOKIE_NAME]
            context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_server.url}])
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        contexts.append(context)
        page.goto(address)
        return page

    # What a test brings about on purpose.
    open_as.excused = []
    yield open_as
    for context in contexts:
        for page in context.pages:
            page.goto("about:blank")
        context.close()
    # A refusal is an answer, and the browser counts every 4xx as an error.
    assert [said for said in complaints if not any(answer in said for answer in (*REFUSALS, *open_as.excused))] == []


@pytest.fixture
def accessible():
    """Fails, with a report, where axe finds anything."""

    def check(page: Any) -> None:
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()

    return check
