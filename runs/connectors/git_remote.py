"""Speaks to one git server with the `git` binary: looks at refs, fetches commits, pushes conditionally. No working tree.

Options of a target of the system `git`:

- `url`: `https://…`, `ssh://…`, `user@host:path`, `file:///…` or an absolute path; `http://` only on this machine.
- `username`, and `token_file`, `token_env` or `token`: what an https server wants. They go to git through its askpass
  program, so that they stand in no command line and no error.
- `ssh_key`, `known_hosts`: files for ssh; the host must be known, and ssh never asks.
- `marker`: false where a server takes no refs below `refs/sagaboard/` or no atomic pushes (see runs.connectors.git).

Every call works in a scratch repository of its own: a shared one would save a small fetch, but a killed worker leaves
lock files in it that stop everyone after.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from runs.connectors.credentials import credential, scrub, short
from runs.connectors.programs import run_bounded, run_leashed
from runs.connectors.targets import Target

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SCP_LIKE = re.compile(r"[A-Za-z0-9_.][\w.-]*@[A-Za-z0-9][\w.-]*:[^:].*")
PASSED_ON = ("PATH", "TMPDIR", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
# What this version of git says, in the C locale, when it never got as far as asking for a change; and what a person does.
NEVER_ASKED = [
    (r"Authentication failed|could not read (User|Pass)|error: 40[13]|Permission denied|terminal prompts disabled",
     "The git server refused the credential of “{name}”: check its username, token or ssh_key."),
    (r"Host key verification failed", "The host key of {url} is unknown or changed: check known_hosts of “{name}”."),
    (r"Could not resolve host", "No host is called so in {url}: check the url of “{name}” and the name service."),
    (r"Connection refused|Failed to connect|Connection timed out|No route to host|Network is unreachable",
     "Nothing answers at {url}: check that the git server of “{name}” runs and can be reached from the workers."),
    (r"dubious ownership", "The repository at {url} belongs to another user of this machine; workers must run as its owner."),
    (r"does not appear to be a git repository|[Rr]epository .*not found|error: 404|No such (file|device)",
     "There is no git repository at {url}, or the credential of “{name}” may not see it."),
    (r"not support --atomic", "The git server at {url} can’t push atomically: set marker to false on “{name}”."),
    (r"returned error: 3\d\d|unable to update url base from redirection",
     "{url} answers with a redirect, which isn’t followed: put the final address into “{name}”."),
    (r"(not our ref|unadvertised object)", "The commit is no longer on the server of “{name}”: its branch was rewritten."),
    (r"sagaboard: exists", "The branch appeared on the server in this very moment; it is somebody else’s."),
]  # fmt: skip
# Runs between git's reading of the server's refs and its push. git leaves a ref out of `stdin` that stands at our commit
# already, and would then create only the marker, as if the branch were ours.
PRE_PUSH = """#!/bin/sh
while read -r _ _ ref _; do [ "$ref" = "$SAGABOARD_NEW_REF" ] && exit 0; done
echo "sagaboard: exists" >&2
exit 1
"""
ASKPASS = """#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$SAGABOARD_GIT_USERNAME" ;;
*) printf '%s\\n' "$SAGABOARD_GIT_PASSWORD" ;;
esac
"""


class Trouble(Exception):
    """git got no answer, or a refusal, in a sentence for a person; `nothing_happened` only when that is certain."""

    def __init__(self, sentence: str, *, nothing_happened: bool) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.nothing_happened = nothing_happened


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a repository is, without the credential that its URL may hold."""

    url: str
    username: str = ""
    password: str = ""
    plain_http: bool = False


def address(target: Target) -> Address:
    """The address of `target`; Trouble for a scheme that could run programs or send credentials in the clear."""
    url = str(target["url"])
    username, password = str(target.get("username", "sagaboard")), _password(target)
    if url.startswith("/"):
        return Address(f"file://{quote(url)}")
    if SCP_LIKE.fullmatch(url):
        return Address(url)
    parts = urlsplit(url)
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    if parts.scheme not in {"file", "https", "ssh"} and not plain:
        raise Trouble(f"“{target.name}” has a url that git may not use here: want https, ssh or file.", nothing_happened=True)
    if parts.scheme in {"http", "https"}:
        password, username = (password, username) if password else (unquote(parts.password or ""), unquote(parts.username or ""))
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return Address(urlunsplit(parts), username, password, plain)


def _password(target: Target) -> str:
    return credential(target) if target.options.keys() & {"token_file", "token_env", "token"} else ""


@dataclasses.dataclass
class Remote:
    """One git server for the length of one call. All its methods together take no longer than until `deadline`."""

    name: str
    at: Address
    scratch: Path
    env: Mapping[str, str]
    deadline: float

    def refs(self, *names: str) -> dict[str, str]:
        """Which of exactly these refs exist, and where they stand. The server has answered, else Trouble."""
        lines = [line.partition("\t") for line in self._git("ls-remote", "--quiet", "--", "origin", *names).splitlines()]
        found = {ref: sha for sha, _, ref in lines}
        # Patterns of ls-remote match the ends of names, so that refs/x/refs/heads/main would pass for refs/heads/main.
        return {name: found[name] for name in names if name in found}

    def fetch(self, what: str, *, depth: int = 1) -> None:
        """Brings commits here, without files where the server can leave them out."""
        self._git(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"),
            *(f"--depth={depth}", "--filter=tree:0", "--", "origin", what),
        )

    def commits(self, since: str, until: str, *, at_most: int = 10) -> list[str]:
        """“abc1234 by Ann Lee: Round half up”, newest first, for what `until` has and `since` has not; both were fetched."""
        form = "--format=%h by %an: %s"
        out = self._git("log", form, f"--max-count={at_most}", "--no-show-signature", f"{since}..{until}", "--")
        return ["".join(c for c in line if c.isprintable())[:160] for line in out.splitlines()]

    def create(self, sha: str, ref: str, *also: str) -> None:
        """Makes `ref` and `also` at `sha` in one go, only if none of them exists; else Trouble, and nothing happened."""
        leases = [f"--force-with-lease={name}:" for name in (ref, *also)]
        statuses = self._push(*leases, "--", "origin", *(f"{sha}:{name}" for name in (ref, *also)), new_ref=ref)
        if statuses.get(ref, "*") != "*":
            # The hook was not run: scratch lies on a file system without programs.
            self.delete(dict.fromkeys(also, sha))
            raise Trouble(f"{ref} exists already; it is somebody else’s.", nothing_happened=True)

    def delete(self, standing_at: Mapping[str, str]) -> None:
        """Deletes these refs in one go, only while each stands where it is said to; else Trouble, and nothing happened."""
        if standing_at:
            leases = [f"--force-with-lease={name}:{sha}" for name, sha in standing_at.items()]
            self._push("--no-verify", *leases, "--", "origin", *(f":{name}" for name in standing_at))

    def _push(self, *arguments: str, new_ref: str = "") -> dict[str, str]:
        refs = sum(argument.startswith("--force-with-lease") for argument in arguments)
        atomic = ["--atomic"] if refs > 1 else []
        done = self._run("push", "--porcelain", "--no-thin", *atomic, *arguments, leashed=True, extra={"SAGABOARD_NEW_REF": new_ref})
        lines = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 2]
        refused = [(names.rpartition(":")[2], reason) for flag, names, reason in lines if flag == "!"]
        if refused:
            said = "; ".join(f"{ref} {reason}" for ref, reason in refused)
            raise Trouble(f"The git server of “{self.name}” refused: {said}.", nothing_happened=True)
        if done.returncode:
            raise self._trouble(done.stderr)
        return {names.rpartition(":")[2]: flag for flag, names, _ in lines}

    def _git(self, *arguments: str) -> str:
        """What a command says that only reads."""
        try:
            done = self._run(*arguments)
            if done.returncode:
                raise self._trouble(done.stderr)
        except Trouble as trouble:
            raise Trouble(trouble.sentence, nothing_happened=True) from None
        return done.stdout

    def _run(self, *arguments: str, leashed: bool = False, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise Trouble(f"The git server of “{self.name}” took too long.", nothing_happened=True)
        run = run_leashed if leashed else run_bounded
        try:
            return run(["git", *arguments], cwd=self.scratch, env={**self.env, **(extra or {})}, seconds=seconds)
        except subprocess.TimeoutExpired:
            raise Trouble(f"The git server of “{self.name}” did not answer in time.", nothing_happened=False) from None

    def _trouble(self, said: str) -> Trouble:
        for pattern, sentence in NEVER_ASKED:
            if re.search(pattern, said):
                return Trouble(sentence.format(name=self.name, url=self.at.url), nothing_happened=True)
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "no reason given")
        words = short(scrub(last, self.at.password))
        return Trouble(f"The git server of “{self.name}” did not do it: {words}", nothing_happened=False)


@contextmanager
def remote(target: Target, seconds: float) -> Iterator[Remote]:
    """The git server of `target`, for `seconds` at most, with a scratch repository that is gone afterwards."""
    # A little sooner than whoever called cuts us off, to end in words.
    deadline = time.monotonic() + 0.95 * seconds
    if shutil.which("git") is None:
        raise Trouble("This worker has no git: install the git program.", nothing_happened=True)
    at = address(target)
    with tempfile.TemporaryDirectory(prefix="sagaboard-git-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        _lay_out(scratch)
        yield Remote(target.name, at, scratch, _environment(target, at, scratch), deadline)


def _lay_out(scratch: Path) -> None:
    """The least that git takes for a bare repository, without the time that `git init` takes, and our programs."""
    for folder in ("objects", "refs", "hooks"):
        (scratch / folder).mkdir()
    (scratch / "HEAD").write_text("ref: refs/heads/main\n")
    (scratch / "config").write_text("[core]\n\tbare = true\n\trepositoryformatversion = 0\n")
    for name, text in (("askpass", ASKPASS), ("hooks/pre-push", PRE_PUSH)):
        (scratch / name).write_text(text)
        (scratch / name).chmod(0o700)


def _environment(target: Target, at: Address, scratch: Path) -> dict[str, str]:
    """Nothing of the worker's own git settings or credentials, no questions, only protocols that run no programs."""
    settings = {
        "http.followRedirects": "false",
        "credential.helper": "",
        "core.hooksPath": str(scratch / "hooks"),
        "http.connectTimeout": "10",
        "gc.auto": "0",
        "remote.origin.url": at.url,
    }
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    for number, (key, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env | {
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(scratch.parent),
        "GIT_ALLOW_PROTOCOL": "file:https:ssh:http" if at.plain_http else "file:https:ssh",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": str(scratch / "askpass"),
        "GIT_SSH_COMMAND": _ssh(target),
        # Also keeps ~/.netrc out.
        "HOME": str(scratch),
        "LC_ALL": "C",
        "SAGABOARD_GIT_USERNAME": at.username,
        "SAGABOARD_GIT_PASSWORD": at.password,
    }


def _ssh(target: Target) -> str:
    argv = ["ssh", "-F", os.devnull, "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-oConnectTimeout=10"]
    if key := target.get("ssh_key"):
        argv += ["-oIdentitiesOnly=yes", "-i", str(key)]
    if known := target.get("known_hosts"):
        argv.append(f"-oUserKnownHostsFile={known}")
    return shlex.join(argv)
