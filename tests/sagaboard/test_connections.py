"""PostgreSQL lets in as many connections as web and workers may hold, or the migration says that it does not."""

import pytest
from django.core.checks import run_checks

from sagaboard import connections, embedded
from tests.sagaboard.small import reachable_folder


def said():
    return [one.id for one in run_checks(tags=["database"], databases=["default"])]


@pytest.mark.django_db
def test_a_server_that_lets_too_few_in_is_named(monkeypatch):
    assert said() == []
    monkeypatch.setenv("WEB_CONCURRENCY", "20")
    assert said() == ["sagaboard.W01"]
    monkeypatch.setenv("SAGABOARD_WEB_THREADS", "4")
    assert said() == []


def test_the_embedded_server_lets_in_what_is_configured(monkeypatch):
    monkeypatch.setenv("WEB_CONCURRENCY", "20")
    with reachable_folder() as state:
        embedded.state_folder.make(state)
        argv = [str(word) for word in embedded.postgres(state).process.argv]
    most = next(int(word.partition("=")[2]) for word in argv if word.startswith("max_connections="))
    assert most > 20 * 32
    assert most > connections.needed()
