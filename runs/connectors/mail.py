"""E-mails through an SMTP server, and their corrections as answers in the same thread.

SMTP takes a message or it doesn't; it can't be asked afterwards. So a lost answer to the message itself stays unknown, and
a person looks into the mailbox, for the Message-ID that is made from the call's key.

Target: `{"system": "mail", "host", "port": 587, "security": "starttls" | "tls" | "none", "from": "Billing <billing@acme.example>",
"user", "token" | "token_env" | "token_file", "internal": ["acme.example"]}`; without `user` nothing signs in. Who reads at
the domains of `internal` is the team; anybody else is a client.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr
from typing import Any

import pydantic

from runs.capability import JSON, Args, Call, Capability, Message, Payload, Place, Reading
from runs.connectors.credentials import credential, credential_name, scrub, short
from runs.connectors.http import Deadline, Unclear, before_sending
from runs.connectors.payload import approved, canonical
from runs.connectors.targets import Target, target
from runs.exceptions import NoEffect, TryLater, Unreadable
from runs.states import Audience, Kind

ADDRESS = r"^[^\s@<>(),;:\\\"\[\]]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,253}$"
ONE_LINE = r"^[^\r\n]*$"
PAUSE = 60.0


class SendMailArgs(Args):
    to: list[pydantic.constr(pattern=ADDRESS)] = pydantic.Field(  # type: ignore[valid-type]
        description="Whom it goes to, as plain addresses.", min_length=1, max_length=20
    )
    subject: str = pydantic.Field(description="The subject, on one line.", min_length=1, max_length=200, pattern=ONE_LINE)
    text: str = pydantic.Field(description="What to say, as plain text.", min_length=1, max_length=20_000)
    in_reply_to: str = pydantic.Field("", description="The Message-ID this answers, with its brackets.", pattern=r"^(<[^\s<>]{3,200}>)?$")
    target: str = pydantic.Field("mail", description="The configured mail server.")


class SendMail(Capability[SendMailArgs]):
    """Send an e-mail."""

    name = "send_mail"
    kind = Kind.IRREVERSIBLE
    lives_in = "mailboxes"
    audience = Audience.PEOPLE
    read_by = "whom it is sent to"
    undo_cost = "none: it is in their mailbox"
    undo_note = "an e-mail can’t be called back"
    undone_when = "never; a correction can follow"
    human_signal = "e-mail “{subject}”"
    what_to_do = "Nothing. Please don’t act on the e-mail “{subject}”."
    reverted_to = "not taken back; this answer follows it"
    title = "send mail"
    identifier = "{subject}"
    connector_version = "mail-1"
    Args = SendMailArgs

    def do(self, call: Call[SendMailArgs]) -> JSON:
        body = approved(call, self.render(call.args))
        at = _target(call.args.target)
        answer = _send(at, body["to"], _message(at, body, key=call.key), call.timeout)
        threads = [body["in_reply_to"]] if body["in_reply_to"] else []
        return {"message_id": message_id(at, call.key), "to": body["to"], "subject": body["subject"], "thread": threads, "answer": answer}

    def probe(self, call: Call[SendMailArgs]) -> JSON | None:
        mark = message_id(_target(call.args.target), call.key)
        raise Unreadable(f"A mail server can't be asked what it sent: look in the mailbox or the server's log for {mark}.")

    def correct(self, call: Call[SendMailArgs], message: Message) -> JSON:
        effect, at = call.effect, _target(call.args.target)
        subject = effect["subject"] if effect["subject"].lower().startswith("re:") else f"Re: {effect['subject']}"
        body = {"to": effect["to"], "subject": subject, "text": message.text}
        thread = [*effect["thread"], effect["message_id"]]
        return _posted(at, effect["to"], _message(at, body, key=message.key, thread=thread), message.key, call.timeout)

    def place(self, call: Call[SendMailArgs]) -> Place:
        effect = call.effect
        return Place(
            key=f"mail:{call.args.target}/{effect['message_id']}",
            label=f"an answer in the e-mail thread “{short(effect['subject'], 80)}”",
            kind="email",
            readers=", ".join(effect["to"]),
            above=call.args.text,
        )

    def render(self, args: SendMailArgs) -> Payload:
        """What the mail says and to whom; only its Message-ID, made from the key, and its date are added when it goes out."""
        at = target(args.target, "mail")
        body = {"from": at["from"], "to": args.to, "subject": args.subject, "text": args.text, "in_reply_to": args.in_reply_to}
        to = {
            "target": at.name,
            "url": f"smtp://{at['host']}:{_port(at)}",
            "account": str(at.get("user", "")),
            "credential": credential_name(at) if at.get("user") else "none",
            "recipient": ", ".join(args.to),
        }
        lines = [f"To: {', '.join(args.to)}", f"Subject: {args.subject}", "", args.text]
        return Payload(to=to, body=canonical(body), title=f"E-mail to {', '.join(args.to)}", as_read="\n".join(lines))

    def classify(self, args: SendMailArgs) -> Reading:
        """Read by clients, unless every address is in one of our own domains."""
        known = _internal(args.target)
        outside = [to for to in args.to if to.rpartition("@")[2].lower() not in known]
        return Reading(audience=Audience.CLIENTS if outside else None, read_by=", ".join(outside or args.to)[:120])

    def audience_name(self, args: SendMailArgs) -> str:
        return ", ".join(sorted(to.lower() for to in args.to))


def note(message: Message, timeout: float) -> JSON:
    """An e-mail to `message.to` (`{"target", "email"}`): a note to one person."""
    with before_sending():
        email = str(message.to.get("email") or "")
        if not email:
            raise NoEffect("Nobody is named to be told: say who owns this audience, and their e-mail address.")
        at = _target(str(message.to.get("target", "mail")))
    body = {"to": [email], "subject": message.subject, "text": message.text}
    return _posted(at, [email], _message(at, body, key=message.key), message.key, timeout)


def message_id(at: Target, key: str) -> str:
    """The same for the same key, so that whoever looks can find it, and a mailbox shows a doubled one as what it is."""
    return f"<sagaboard.{key}@{_domain(at)}>"


def _domain(at: Target) -> str:
    return parseaddr(str(at["from"]))[1].rpartition("@")[2] or "sagaboard.invalid"


def _internal(name: str) -> set[str]:
    try:
        return {str(domain).lower() for domain in target(name, "mail").get("internal", [])}
    except NoEffect:
        return set()


def _target(name: str) -> Target:
    return target(name, "mail")


def _port(at: Target) -> int:
    return int(at.get("port") or (465 if at.get("security") == "tls" else 587))


def _message(at: Target, body: JSON, *, key: str, thread: list[str] | None = None) -> bytes:
    thread = thread if thread is not None else [one for one in [body.get("in_reply_to")] if one]
    mail = EmailMessage(policy=SMTP)
    mail["From"], mail["To"], mail["Subject"] = at["from"], ", ".join(body["to"]), body["subject"]
    mail["Date"], mail["Message-ID"] = formatdate(usegmt=True), message_id(at, key)
    mail["Auto-Submitted"] = "auto-generated"
    if thread:
        mail["In-Reply-To"], mail["References"] = thread[-1], " ".join(thread)
    mail.set_content(body["text"])
    return mail.as_bytes()


def _posted(at: Target, to: list[str], mail: bytes, key: str, timeout: float) -> JSON:
    answer = _send(at, to, mail, timeout)
    return {"id": message_id(at, key), "to": to, "answer": answer, "link": ""}


def _send(at: Target, to: list[str], mail: bytes, timeout: float) -> str:
    """Gives the server the message for all of `to`, or for none of them; returns its words."""
    deadline = Deadline(timeout)
    where = f"“{at.name}” ({at['host']}:{_port(at)})"
    with before_sending():
        secret = credential(at) if at.get("user") else ""
    with _refusing(where, secret):
        smtp = _connect(at, deadline, secret)
    try:
        with _refusing(where, secret):
            _envelope(smtp, at, to, deadline)
        return short(scrub(_data(smtp, mail, where, deadline), secret))
    finally:
        smtp.close()


def _connect(at: Target, deadline: Deadline, secret: str) -> smtplib.SMTP:
    """A connection that is as protected as the target says, and signed in where it names a user."""
    host, security, name = str(at["host"]), at.get("security", "starttls"), _domain(at)
    tls = ssl.create_default_context()
    if security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, _port(at), local_hostname=name, timeout=_left(deadline), context=tls)
    else:
        smtp = smtplib.SMTP(host, _port(at), local_hostname=name, timeout=_left(deadline))
    try:
        smtp.ehlo_or_helo_if_needed()
        if security == "starttls":
            smtp.starttls(context=tls)
        if at.get("user"):
            if security == "none":
                raise NoEffect(f"The target “{at.name}” would send its credential in the clear: set its security to starttls or tls.")
            smtp.login(str(at["user"]), secret)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _envelope(smtp: smtplib.SMTP, at: Target, to: list[str], deadline: Deadline) -> None:
    """All of the addresses or none: a message that half of them got could not be taken for sent or for not sent."""
    _wait_at_most(smtp, deadline)
    for code, said in [smtp.mail(parseaddr(str(at["from"]))[1]), *(smtp.rcpt(one) for one in to)]:
        if code not in (250, 251):
            raise smtplib.SMTPResponseException(code, said)


def _data(smtp: smtplib.SMTP, mail: bytes, where: str, deadline: Deadline) -> str:
    _wait_at_most(smtp, deadline)
    try:
        code, said = smtp.data(mail)
    except smtplib.SMTPDataError as exc:  # refused before a line of it was sent
        raise _refusal(where, exc.smtp_code, exc.smtp_error) from None
    except (OSError, smtplib.SMTPException) as exc:
        raise Unclear(f"{where} took the message and gave no answer ({type(exc).__name__})") from None
    if code != 250:
        raise _refusal(where, code, said)
    return _words(said)


@contextmanager
def _refusing(where: str, secret: str) -> Iterator[None]:
    """Inside, nothing of the message has left: whatever goes wrong, nothing was sent."""
    try:
        yield
    except smtplib.SMTPResponseException as exc:
        raise _refusal(where, exc.smtp_code, scrub(_words(exc.smtp_error), secret)) from None
    except (OSError, smtplib.SMTPException) as exc:
        said = scrub(short(str(exc)), secret) or type(exc).__name__
        raise NoEffect(f"No mail server to be used at {where}: {said}. Nothing was sent. Is it running, and is the target right?") from None


def _refusal(where: str, code: int, said: Any) -> NoEffect:
    words = f"{where} refused the message ({code}: {short(_words(said))}). Nothing was sent."
    return TryLater(words, PAUSE) if 400 <= code < 500 else NoEffect(words)


def _words(said: Any) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _left(deadline: Deadline) -> float:
    if deadline.left() <= 0:
        raise TimeoutError("the time for this call is over")
    return deadline.left()


def _wait_at_most(smtp: smtplib.SMTP, deadline: Deadline) -> None:
    if smtp.sock is not None:
        smtp.sock.settimeout(_left(deadline))
