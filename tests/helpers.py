"""What makes races happen: threads that wait for each other between check and write, each on a connection of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

# Behind a lock the others never come: whoever holds it goes on alone after this long.
PATIENCE = 0.5


def meet_after(monkeypatch: Any, owner: Any, name: str, parties: int = 2) -> None:
    """Lets `parties` threads that call `owner.name` wait for each other after it, half a second at most."""
    original, barrier = getattr(owner, name), threading.Barrier(parties)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            barrier.reset()
        return result

    monkeypatch.setattr(owner, name, wrapped)


def run_together(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls returned or raised, each made in a thread and on a connection of its own, all at once."""
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        try:
            barrier.wait(5)
            return call()
        except Exception as exc:  # the outcome is what is compared
            return exc
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def run_meeting(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """What the two returned or raised. The second begins when the first has decided and not yet committed.

    The first goes on once the second waits for a lock of its, or has ended: nothing here depends on how long that takes.
    """
    decided, go_on, began = threading.Event(), threading.Event(), threading.Event()
    backend: list[int] = []

    def one() -> Any:
        commit = connection.commit

        def committing() -> None:
            decided.set()
            go_on.wait(10)
            commit()

        connection.commit = committing  # type: ignore[method-assign]
        try:
            return first()
        except Exception as exc:
            return exc
        finally:
            connection.commit = commit  # type: ignore[method-assign]
            decided.set()
            connection.close()

    def other() -> Any:
        try:
            connection.ensure_connection()
            backend.append(connection.connection.info.backend_pid)
            began.set()
            return second()
        except Exception as exc:
            return exc
        finally:
            began.set()
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        firsts = pool.submit(one)
        decided.wait(10)
        seconds = pool.submit(other)
        began.wait(10)
        while not seconds.done() and not _waits(backend[0]):
            time.sleep(0.002)
        go_on.set()
        return [firsts.result(), seconds.result()]


def _waits(backend: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s))", [backend])
        return bool(cursor.fetchone()[0])


def reread(row: Any) -> Any:
    """The row as another page has read it."""
    return type(row).objects.get(pk=row.pk)


class _Policed(HTMLParser):
    """Collects what the content security policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            said = (value or "").strip().lower()
            handler = name == "style" or name.startswith("hx-on") or (name.startswith("on") and len(name) > 2)
            acts = handler or said.startswith(("javascript:", "js:"))
            if acts or (name == "hx-trigger" and "[" in said):
                self.found.append(f"<{tag} {name}={value!r}>")


def forbidden(html: str) -> list[str]:
    """Everything in a page that the policy forbids: inline style and script, handlers, trigger filters."""
    parser = _Policed()
    parser.feed(html)
    return parser.found


def commits(captured: CaptureQueriesContext) -> int:
    """How many transactions ended well while queries were captured."""
    return sum(query["sql"] == "COMMIT" for query in captured.captured_queries)
