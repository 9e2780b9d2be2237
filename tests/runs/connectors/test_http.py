"""The three answers a call can get, told apart; and that nothing is retried, followed, or read without bound."""

import datetime as dt
import socket
import threading
import time
from contextlib import contextmanager, suppress
from email.utils import format_datetime

import pytest

from runs.connectors.credentials import credential, credential_name, scrub, short
from runs.connectors.http import MAX_ANSWER, Unclear, before_sending, looking, pause, service
from runs.connectors.targets import target
from runs.exceptions import NoEffect, TryLater, Unreadable

from .calls import configured


def shelf(name="shelf-plain", timeout=5.0):
    at = target(name, "shelf")
    token = credential(at)
    return service(at, {"Authorization": f"Bearer {token}"}, timeout, token)


def put(**given):
    return shelf(**given).send("PUT", "/items/lamp", {"lit": True}, headers={"Idempotency-Key": "key-1"})


def test_an_accepted_call_gives_its_answer_and_has_one_effect(world):
    assert put().status == 201
    assert len(world.effects("shelf-plain")) == 1


def test_a_wrong_credential_is_a_refusal_that_says_which(world, settings):
    configured(settings, "shelf-plain", token_file=None, token="s3cret")
    with pytest.raises(NoEffect, match=r"“shelf-plain” .* refused the credential \(401") as caught:
        put()
    assert "s3cret" not in caught.value.reason
    assert not world.effects()


def test_a_dead_host_is_a_refusal_since_nothing_was_sent(settings):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        settings.SAGABOARD_TARGETS = {"dead": {"system": "shelf", "base_url": f"http://127.0.0.1:{unused.getsockname()[1]}", "token": "x"}}
        with pytest.raises(NoEffect, match="Nothing answers at .*Is it running"):
            put(name="dead")


@pytest.mark.parametrize(("status", "headers", "after"), [(429, {"Retry-After": "30"}, 30), (503, {"Retry-After": "7"}, 7), (429, {}, 10)])
def test_slow_down_is_try_later_with_its_pause_and_is_asked_once(world, status, headers, after):
    world.fault("shelf-plain", effect=False, status=status, headers=headers)
    with pytest.raises(TryLater) as caught:
        put()
    assert caught.value.after == after
    assert len(world.ledger("shelf-plain")) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 302, 303])
def test_an_answer_that_may_follow_an_effect_is_unclear_and_never_repeated(world, status):
    world.fault("shelf-plain", status=status)
    with pytest.raises(Unclear):
        put()
    assert len(world.ledger("shelf-plain")) == 1
    assert len(world.effects("shelf-plain")) == 1


@pytest.mark.parametrize("status", [400, 404, 409, 412, 422])
def test_a_refusal_before_acceptance_says_what_the_target_said(world, status):
    world.fault("shelf-plain", effect=False, status=status, data={"message": "the shelf is full"})
    with pytest.raises(NoEffect, match=rf"refused the call \({status}\): the shelf is full"):
        put()


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_not_followed_and_says_what_to_correct(world, status):
    world.fault("shelf-plain", effect=False, status=status, headers={"Location": f"{world.url}/shelf-blind/items/lamp"})
    with pytest.raises(NoEffect, match="correct its base_url"):
        put()
    assert not world.ledger("shelf-blind")


@pytest.mark.parametrize("answer", ["drop", "cut"])
def test_a_connection_lost_after_the_call_left_is_unclear(world, answer):
    world.fault("shelf-plain", answer=answer)
    with pytest.raises(Unclear, match="took the call and gave no answer"):
        put()
    assert len(world.effects("shelf-plain")) == 1


def test_a_call_that_is_taken_and_never_answered_ends_unclear_within_its_timeout(world):
    world.fault("shelf-plain", answer="hang", hang_for=3)
    began = time.monotonic()
    with pytest.raises(Unclear):
        put(timeout=0.5)
    assert time.monotonic() - began < 1.5
    assert len(world.ledger("shelf-plain")) == 1


@contextmanager
def server_that_goes_on(settings, head, forever, pause):
    """A server that answers one connection with `head` and then with `forever`, again and again: the target “slow”."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def answer():
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(head)
            while not stop.wait(pause):
                connection.sendall(forever)

    thread = threading.Thread(target=answer)
    thread.start()
    settings.SAGABOARD_TARGETS = {"slow": {"system": "shelf", "base_url": f"http://127.0.0.1:{listener.getsockname()[1]}", "token": "x"}}
    try:
        yield
    finally:
        stop.set()
        thread.join()
        listener.close()


def test_an_answer_that_drips_cant_outlast_the_timeout(settings):
    with server_that_goes_on(settings, b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n", 0.05):
        began = time.monotonic()
        with pytest.raises(Unclear):
            put(name="slow", timeout=0.6)
        assert time.monotonic() - began < 1.5


def test_an_answer_without_end_is_read_up_to_the_bound_only(settings):
    with server_that_goes_on(settings, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, 0):
        assert len(put(name="slow", timeout=20).body) == MAX_ANSWER


def test_the_looks_of_one_call_share_its_time(world):
    world.fault("shelf-plain", delay_before=0.35, times=0)
    one_call = shelf(timeout=0.6)
    one_call.read("/items/lamp", absent=True)
    with pytest.raises(Unreadable):
        one_call.read("/items/lamp", absent=True)


def test_an_answer_beyond_all_bounds_is_cut(world):
    world.fault("shelf-plain", data={"blob": "x" * (MAX_ANSWER + 10)}, status=200)
    lamp = shelf()
    answer = lamp.send("PUT", "/items/lamp", {})
    assert len(answer.body) == MAX_ANSWER
    with pytest.raises(Unclear):
        lamp.parse(answer)


def test_a_proxy_in_the_environment_is_not_used(world, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert put().status == 201


def test_a_look_says_absent_only_on_404_and_only_where_it_is_asked(world):
    assert shelf().read("/items/lamp", absent=True) is None
    with pytest.raises(Unreadable):
        shelf().read("/items/lamp")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 301])
def test_a_look_that_isnt_answered_is_unreadable_not_absent(world, status):
    world.fault("shelf-plain", status=status)
    with pytest.raises(Unreadable):
        shelf().read("/items/lamp", absent=True)


def test_a_look_at_a_dead_host_or_without_credential_is_unreadable(world, settings):
    configured(settings, "shelf-plain", base_url="http://127.0.0.1:9")
    with pytest.raises(Unreadable):
        shelf().read("/items/lamp", absent=True)
    configured(settings, "shelf-plain", token_file="/nowhere/token")
    with pytest.raises(Unreadable, match="can't be read"), looking():
        credential(target("shelf-plain", "shelf"))


def test_a_look_before_sending_that_is_told_to_slow_down_is_try_later(world):
    world.fault("shelf-plain", status=429, headers={"Retry-After": "12"})
    with pytest.raises(TryLater) as caught, before_sending():
        shelf().read("/items/lamp")
    assert caught.value.after == 12


def test_what_a_target_quotes_of_our_secret_is_hidden(world):
    token = credential(target("shelf-plain", "shelf"))
    world.fault("shelf-plain", effect=False, status=403, data={"message": f"{token} has no rights"})
    with pytest.raises(NoEffect) as caught:
        put()
    assert token not in caught.value.reason
    assert "••• has no rights" in caught.value.reason


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("30", 30), ("0", 1), ("-5", 1), ("1e9", 3600), ("nan", 1), ("inf", 3600), ("soon", 10), ("", 10)],
)
def test_a_pause_is_believed_within_reason(header, seconds):
    assert pause(header) == seconds


def test_a_pause_may_be_a_date():
    assert 50 <= pause(format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1))) <= 60


def test_a_credential_comes_from_a_file_the_environment_or_the_setting_and_shows_only_its_name(settings, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("SHELF_TOKEN", "from-env")
    settings.SAGABOARD_TARGETS = {
        "a": {"system": "shelf", "token_file": str(tmp_path / "token")},
        "b": {"system": "shelf", "token_env": "SHELF_TOKEN"},
        "c": {"system": "shelf", "token": "from-setting"},
    }
    found = [target(name, "shelf") for name in "abc"]
    assert [credential(at) for at in found] == ["from-file", "from-env", "from-setting"]
    assert [credential_name(at) for at in found] == ["file “token”", "variable SHELF_TOKEN", "token of c"]


def test_a_missing_credential_says_what_to_set(settings):
    settings.SAGABOARD_TARGETS = {"b": {"system": "shelf", "token_env": "NOT_SET_ANYWHERE"}, "c": {"system": "shelf"}}
    with pytest.raises(NoEffect, match="NOT_SET_ANYWHERE"):
        credential(target("b", "shelf"))
    with pytest.raises(NoEffect, match="SAGABOARD_TARGETS"):
        credential(target("c", "shelf"))


def test_texts_are_scrubbed_and_short():
    assert scrub("a b c", "b", "") == "a ••• c"
    assert short("a\n b" + "c" * 500, 10) == "a bcccccc…"
