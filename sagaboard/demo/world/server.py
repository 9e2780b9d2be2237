"""The world's one process: a call comes in, stands in the ledger, meets its fault, has its effect, and is answered."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

from sagaboard.demo.world import control, faults, jira, pages, partner, shelf, slack, unleash
from sagaboard.demo.world.faults import Fault
from sagaboard.demo.world.store import Store
from sagaboard.demo.world.web import Handler, Reply, Request

# The first part of a path -> the name of the system in the ledger, and who answers for it.
SYSTEMS: dict[str, tuple[str, Handler]] = {
    "unleash": ("flags", unleash.handle),
    "jira": ("tickets", jira.handle),
    "slack": ("chat", slack.handle),
    "partner": ("partner", partner.handle),
    "shelf": ("shelf", shelf.handle),
    "shelf-plain": ("shelf-plain", shelf.handle),
    "shelf-blind": ("shelf-blind", shelf.handle),
}
LARGEST_BODY = 8_000_000
SELF = ("127.0.0.1", "localhost")


class World(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, store: Store, tokens: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", port), Doorman)
        self.store, self.tokens = store, tokens

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Doorman(BaseHTTPRequestHandler):
    """Reads one request, has it answered, and writes the answer, or doesn't, as its fault has it."""

    protocol_version = "HTTP/1.1"
    server: World
    wbufsize: ClassVar[int] = -1  # One packet an answer; unbuffered, head and body would wait for each other.
    disable_nagle_algorithm: ClassVar[bool] = True

    def serve(self) -> None:
        # Another name for this machine is how a page elsewhere would read what is here.
        if self.headers.get("Host", "").split(":")[0] not in SELF:
            return self.write(Reply(421, {"message": "This is 127.0.0.1."}))
        url = urlsplit(self.path)
        request = self._request(url.path, url.query)
        system = SYSTEMS.get(url.path.split("/")[1])
        if system:
            return self._play(request, system[1])
        return self.write(self._own(request))

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def do_PUT(self) -> None:
        self.serve()

    def do_DELETE(self) -> None:
        self.serve()

    def _request(self, path: str, query: str) -> Request:
        length = min(int(self.headers.get("Content-Length") or 0), LARGEST_BODY)
        headers = {name.lower(): value for name, value in self.headers.items()}
        first = path.split("/")[1]
        name, inner = (SYSTEMS[first][0], path[len(first) + 1 :]) if first in SYSTEMS else ("", path)
        return Request(self.command, inner, dict(parse_qsl(query)), headers, self.rfile.read(length), name, self.server.tokens)

    def _own(self, request: Request) -> Reply:
        """The world's own pages and doors."""
        store = self.server.store
        with store.changing():
            if request.path.startswith("/_world/"):
                return control.handle(request, store)
            return (pages.show(request.path, store) if request.method == "GET" else None) or Reply(404, {"message": "Nothing here."})

    def _play(self, request: Request, handler: Handler) -> None:
        store = self.server.store
        body = request.body.decode(errors="replace")
        about = {"system": request.system, "method": request.method, "path": self.path}
        entry = store.arrived(**about, key=request.key(), digest=request.digest(), body=body)
        fault = faults.take(store, request)
        faults.wait(fault.delay_before)
        with store.changing(keep=fault.effect):
            real = handler(request, store)
            told = fault.reply(real)
            store.ended(entry, status=told.status, effect=real.effect, answer=fault.answer)
        if not fault.effect:
            store.ended(entry, status=told.status, effect=False, answer=fault.answer)
        faults.wait(fault.delay_after)
        self._answer(told, fault)

    def _answer(self, reply: Reply, fault: Fault) -> None:
        if fault.answer == "hang":
            faults.wait(fault.hang_for)
        if fault.answer in ("real", "cut"):
            self.write(reply, cut=fault.answer == "cut")
        if fault.answer != "real":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def write(self, reply: Reply, *, cut: bool = False) -> None:
        body = reply.body()
        self.send_response(reply.status)
        if reply.status != 204:
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(body) + 1000 if cut else len(body)))
        for name, value in reply.headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if reply.status != 204:
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.wfile.flush()

    def handle(self) -> None:
        """A caller that has gone away is none of our business."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError, OSError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """The ledger is the log."""
