"""Branches on any git server, by git's own protocol: made only if absent, deleted only while nobody has pushed to them.

A branch says nothing about who made it: a stranger's of the same name may stand at the same commit. So ours is made
together with a marker, `refs/sagaboard/<run>-<step>-<nonce>` at the same commit, in one atomic push, and deleted with it.
The nonce is allotted by `prepare`; who finds the marker knows whose the branch is. Where a server refuses that, the
target's `marker` is false: then a branch that may be ours after a lost answer is for a person to judge, never guessed.

A day after its run has ended well the marker is taken away. One whose branch somebody deletes by hand may stay behind; it
is harmless, and names its run.
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pydantic

from runs.capability import JSON, Args, Call, Capability
from runs.connectors.git_remote import Remote, Trouble, remote
from runs.connectors.targets import target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience, Kind

HEADS = "refs/heads/"
# As git-check-ref-format(1) has it.
UNFIT = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|(^|/)\.|\.lock(/|$)|^refs/|^(@|HEAD)$")


def fit(name: str) -> str:
    """The name of a branch as it is given; ValueError unless git would take it and no option can hide in it."""
    if not name.isprintable() or UNFIT.search(name) or len(name.encode()) > 200:
        raise ValueError("not a name that git takes for a branch")
    return name


Branch = Annotated[str, pydantic.AfterValidator(fit), pydantic.Field(min_length=1, max_length=200)]


@dataclasses.dataclass(frozen=True)
class Allotted:
    """What `prepare` settled: which ref we make, at which commit, and the marker by which we know it again."""

    ref: str
    sha: str
    marker: str

    @classmethod
    def of(cls, call: Call[Any]) -> Allotted:
        return cls(HEADS + call.args.branch, call.prepared["sha"], call.prepared["marker"])

    @property
    def refs(self) -> list[str]:
        return [self.ref, self.marker] if self.marker else [self.ref]

    def effect(self, call: Call[Any]) -> JSON:
        return {
            "repository": call.prepared["repository"],
            "branch": call.args.branch,
            "ref": self.ref,
            "sha": self.sha,
            "base": call.args.base,
            "marker": self.marker,
        }


class CreateBranch(Capability[Any]):
    """Create a branch from the tip of another. Fails if a branch of this name exists."""

    name = "create_branch"
    kind = Kind.REVERSIBLE
    lives_in = "repo"
    audience = Audience.MACHINES
    read_by = "machines (CI)"
    undo_cost = "free: delete ref"
    undo_note = "Only while the branch stands where it was made; commits pushed since stop the undo."
    undone_when = "ref no longer exists"
    title = "create branch"
    identifier = "{branch}"
    timeout = 60.0
    undo_repeatable = True
    connector_version = "git-1"

    class Args(Args):
        branch: Branch
        base: Branch = "main"
        repo: str = "repo"

    def prepare(self, call: Call[Any]) -> JSON:
        ref, base = HEADS + call.args.branch, HEADS + call.args.base
        with changing(call) as server:
            seen = server.refs(ref, base)
            if base not in seen:
                raise NoEffect(f"“{call.args.repo}” has no branch “{call.args.base}” to start from.")
            marked = target(call.args.repo, "git").get("marker", True)
            nonce = f"refs/sagaboard/{call.run}-{call.step}-{secrets.token_hex(12)}"
            return {
                "repository": server.at.url,
                "sha": seen[base],
                "marker": nonce if marked else "",
                "existing": seen.get(ref),
            }

    def do(self, call: Call[Any]) -> JSON:
        ours = Allotted.of(call)
        with changing(call) as server:
            seen = server.refs(*ours.refs)
            if ours.marker in seen:
                return ours.effect(call)  # An earlier attempt got through.
            if ours.ref in seen:
                raise self.taken(call, seen[ours.ref])
            # git pushes only what it has, even when the server has it too.
            server.fetch(ours.sha)
            server.create(ours.sha, *ours.refs)
        return ours.effect(call)

    @staticmethod
    def taken(call: Call[Any], sha: str) -> Exception:
        """Why a branch that exists can't be made: it is somebody else's or, without markers, perhaps our own lost attempt."""
        words = f"The branch “{call.args.branch}” exists already, at {sha}"
        if call.prepared["marker"] or call.prepared["existing"]:
            return NoEffect(f"{words}. Use it, or choose another name.")
        return Unreadable(f"{words}; without markers it can’t be told whether this run made it.")

    def undo(self, call: Call[Any]) -> None:
        ours = Allotted.of(call)
        with changing(call) as server:
            self.same_server(call, server)
            seen = server.refs(*ours.refs)
            if seen.get(ours.ref, ours.sha) != ours.sha and not call.over:
                raise NoEffect(f"Nothing was deleted: “{call.args.branch}” has moved on to {seen[ours.ref]}.")
            server.delete({ref: sha for ref, sha in seen.items() if sha == ours.sha or call.over})

    def verify_undone(self, call: Call[Any]) -> bool:
        ref, base = HEADS + call.args.branch, HEADS + call.args.base
        with looking(call) as server:
            self.same_server(call, server)
            seen = server.refs(ref, base, "HEAD")
            if not seen:
                raise Unreadable(f"“{call.args.repo}” shows neither “{call.args.base}” nor a HEAD: is it the same repository?")
            return ref not in seen

    def verify_done(self, call: Call[Any]) -> bool:
        ours = Allotted.of(call)
        with looking(call) as server:
            self.same_server(call, server)
            return server.refs(ours.ref).get(ours.ref) == ours.sha

    def probe(self, call: Call[Any]) -> JSON | None:
        if not call.prepared:
            return None  # `do` begins with what `prepare` has allotted.
        ours = Allotted.of(call)
        with looking(call) as server:
            self.same_server(call, server)
            seen = server.refs(*ours.refs)
            if ours.marker:
                return ours.effect(call) if ours.marker in seen else None
            if ours.ref in seen and not call.prepared["existing"]:
                raise Unreadable(str(self.taken(call, seen[ours.ref])))
            return None

    def tidy(self, call: Call[Any]) -> None:
        marker = Allotted.of(call).marker
        if not marker:
            return
        with changing(call) as server:
            self.same_server(call, server)
            if seen := server.refs(marker):
                server.delete(seen)

    def drift(self, call: Call[Any]) -> str:
        """What the branch was, what we made of it, and what it is now, naming the commits of others."""
        ours = Allotted.of(call)
        with looking(call) as server:
            self.same_server(call, server)
            now = server.refs(ours.ref).get(ours.ref)
            before = f"before: no branch “{call.args.branch}”; ours: at {ours.sha[:12]} from {call.args.base}"
            if now is None:
                return f"{before}; now: gone."
            if now == ours.sha:
                return f"{before}; now: the same."
            return f"{before}; now: at {now[:12]}{self.pushed(server, ours, now)}"

    @staticmethod
    def pushed(server: Remote, ours: Allotted, now: str) -> str:
        try:
            server.fetch(ours.sha)
            server.fetch(now, depth=50)
            commits = server.commits(ours.sha, now)
        except Trouble as trouble:
            return f". Its commits can’t be read: {trouble.sentence}"
        return f" with {', '.join(commits)}." if commits else ", an earlier commit."

    def touches(self, args: Any) -> list[str]:
        return [f"git:{args.repo}:{HEADS}{args.branch}"]

    @staticmethod
    def same_server(call: Call[Any], server: Remote) -> None:
        """Another address under the same name would report every branch as gone."""
        if (made_at := call.prepared["repository"]) != server.at.url:
            raise Unreadable(f"The branch was made at {made_at}; “{call.args.repo}” is now {server.at.url}.")


@contextmanager
def changing(call: Call[Any]) -> Iterator[Remote]:
    """The call's server. What certainly did nothing becomes `NoEffect`; other Trouble goes through, as unknown."""
    try:
        with remote(target(call.args.repo, "git"), call.timeout) as server:
            yield server
    except Trouble as trouble:
        if trouble.nothing_happened:
            raise NoEffect(trouble.sentence) from trouble
        raise


@contextmanager
def looking(call: Call[Any]) -> Iterator[Remote]:
    """The call's server, for reading; whatever keeps it from answering becomes `Unreadable`."""
    try:
        with remote(target(call.args.repo, "git"), call.timeout) as server:
            yield server
    except Trouble as trouble:
        raise Unreadable(trouble.sentence) from trouble
    except NoEffect as refusal:
        raise Unreadable(refusal.reason) from refusal
