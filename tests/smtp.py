"""A mail server for tests: aiosmtpd on a port of its own, which keeps what it took and fails as it is told to."""

from __future__ import annotations

import asyncio
import ssl
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

# The two answers that aiosmtpd gives without asking its handler.
UNASKED = {"220": "connect", "354": "data"}


class Server(SMTP):
    async def push(self, status: Any) -> None:
        moment = UNASKED.get(str(status)[:3])
        await super().push(await self.event_handler.says(self, moment, status) if moment else status)


class MailServer(Controller):
    """`fault` names a moment ("connect", "mail", "rcpt ADDRESS", "data", "taken") and what happens then: an answer, or "drop"."""

    def __init__(self, tls: ssl.SSLContext | None = None, **people: str) -> None:
        self.taken: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.fault: dict[str, str] = {}
        # By name, with their passwords; without any, nobody has to sign in.
        self.people = people
        super().__init__(
            self, hostname="127.0.0.1", port=0, tls_context=tls, authenticator=self.knows, auth_required=bool(people), ident="ready"
        )
        self.start()

    def factory(self) -> SMTP:
        return Server(self.handler, **self.SMTP_kwargs)

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()

    def target(self, **options: object) -> dict[str, object]:
        given = {"host": "127.0.0.1", "port": self.port, "security": "none", "from": "Billing <billing@acme.example>"}
        return {"system": "mail", "internal": ["acme.example"], **given, **options}

    def knows(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: LoginPassword) -> AuthResult:
        password = self.people.get(given.login.decode())
        return AuthResult(success=password is not None and given.password == password.encode(), handled=False)

    async def says(self, smtp: SMTP, moment: str, usual: Any) -> Any:
        said = self.fault.get(moment, usual)
        if said == "drop":
            smtp.transport.abort()
            # The loss of the connection ends the conversation here.
            await asyncio.Future()
        return said

    async def handle_EHLO(self, smtp: SMTP, session: Session, envelope: Envelope, name: str, usual: list[str]) -> list[str]:  # noqa: N802
        session.host_name = name
        return await self.says(smtp, "ehlo", usual)

    async def handle_MAIL(self, smtp: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        envelope.mail_from = address
        return await self.says(smtp, "mail", "250 OK")

    async def handle_RCPT(self, smtp: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        envelope.rcpt_tos.append(address)
        return await self.says(smtp, f"rcpt {address}", "250 OK")

    async def handle_DATA(self, smtp: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if not self.fault.get("taken", "").startswith(("4", "5")):
            self.taken.append(message_from_bytes(envelope.content, policy=policy.default))
            self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
        return await self.says(smtp, "taken", "250 OK queued as 4F2A")
