"""Reviewers hear of what waits for them: each once, at their hours, with nothing secret in it, and webhooks signed."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from outbox import notices, services, telling
from outbox.models import Item, Notice
from outbox.receivers import tell_reviewers
from outbox.states import NoticeKind
from runs import bell
from sagaboard import env
from tests.factories import make_user
from tests.outbox.scenes import item_of, make_released
from tests.outbox.test_reject import expired

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "whsec_" + base64.b64encode(b"a key of 24 bytes or more").decode()


@pytest.fixture
def run(token, alice):
    return make_released(token=token, why="The password is hunter2.")


def sweep_and_tell():
    notices.plan()
    telling.tell()


def later(**by):
    """As if time had passed."""
    Notice.objects.update(due_at=timezone.now() - dt.timedelta(seconds=1), **by)


def mails_to(person):
    return [one for one in mail.outbox if one.to == [person.email]]


def test_a_reviewer_gets_one_mail_for_all_that_came_and_no_second_one(run, alice, bob):
    for _ in range(3):
        sweep_and_tell()
    (told,) = mails_to(alice)
    assert told.subject == "2 calls wait for a decision"
    assert f"/outbox/{item_of(run, 'tell').pk}/" in told.body
    assert mails_to(bob) == []


def test_nothing_secret_and_no_word_of_an_agent_is_in_it(run, alice, settings, receiver):
    settings.SAGABOARD_WEBHOOKS = {"chat": {"url": receiver.url, "secret": SECRET}}
    Item.objects.update(told_for=None)
    sweep_and_tell()
    said = mails_to(alice)[0].subject + mails_to(alice)[0].body + b"".join(body for _, body in receiver.got).decode()
    for word in ("hunter2", "news", "ready", "Tell the client", "billing field", run.token.name, "client.example"):
        assert word not in said


def test_links_lead_to_the_page_and_decide_nothing(run, alice, client):
    sweep_and_tell()
    client.force_login(alice)
    for word in mails_to(alice)[0].body.split():
        if word.startswith("http"):
            assert client.get(word).status_code == 200
    assert set(Item.objects.values_list("state", flat=True)) == {"awaiting"}


def test_reminders_go_out_at_their_times_each_once_and_reach_others_at_the_end(run, alice, team):
    oncall = make_user("otto", roles=("on-call",), team=team)
    notices.plan()
    item = item_of(run, "tell")
    begun, ends = item.awaiting_since, item.expires_at
    mine = {one.kind: one.due_at for one in Notice.objects.filter(item=item, person=alice)}
    assert mine[NoticeKind.WAITING] == begun
    assert mine[NoticeKind.REMINDER] == begun + (ends - begun) / 2
    assert mine[NoticeKind.ENDING] == ends - dt.timedelta(minutes=30)
    told_at_the_end = set(Notice.objects.filter(item=item, kind=NoticeKind.ENDING).values_list("person", flat=True))
    assert told_at_the_end == {alice.pk, oncall.pk, run.owner_id}
    later()
    for _ in range(3):
        sweep_and_tell()
    assert len(mails_to(alice)) == len(mails_to(oncall)) == 1
    assert not Notice.objects.filter(delivered_at=None).exists()


def test_what_was_decided_meanwhile_is_not_told(run, alice, team):
    carol = make_user("carol", roles=("reviewer",), team=team)
    notices.plan()
    for ref in ("tell", "also"):
        services.approve(item_of(run, ref), digest=item_of(run, ref).digest, by=alice)
    later()
    telling.tell()
    assert mails_to(carol) == []
    assert set(Notice.objects.values_list("error", flat=True)) == {"it waited no longer"}


def test_who_may_not_decide_any_more_is_not_told(run, alice):
    notices.plan()
    alice.groups.clear()
    telling.tell()
    assert mails_to(alice) == []


def test_asked_again_it_is_told_again(run, alice):
    sweep_and_tell()
    expired(run)
    for item in Item.objects.filter(step__run=run):
        services.ask_again(item, by=run.owner)
    sweep_and_tell()
    assert len(mails_to(alice)) == 2


@pytest.mark.parametrize("how", ["the mail server is down", "the process is lost"])
def test_a_mail_that_did_not_go_is_tried_again_later(run, alice, monkeypatch, how):
    def lost(self):
        raise ConnectionRefusedError("no mail server") if how == "the mail server is down" else KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("django.core.mail.EmailMessage.send", lost)
        with contextlib.suppress(KeyboardInterrupt):
            sweep_and_tell()
    waiting = Notice.objects.filter(delivered_at=None, person=alice, kind=NoticeKind.WAITING)
    assert {one.attempts for one in waiting} == {1}
    assert all(one.due_at > timezone.now() for one in waiting)
    telling.tell()
    assert mails_to(alice) == []
    waiting.update(due_at=timezone.now())
    telling.tell()
    assert len(mails_to(alice)) == 1


def test_nobody_else_sends_what_one_process_has_taken(run, alice):
    notices.plan()
    assert len(telling._take(person=alice)) == 2
    telling.tell()
    assert mails_to(alice) == []


def test_who_wants_no_mail_gets_none(run, alice):
    alice.mail = "none"
    alice.save()
    sweep_and_tell()
    assert mails_to(alice) == []


def at(person, moment, **wishes):
    for name, value in {"time_zone": "Europe/Zurich", "mail": "at_once", **wishes}.items():
        setattr(person, name, value)
    return notices.due_for(person, dt.datetime.fromisoformat(moment).replace(tzinfo=dt.UTC)).strftime("%d %H:%M")


@pytest.mark.parametrize(
    ("moment", "wishes", "due"),
    [
        ("2026-11-30 10:00", {}, "30 10:00"),
        ("2026-11-30 22:30", {"quiet_from": dt.time(22), "quiet_until": dt.time(7)}, "01 06:00"),
        ("2026-11-30 05:30", {"quiet_from": dt.time(22), "quiet_until": dt.time(7)}, "30 06:00"),
        ("2026-11-30 06:00", {"quiet_from": dt.time(22), "quiet_until": dt.time(7)}, "30 06:00"),
        ("2026-11-30 11:30", {"quiet_from": dt.time(12), "quiet_until": dt.time(13)}, "30 12:00"),
        ("2026-11-30 10:00", {"mail": "digest", "digest_hour": 9}, "01 08:00"),
        ("2026-11-30 05:00", {"mail": "digest", "digest_hour": 9}, "30 08:00"),
        ("2026-11-30 05:00", {"mail": "digest", "digest_hour": 6, "quiet_from": dt.time(22), "quiet_until": dt.time(7)}, "30 06:00"),
    ],
)
def test_quiet_hours_and_the_daily_mail_are_of_the_persons_own_zone(moment, wishes, due):
    from sagaboard.accounts.models import User

    assert at(User(username="x"), moment, **wishes) == due


@pytest.fixture
def receiver():
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.server.got.append((dict(self.headers), body))
            self.send_response(self.server.answer)
            self.send_header("location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.answer, server.url = [], 204, f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_is_called_once_signed_as_standard_webhooks_has_it(run, settings, receiver):
    settings.SAGABOARD_WEBHOOKS = {"chat": {"url": receiver.url, "secret": SECRET}}
    for _ in range(2):
        sweep_and_tell()
    assert len(receiver.got) == 2
    headers, body = receiver.got[0]
    headers = {name.lower(): value for name, value in headers.items()}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(b"a key of 24 bytes or more", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    said = json.loads(body)
    assert said["type"] == "item.waiting"
    assert set(said["data"]) == {"item", "run", "step", "capability", "audience", "gate", "waiting_since", "expires_at", "url"}


@pytest.mark.parametrize("answer", [500, 404, 302])
def test_a_webhook_that_did_not_take_it_is_called_again_under_the_same_id(run, settings, receiver, answer):
    settings.SAGABOARD_WEBHOOKS = {"chat": {"url": receiver.url, "secret": SECRET}}
    receiver.answer = answer
    sweep_and_tell()
    assert {one.error for one in Notice.objects.filter(webhook="chat", kind=NoticeKind.WAITING)} == {f"it answered {answer}"}
    receiver.answer = 200
    Notice.objects.filter(webhook="chat", kind=NoticeKind.WAITING).update(due_at=timezone.now())
    telling.tell()
    ids = [headers.get("webhook-id") or headers.get("Webhook-Id") for headers, _ in receiver.got]
    assert sorted(ids[:2]) == sorted(ids[2:])
    assert not Notice.objects.filter(webhook="chat", kind=NoticeKind.WAITING, delivered_at=None).exists()


def test_a_published_example_of_a_signature_comes_out_the_same():
    # From the specification of Standard Webhooks.
    secret, name, moment = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert telling.signature(secret, name, moment, b'{"test": 2432232314}') == expected


@pytest.mark.parametrize(
    "wrong", ['{"chat": {"url": "x", "secret": "whsec_' + "A" * 40 + '"}}', '{"chat": {"url": "https://x.example"}}', '{"chat": 7}']
)
def test_a_webhook_that_cannot_work_is_refused_at_start_up(monkeypatch, wrong):
    monkeypatch.setenv("SAGABOARD_WEBHOOKS", wrong)
    with pytest.raises(ImproperlyConfigured, match="chat"):
        env.webhooks("SAGABOARD_WEBHOOKS")


def test_the_sweep_plans_and_calls_a_worker(run, alice, monkeypatch):
    rung = []
    monkeypatch.setattr(bell, "ring", lambda task, *ids: rung.append(task))
    tell_reviewers(None)
    assert rung == ["outbox.tasks.tell_reviewers"]
    assert Notice.objects.filter(person=alice).exists()


def test_a_person_says_how_to_be_told(client, alice):
    client.force_login(alice)
    wishes = {"theme": "", "time_zone": "UTC", "mail": "digest", "digest_hour": 7, "quiet_from": "22:00", "quiet_until": "06:30"}
    assert client.post("/me/", wishes).status_code == 302
    alice.refresh_from_db()
    assert (alice.mail, alice.digest_hour, alice.quiet_until) == ("digest", 7, dt.time(6, 30))
    page = client.get("/me/").content.decode()
    assert 'value="22:00"' in page
    for wrong in ({"digest_hour": 24}, {"quiet_until": ""}, {"mail": "pigeon"}):
        assert client.post("/me/", {**wishes, **wrong}).status_code == 422
