"""CI: start a pipeline and wait for its verdict, by a command on the worker or by a URL. A red pipeline is a failed step.

Targets: `{"system": "ci", "command": [argv…], "cwd", "env": {…}}`: the command gets the arguments as `CI_REF`,
`CI_PIPELINE` and `CI_KEY` in an otherwise bare environment, no shell is involved, and its exit code is the verdict.
Or `{"system": "ci", "base_url", "token" | …, "start": "/pipelines", "status": "/pipelines/{id}", "poll": 2}`: a POST with
`{"ref", "pipeline", "key"}` that answers `{"id", "url"?}`, then GETs that answer `{"status", "url"?}`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pydantic

from runs.capability import JSON, Args, Call, Capability
from runs.connectors.credentials import credential, short
from runs.connectors.http import Service, Unclear, service, within
from runs.connectors.targets import Target, target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Kind

LEASH = Path(__file__).with_name("leash.py")
TAIL_BYTES, TAIL_LINES, TAIL_LINE = 8192, 5, 120
GREEN = {"success", "succeeded", "passed", "green"}
RED = {"failure", "failed", "error", "canceled", "cancelled", "timed_out", "skipped", "red"}


class RunCIArgs(Args):
    ref: str = pydantic.Field(description="The branch or commit to test.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$")
    pipeline: str = pydantic.Field("", description="Which pipeline, where there are several.", pattern=r"^[A-Za-z0-9._-]{0,100}$")
    target: str = pydantic.Field("ci", description="The configured CI.")


class RunCI(Capability[RunCIArgs]):
    """Run the pipeline on a branch and wait for its result."""

    name = "run_ci"
    kind = Kind.REVERSIBLE
    lives_in = "CI runner"
    read_by = "machine"
    undo_cost = "none needed"
    undone_when = "leaves no effect"
    title = "run CI"
    identifier = "{ref}"
    leaves_effect = False
    no_effect_reason = "A pipeline reads the branch and reports; its result is a line in the log, nothing in the world."
    timeout = 300.0
    connector_version = "ci-1"
    Args = RunCIArgs

    def do(self, call: Call[RunCIArgs]) -> JSON:
        at = target(call.args.target, "ci")
        return _by_command(at, call) if at.get("command") else _by_url(at, call)


def _by_command(at: Target, call: Call[RunCIArgs]) -> JSON:
    with tempfile.TemporaryFile() as output:
        code = _run(at, call, output)
        if code is None:
            raise NoEffect(f"CI took longer than {call.timeout:g} s and was stopped. {_tail(output)}")
        if code:
            raise NoEffect(f"CI is red (exit code {code}). {_tail(output)}")
        return _green(call, at.get("url", ""), at.name, _tail(output))


def _run(at: Target, call: Call[RunCIArgs], output: IO[bytes]) -> int | None:
    """The command's exit code; None when its time was over. Whatever ends this process ends the command too."""
    argv = [sys.executable, "-I", str(LEASH), *at["command"]]
    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=at.get("cwd"), env=_environment(at, call))
    except OSError as exc:
        raise NoEffect(f"CI couldn't be started: {exc}") from None
    with process:  # Its end closes the pipe, which is the leash.
        try:
            return process.wait(within(call.timeout))
        except subprocess.TimeoutExpired:
            return None


def _environment(at: Target, call: Call[RunCIArgs]) -> dict[str, str]:
    """What the command may know: no secret of the worker is in it."""
    standing = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**standing, **at.get("env", {}), "CI_REF": call.args.ref, "CI_PIPELINE": call.args.pipeline, "CI_KEY": call.key}


def _tail(output: IO[bytes]) -> str:
    """The last lines of the output that say something, where a pipeline says what was wrong."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - TAIL_BYTES))
    lines = [line for line in output.read().decode(errors="replace").splitlines() if any(map(str.isalnum, line))]
    return " / ".join(short(line.strip(), TAIL_LINE) for line in lines[-TAIL_LINES:])


def _by_url(at: Target, call: Call[RunCIArgs]) -> JSON:
    token = credential(at) if any(at.get(o) for o in ("token", "token_env", "token_file")) else ""
    ci = service(at, {"Authorization": f"Bearer {token}"} if token else {}, call.timeout, token)
    try:
        started = ci.parse(ci.send("POST", at["start"], {"ref": call.args.ref, "pipeline": call.args.pipeline, "key": call.key}))
        return _wait(ci, call, started)
    except (Unclear, Unreadable) as exc:
        # A verdict nobody got is none, and a pipeline that runs on does no harm.
        raise NoEffect(f"CI gave no result: {exc}") from None


def _wait(ci: Service, call: Call[RunCIArgs], started: JSON) -> JSON:
    path = str(ci.target["status"]).format(id=quote(str(started["id"]), safe=""))
    while True:
        now = ci.read(path)
        state, url = str(now.get("status", "")).lower(), short(str(now.get("url") or started.get("url", "")))
        if state in GREEN:
            return _green(call, url, str(started["id"]))
        if state in RED:
            raise NoEffect(f"CI is red ({state}). {short(str(now.get('message', '')))} {url}".strip())
        time.sleep(max(0.0, min(float(ci.target.get("poll", 2)), ci.deadline.left())))
        if ci.deadline.left() <= 0:
            raise NoEffect(f"CI took longer than {call.timeout:g} s; its result was not awaited. {url}".strip())


def _green(call: Call[RunCIArgs], url: str, pipeline: str, said: str = "") -> JSON:
    return {"result": "green", "ref": call.args.ref, "pipeline": call.args.pipeline or pipeline, "url": url, "said": said}
