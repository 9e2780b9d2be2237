"""PostgreSQL lets in as many connections as web and workers may hold, or the migration says that it does not; and what is said then."""

import pytest
from django.core.checks import run_checks
from django.db import connection
from django.test import Client

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


@pytest.fixture
def shut(monkeypatch):
    """PostgreSQL lets nobody in: no server listens on the first port of all."""

    with monkeypatch.context() as patched:

        def shut():
            connection.close()
            patched.setitem(connection.settings_dict, "PORT", "1")

        yield shut


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/runs/", "/runs/1/", "/outbox/", "/me/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_who_finds_no_connection_is_told_to_come_again(alice, token, shut, path, method):
    person, agent = Client(raise_request_exception=False), Client(raise_request_exception=False)
    person.force_login(alice)
    shut()
    answer = getattr(person, method)(path)
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "The database lets nobody else in at the moment." in answer.content.decode()
    said = getattr(agent, method)("/api/v1/runs/1", headers={"Authorization": f"Bearer {token.text}"})
    if method == "get":
        assert (said.status_code, said["Retry-After"], said.json()["type"]) == (503, "2", "/problems/busy")


@pytest.mark.django_db(transaction=True)
def test_what_breaks_while_connected_is_no_matter_of_coming_again(alice, monkeypatch):
    person = Client(raise_request_exception=False)
    person.force_login(alice)
    monkeypatch.setattr("runs.views.lists.board", lambda *given: 1 / 0)
    answer = person.get("/runs/")
    assert answer.status_code == 500
    assert "may or may not have been done" in answer.content.decode()
