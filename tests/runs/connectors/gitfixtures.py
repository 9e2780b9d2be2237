"""Real git servers for tests: a bare repository that is reached as a file, or through git's own HTTP program."""

import base64
import contextlib
import http.server
import os
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runs.capability import Call
from runs.connectors.git import CreateBranch
from sagaboard.demo import billing_repo

TOKEN = "hunter2-secret"


@dataclass
class Server:
    """A bare repository, and what somebody else may do to it."""

    path: Path

    def refs(self):
        return billing_repo.refs(self.path)

    def push(self, branch, subject="Fix a typo", author="Mei Tanaka"):
        return billing_repo.add(self.path, billing_repo.Commit(branch, author, subject, {subject: subject}))

    def set(self, ref, sha):
        billing_repo.git(self.path, "update-ref", ref, sha)

    def delete(self, ref):
        billing_repo.git(self.path, "update-ref", "-d", ref)

    def config(self, name, value):
        billing_repo.git(self.path, "config", name, value)

    def hook(self, name, script):
        """`script` runs on the server; with it, git works in the repository as if by somebody else."""
        (self.path / "hooks").mkdir(exist_ok=True)
        hook = self.path / "hooks" / name
        hook.write_text(f"#!/bin/sh\nunset GIT_QUARANTINE_PATH\n{script}\n")
        hook.chmod(0o755)


@pytest.fixture
def server(tmp_path, settings):
    billing_repo.make(tmp_path / "billing.git")
    settings.SAGABOARD_TARGETS = {"repo": {"system": "git", "url": f"file://{tmp_path}/billing.git"}}
    return Server(tmp_path / "billing.git")


def branch_call(branch="feature/x", *, timeout=20.0, **args):
    return Call(args=CreateBranch.Args(branch=branch, **args), key="k", run=7, step=2, timeout=timeout)


def prepared(call):
    return replace(call, prepared=CreateBranch().prepare(call))


def done(call):
    call = prepared(call)
    return replace(call, effect=CreateBranch().do(call))


class GitOverHttp(http.server.BaseHTTPRequestHandler):
    """Hands each request to `git http-backend`, if it carries the token; writes may be forbidden apart."""

    def do_GET(self):
        self.serve()

    def do_POST(self):
        self.serve()

    def serve(self):
        self.server.requests.append(self.path)
        if self.path.startswith("/moved/"):
            return self.refuse(302, Location="/repo.git" + self.path.removeprefix("/moved"))
        if self.headers.get("Authorization") != self.server.expected:
            return self.refuse(401, **{"WWW-Authenticate": 'Basic realm="git"'})
        if self.server.read_only and "git-receive-pack" in self.path:
            return self.refuse(403)
        return self.answer(self.run_backend())

    def run_backend(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "sagaboard",
        }
        return subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=True).stdout

    def answer(self, output):
        head, _, body = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200")[:3]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def over_http(server, settings):
    """The same repository by HTTP, behind a token that the target has."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitOverHttp)
    web.root, web.read_only, web.requests = server.path.parent, False, []
    web.expected = "Basic " + base64.b64encode(f"sagaboard:{TOKEN}".encode()).decode()
    server.config("http.receivepack", "true")
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    web.url = f"http://127.0.0.1:{web.server_port}/billing.git"
    settings.SAGABOARD_TARGETS = {"repo": {"system": "git", "url": web.url, "token": TOKEN}}
    yield web
    web.shutdown()
    thread.join()
    web.server_close()


@contextlib.contextmanager
def closed_port():
    """A port of this machine on which nothing listens."""
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
