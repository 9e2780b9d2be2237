"""A mail server for tests: speaks SMTP over a real socket, keeps what it took, and fails as it is told to."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage


class MailServer:
    """`fault` names a moment ("connect", "mail", "rcpt", "data", "taken") and what happens then: an answer, or "drop"."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.fault: dict[str, str] = {}
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def target(self, **options: object) -> dict[str, object]:
        given = {"host": "127.0.0.1", "port": self.port, "security": "none", "from": "Billing <billing@acme.example>"}
        return {"system": "mail", "internal": ["acme.example"], **given, **options}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(server: MailServer) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = 10

        def handle(self) -> None:
            try:
                if self.answers("connect", "220 mail.acme.example ready"):
                    self.talk()
            except OSError:
                return

        def answers(self, moment: str, usual: str) -> bool:
            """Gives the usual answer or the one a test asks for; False where the connection ends here."""
            said = server.fault.get(moment, usual)
            if said == "drop":
                return False
            self.wfile.write(f"{said}\r\n".encode())
            return True

        def talk(self) -> None:
            sender, to = "", []
            for line in self.rfile:
                verb, _, rest = line.decode().strip().partition(" ")
                match verb.upper():
                    case "EHLO":
                        going_on = self.answers("ehlo", "250 mail.acme.example")
                    case "MAIL":
                        sender, to = _address(rest), []
                        going_on = self.answers("mail", "250 OK")
                    case "RCPT":
                        going_on = self.answers(f"rcpt {_address(rest)}", "250 OK")
                        to.append(_address(rest))
                    case "DATA":
                        going_on = self.data(sender, to)
                    case "QUIT":
                        self.answers("quit", "221 bye")
                        return
                    case _:
                        going_on = self.answers("else", "502 not known here")
                if not going_on:
                    return

        def data(self, sender: str, to: list[str]) -> bool:
            if not self.answers("data", "354 go on"):
                return False
            if "data" in server.fault:
                return True
            lines = []
            for line in self.rfile:
                if line == b".\r\n":
                    break
                lines.append(line[1:] if line.startswith(b"..") else line)
            if not server.fault.get("taken", "").startswith(("4", "5")):
                server.taken.append(message_from_bytes(b"".join(lines), policy=policy.default))
                server.envelopes.append((sender, to))
            return self.answers("taken", "250 OK queued as 4F2A")

    return Handler


def _address(rest: str) -> str:
    return rest.partition("<")[2].partition(">")[0]
