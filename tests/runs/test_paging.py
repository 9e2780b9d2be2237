"""Pages: written down with what they tell of, delivered by mail and into services, tried again until they are taken."""

import datetime as dt
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.utils import timezone

from runs import checks, freezing, tasks
from runs.engine import deliver
from runs.locking import locked_run
from runs.models import Page
from runs.paging import page
from tests.factories import make_run
from tests.faults.broker import Broker
from tests.helpers import run_together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(token, alice):
    run = make_run(token=token)
    with locked_run(run.pk) as locked:
        page(locked, "stuck", "look at it", people=[alice])
    return run


def later():
    Page.objects.update(due_at=timezone.now(), lease_until=None)


class Apprise:
    """Stands in for the library, which is an extra: what was told where."""

    told, takes = [], True

    def __init__(self):
        self.urls = []

    def add(self, url):
        self.urls.append(url)
        return url.startswith("ops://")

    def notify(self, *, title, body):
        Apprise.told.append((self.urls[0], title))
        return Apprise.takes


@pytest.fixture
def service(settings, monkeypatch):
    Apprise.told, Apprise.takes = [], True
    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=Apprise))
    settings.PAGE_SERVICES = {"ops": {"url": "ops://token@host", "teams": ["billing"]}, "others": {"url": "ops://x", "teams": ["sales"]}}


def test_a_page_that_is_not_taken_is_tried_later_and_later(run, monkeypatch):
    monkeypatch.setattr(EmailMessage, "send", lambda self: (_ for _ in ()).throw(OSError("no mail server")))
    waits = []
    for _ in range(3):
        deliver.pages_due()
        found = Page.objects.get()
        waits.append((found.due_at - timezone.now()).total_seconds())
        later()
    assert (found.attempt, found.error, found.delivered_at) == (3, "no mail server", None)
    assert waits[0] < waits[1] < waits[2]


def test_of_many_who_deliver_at_once_one_does(run):
    run_together(*[deliver.pages_due] * 4)
    assert len(mail.outbox) == 1
    assert Page.objects.get().receipt == "taken by the mail server"


def test_a_worker_killed_while_it_sends_costs_a_second_page_that_says_so_and_never_a_lost_one(run):
    held = deliver._take(Page.objects.get().pk)
    deliver.pages_due()
    assert mail.outbox == []  # it is being sent, for all that anybody knows
    later()
    deliver.pages_due()
    deliver.pages_due()
    (sent,) = mail.outbox
    assert "an earlier attempt was cut off" in sent.body
    assert sent.extra_headers["Message-ID"] == f"<page-{held.pk}@sagaboard>"
    # The first one comes back at last: it changes nothing.
    deliver._record(held, delivered_at=None, error="late")
    assert Page.objects.get().error == ""


def test_whoever_has_no_address_is_not_called_delivered(run, alice):
    alice.email = ""
    alice.save()
    deliver.pages_due()
    found = Page.objects.get()
    assert (found.delivered_at, "no address" in found.error) == (None, True)
    alice.email = "alice@example.com"
    alice.save()
    later()
    deliver.pages_due()
    assert [message.to for message in mail.outbox] == [["alice@example.com"]]


def test_on_call_is_paged_in_the_teams_services_too_each_once(token, alice, service):
    run = make_run(token=token)
    with locked_run(run.pk) as locked:
        page(locked, "stuck", "look at it")
    assert run.entries.get(event="run.paged").data["people"] == ["Alice Ahn", "ops"]
    for _ in range(2):
        deliver.pages_due()
    assert Apprise.told == [("ops://token@host", f"Run {run.number}: stuck")]
    assert len(mail.outbox) == 1
    assert Page.objects.get(service="ops").receipt == "taken by ops"
    assert not Page.objects.filter(body__contains="token@host").exists()


@pytest.fixture
def receiver():
    """Takes what services are told, and answers as `answers` says: first a 500, then it takes all."""

    class Receiver(BaseHTTPRequestHandler):
        told, answers = [], [500]

        def do_POST(self):  # noqa: N802
            self.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(self.answers.pop(0) if self.answers else 200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    Receiver.port = server.server_port
    yield Receiver
    server.shutdown()
    server.server_close()
    thread.join()


def test_apprise_itself_tells_a_service_that_fails_once_more_and_then_no_more(token, receiver, settings):
    settings.PAGE_SERVICES = {"ops": {"url": f"json://127.0.0.1:{receiver.port}/page"}}
    run = make_run(token=token)
    with locked_run(run.pk) as locked:
        page(locked, "stuck", "look at it")
    deliver.pages_due()
    found = Page.objects.get(service="ops")
    assert (len(receiver.told), found.delivered_at, found.error, found.attempt) == (1, None, "“ops” did not take it", 1)
    assert found.due_at > timezone.now()
    for _ in range(3):
        later()
        deliver.pages_due()
    found = Page.objects.get(service="ops")
    assert (found.receipt, found.error, found.attempt) == ("taken by ops", "", 2)
    first, second = receiver.told
    assert first["title"] == second["title"] == f"Run {run.number}: stuck"
    assert "look at it" in second["message"]
    assert run.get_absolute_url() in second["message"]
    assert deliver.AGAIN.strip() not in second["message"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"takes": False}, "did not take it"),
        ({"url": "nonsense"}, "does not understand the address"),
        ({"gone": True}, "names no “ops” any more"),
        ({"missing": True}, "install the extra, sagaboard[services]"),
    ],
)
def test_a_service_that_does_not_take_it_says_why_and_it_stays_due(token, service, settings, monkeypatch, changed, says):
    run = make_run(token=token)
    with locked_run(run.pk) as locked:
        page(locked, "stuck", "look at it")
    Apprise.takes = changed.get("takes", True)
    if "url" in changed:
        settings.PAGE_SERVICES = {"ops": {"url": changed["url"]}}
    if changed.get("gone"):
        settings.PAGE_SERVICES = {}
    if changed.get("missing"):
        monkeypatch.setitem(sys.modules, "apprise", None)
    deliver.pages_due()
    found = Page.objects.get(service="ops")
    assert (found.delivered_at, says in found.error, found.due_at > timezone.now()) == (None, True, True)


def test_services_without_the_extra_are_an_error_at_start_up(settings, monkeypatch):
    assert checks.services_can_be_paged(None) == []
    settings.PAGE_SERVICES = {"ops": {"url": "ops://x"}}
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    (error,) = checks.services_can_be_paged(None)
    assert "sagaboard[services]" in error.hint


def test_pages_go_out_while_everything_is_frozen(run, monkeypatch):
    freezing.freeze(by="Alice", why="restored")
    broker = Broker(monkeypatch)
    tasks.sweep()
    broker.deliver()
    assert len(mail.outbox) == 1


def test_the_run_page_shows_who_was_called_and_whether_it_came(run, client, alice, monkeypatch):
    client.force_login(alice)
    path = f"/runs/{run.number}/"
    assert "on its way" in client.get(path).content.decode()
    monkeypatch.setattr(EmailMessage, "send", lambda self: (_ for _ in ()).throw(OSError("no mail server")))
    deliver.pages_due()
    assert "not delivered, 1 try: no mail server" in client.get(path).content.decode()
    monkeypatch.undo()
    later()
    deliver.pages_due()
    assert "taken by the mail server" in client.get(path).content.decode()


def test_admins_list_what_was_not_delivered(run, client, admin_user):
    client.force_login(admin_user)
    listed = client.get("/admin/runs/page/", {"delivered_at__isempty": "1"}).content.decode()
    assert f"Run {run.number}: stuck" in listed


def test_a_page_has_exactly_one_reader(run, alice):
    from django.db import IntegrityError

    for readers in ({}, {"person": alice, "service": "ops"}):
        with pytest.raises(IntegrityError, match="page_one_reader"):
            Page.objects.create(run=run, subject="x", body="x", due_at=timezone.now() + dt.timedelta(days=1), **readers)
