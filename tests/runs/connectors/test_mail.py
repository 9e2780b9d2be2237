"""send_mail, its correction in the same thread, and notes by e-mail, through a real SMTP conversation."""

import dataclasses
import json
import ssl
import subprocess

import pytest

from runs.capability import Message
from runs.connectors import mail, notes
from runs.connectors.http import Unclear
from runs.connectors.mail import SendMail
from runs.exceptions import NoEffect, TryLater, Unreadable
from runs.states import Audience, Kind
from tests.smtp import MailServer

from .calls import call_of, configured, done

SEND = SendMail()
NOTE = {"target": "mail", "email": "meera@acme.example"}


@pytest.fixture
def server(settings):
    found = MailServer()
    settings.SAGABOARD_TARGETS = {"mail": found.target()}
    yield found
    found.stop()


def send(to=("ana@acme.example", "sam@halden.example"), subject="Billing field", text="It is in review.\n.\nBye", **given):
    return call_of(SEND, to=list(to), subject=subject, text=text, **given)


def test_a_mail_reaches_everybody_once_as_it_was_rendered(server):
    call = send()
    rendered = SEND.render(call.args)
    call = done(SEND, dataclasses.replace(call, payload=rendered))
    (taken,) = server.taken
    body = json.loads(rendered.body)
    assert server.envelopes == [("billing@acme.example", body["to"])]
    assert (taken["To"], taken["Subject"], taken["From"]) == (", ".join(body["to"]), body["subject"], body["from"])
    assert taken.get_content().splitlines() == body["text"].splitlines()
    assert taken["Message-ID"] == call.effect["message_id"] == "<sagaboard.key-1@acme.example>"
    assert taken["In-Reply-To"] is None
    assert call.effect["answer"] == "OK queued as 4F2A"
    assert SEND.fill(SEND.human_signal, call.effect) == "e-mail “Billing field”"


def test_the_correction_is_an_answer_in_the_same_thread(server):
    call = done(SEND, send(in_reply_to="<first@halden.example>"))
    posted = SEND.correct(call, Message("[Automated correction - run 7]\nGrüße", key="c1"))
    original, reply = server.taken
    assert (reply["Subject"], reply["To"]) == ("Re: Billing field", original["To"])
    assert reply["In-Reply-To"] == original["Message-ID"]
    assert reply["References"] == f"<first@halden.example> {original['Message-ID']}"
    assert posted["id"] == reply["Message-ID"] != original["Message-ID"]
    assert "Grüße" in reply.get_content()


@pytest.mark.parametrize("moment", ["connect", "mail", "rcpt sam@halden.example", "data", "taken"])
@pytest.mark.parametrize(("answer", "kind"), [("550 no", NoEffect), ("451 later", TryLater)])
def test_out_03_what_the_server_refuses_was_not_sent(server, moment, answer, kind):
    server.fault = {moment: answer}
    with pytest.raises(kind, match="Nothing was sent"):
        SEND.do(send())
    assert server.taken == []


@pytest.mark.parametrize("moment", ["connect", "ehlo", "mail", "rcpt ana@acme.example"])
def test_a_connection_lost_before_the_message_left_is_no_effect(server, moment):
    server.fault = {moment: "drop"}
    with pytest.raises(NoEffect, match="Nothing was sent"):
        SEND.do(send())


def test_out_03_a_lost_answer_is_unknown_and_nothing_can_look(server):
    server.fault = {"taken": "drop"}
    with pytest.raises(Unclear):
        SEND.do(send())
    assert len(server.taken) == 1
    with pytest.raises(Unreadable, match=r"<sagaboard\.key-1@acme\.example>"):
        SEND.probe(send())
    assert not SEND.has("probe_correction")


def test_a_dead_server_and_a_missing_target_are_refusals_a_person_can_act_on(server, settings):
    dead = MailServer()
    dead.stop()
    configured(settings, "mail", port=dead.port)
    with pytest.raises(NoEffect, match="Is it running"):
        SEND.do(send())
    with pytest.raises(NoEffect, match="There are: mail"):
        SEND.do(send(target="post"))


def test_a_credential_never_goes_in_the_clear(server, settings):
    configured(settings, "mail", user="billing", token="s3cret")
    with pytest.raises(NoEffect, match="in the clear") as refused:
        SEND.do(send())
    assert "s3cret" not in str(refused.value)
    configured(settings, "mail", security="starttls", user="billing", token="s3cret")
    with pytest.raises(NoEffect, match="STARTTLS"):
        SEND.do(send())
    assert server.taken == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of a server at 127.0.0.1, signed by nobody else."""
    folder = tmp_path_factory.mktemp("tls")
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2"]
    named = ["-subj", "/CN=mail", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *made, *named], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def signed_in(settings, certificate):
    """A server that takes mail only over TLS and from whoever signs in, and our target for it."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    found = MailServer(tls, billing="s3cret")
    settings.SAGABOARD_TARGETS = {"mail": found.target(security="starttls", user="billing", token="s3cret")}
    yield found
    found.stop()


def test_over_tls_it_signs_in_and_the_mail_is_taken(signed_in, settings, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    done(SEND, send())
    assert len(signed_in.taken) == 1
    configured(settings, "mail", token="wr0ng")
    with pytest.raises(NoEffect, match="refused the message \\(535") as refused:
        SEND.do(send())
    assert "wr0ng" not in str(refused.value)
    assert len(signed_in.taken) == 1


def test_a_server_that_nobody_vouches_for_gets_neither_the_mail_nor_the_credential(signed_in):
    with pytest.raises(NoEffect, match="CERTIFICATE_VERIFY_FAILED"):
        SEND.do(send())
    assert signed_in.taken == []


def test_whoever_is_not_of_our_domains_is_a_client(server, settings):
    assert SEND.kind == Kind.IRREVERSIBLE
    assert SEND.classify(send().args).audience == Audience.CLIENTS
    assert SEND.classify(send(to=["Ana@ACME.example".lower()]).args).audience is None
    settings.SAGABOARD_TARGETS = {}
    assert SEND.classify(send(to=["ana@acme.example"]).args).audience == Audience.CLIENTS


@pytest.mark.parametrize("subject", ["a\nBcc: x@y.example", "a\r\nb", ""])
def test_a_subject_adds_no_header(server, subject):
    with pytest.raises(ValueError, match="subject"):
        send(subject=subject)


@pytest.mark.parametrize("to", [["a b@acme.example"], ["x@y.example\nBcc: z@y.example"], ["<a@b>"], [], ["nobody"]])
def test_an_address_is_one_address(server, to):
    with pytest.raises(ValueError, match="to"):
        send(to=to)


def test_a_note_by_mail_reaches_its_person_and_cannot_be_looked_for(server):
    posted = notes.note(Message("It was premature.", key="n1", subject="Correction, run 7", to=NOTE), 5)
    (taken,) = server.taken
    assert (taken["To"], taken["Subject"], taken["Message-ID"]) == ("meera@acme.example", "Correction, run 7", posted["id"])
    assert not notes.can_look(NOTE)
    assert notes.can_look({"target": "chat", "user": "U1"})
    assert notes.replies(Message("", key="n1", to=NOTE), posted, 5) is None


def test_a_note_to_nobody_is_refused(server):
    with pytest.raises(NoEffect, match="Nobody is named"):
        mail.note(Message("x", key="n1", to={"target": "mail"}), 5)
