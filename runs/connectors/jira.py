"""Tickets in Jira, by its REST API v3: one transition, by name, with an optional comment.

A transition's id is an edge, valid only from one status, so ids are looked up when they are needed and never stored as a
way to somewhere. What a reviewer approves is the transition by its name and the comment; `do` adds to those bytes the id
which that name has now, and the call's mark, and sends nothing else.

The mark is an issue property of this call's own, set by the same request as the transition, so that a probe finds the one
where the other happened. Should a Jira drop it, the ticket's history shows a move by our account, and the probe says that it
can't tell instead of guessing.

Target: `{"system": "jira", "base_url", "account": e-mail of the service account, "token" | "token_env" | "token_file",
"webhook": whether transitions reach people outside (unknown counts as yes), "audience": who that is, "web_url": where
people read tickets}`. Without `account` the token goes as a bearer token.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import pydantic

from runs.capability import JSON, Args, Call, Capability, Message, Payload, Place
from runs.capability import Reading as Reach
from runs.connectors.credentials import credential
from runs.connectors.http import Service, before_sending, looking, service
from runs.connectors.payload import approved, canonical, destination
from runs.connectors.targets import Target, target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience, Kind

COMMENT_MARK = "sagaboard"
# Characters that a comment takes.
LONGEST = 32_767


class TransitionTicketArgs(Args):
    issue: str = pydantic.Field(description="The ticket's key, e.g. BILL-318.", pattern=r"^[A-Z][A-Z0-9_]{1,30}-[0-9]{1,10}$")
    to: str = pydantic.Field(description="The transition's name or the status it leads to, e.g. In Review.", min_length=1, max_length=100)
    comment: str = pydantic.Field("", description="A comment that goes with it; needs a transition with a screen.", max_length=10_000)
    target: str = pydantic.Field("tickets", description="The configured ticket tracker.")


class TransitionTicket(Capability[TransitionTicketArgs]):
    """Move a ticket to another status, by the transition's name; what listens to the ticket hears of it."""

    name = "transition_ticket"
    lives_in = "Jira"
    audience = Audience.PEOPLE
    read_by = "whoever watches the ticket"
    undo_cost = "reverse transition"
    undo_note = "the webhook can’t be unfired; the comment stays"
    undone_when = "ticket has its old status; webhook stays fired"
    human_signal = "ticket {issue} moved to {after}"
    what_to_do = "Nothing. Please don’t act on the move of {issue} to {after}."
    reverted_to = "{before}"
    title = "transition ticket"
    identifier = "{issue} → {to}"
    undo_repeatable = True
    connector_version = "jira-1"
    Args = TransitionTicketArgs

    def prepare(self, call: Call[TransitionTicketArgs]) -> JSON:
        with before_sending():
            jira = _service(call)
            issue = _issue(jira, call.args.issue, "&expand=changelog")
            before = issue["fields"]["status"]["name"]
            edge = _transition(jira, call.args.issue, call.args.to, before)
        return {"before": before, "after": edge["to"]["name"], "history": max((int(h["id"]) for h in _history(issue)), default=0)}

    def do(self, call: Call[TransitionTicketArgs]) -> JSON:
        issue, before = call.args.issue, call.prepared["before"]
        with before_sending():
            jira = _service(call)
            if (now := status(jira, issue)) != before:
                if late := self.probe(call):
                    return late  # An earlier attempt's call, which was slow to arrive.
                raise NoEffect(f"{issue} was moved from {before} to {now} meanwhile. Nothing was done; ask again.")
            edge = _transition(jira, issue, call.args.to, now)
        body = approved(call, self.render(call.args))
        facts = {"before": before, "after": edge["to"]["name"], "transition": edge["id"]}
        mark = {"key": _property(call), "value": {"key": call.key, **facts}}
        jira.send("POST", f"{_path(issue)}/transitions", {**body, "transition": {"id": edge["id"]}, "properties": [mark]})
        return _effect(call, jira, facts)

    def undo(self, call: Call[TransitionTicketArgs]) -> None:
        issue, back = call.args.issue, call.prepared["before"]
        with before_sending():
            jira = _service(call)
            if (now := status(jira, issue)) == back:
                return  # A second transition would fire the webhook a second time.
            edge = _transition(jira, issue, back, now)
        jira.send("POST", f"{_path(issue)}/transitions", {"transition": {"id": edge["id"]}})

    def verify_undone(self, call: Call[TransitionTicketArgs]) -> bool:
        return status(_service(call), call.args.issue) == str(call.prepared["before"])

    def verify_done(self, call: Call[TransitionTicketArgs]) -> bool:
        return status(_service(call), call.args.issue) == str(call.effect["after"])

    def probe(self, call: Call[TransitionTicketArgs]) -> JSON | None:
        jira = _service(call)
        issue = _issue(jira, call.args.issue, "&expand=changelog")
        mark = jira.read(f"{_path(call.args.issue)}/properties/{quote(_property(call), safe='')}", absent=True)
        if mark is not None and mark["value"]["key"] == call.key:
            return _effect(call, jira, mark["value"])
        _refuse_to_guess(jira, call, issue)
        return None

    def correct(self, call: Call[TransitionTicketArgs], message: Message) -> JSON:
        with before_sending():
            if found := self.probe_correction(call, message):
                return found
            jira = _service(call)
        mark = {"key": COMMENT_MARK, "value": {"key": message.key}}
        posted = jira.send("POST", f"{_path(call.args.issue)}/comment", {"body": document(message.text), "properties": [mark]})
        return _comment(jira, call, jira.parse(posted))

    def probe_correction(self, call: Call[TransitionTicketArgs], message: Message) -> JSON | None:
        jira = _service(call)
        for comment in _comments(jira, call.args.issue):
            marks = [p["value"].get("key") for p in comment.get("properties", []) if p["key"] == COMMENT_MARK]
            if message.key in marks:
                return _comment(jira, call, comment)
        return None

    def replies(self, call: Call[TransitionTicketArgs], message: Message, posted: JSON) -> int | None:
        later = [c for c in _comments(_service(call), call.args.issue) if int(c["id"]) > int(posted["id"])]
        return sum(COMMENT_MARK not in {p["key"] for p in comment.get("properties", [])} for comment in later)

    def place(self, call: Call[TransitionTicketArgs]) -> Place:
        issue = call.args.issue
        readers = f"everybody who can see {issue}, by webhook also {self.audience_name(call.args)}"
        return Place(f"ticket:{issue}", f"a comment on {issue}", kind="ticket", address={"issue": issue}, limit=LONGEST, readers=readers)

    def render(self, args: TransitionTicketArgs) -> Payload:
        at = target(args.target, "jira")
        body: JSON = {"transition": {"name": args.to}}
        if args.comment:
            body["update"] = {"comment": [{"add": {"body": document(args.comment)}}]}
        to = destination(at, f"{_path(args.issue)}/transitions", self.classify(args).read_by or self.read_by)
        lines = [f"{args.issue} → {args.to}", *([args.comment] if args.comment else [])]
        return Payload(to=to, body=canonical(body), title=f"Move {args.issue} to {args.to}", as_read="\n".join(lines))

    def classify(self, args: TransitionTicketArgs) -> Reach:
        """Irreversible and read by clients, unless the target says that no webhook hears of it."""
        try:
            at = target(args.target, "jira")
        except NoEffect:
            return Reach(Kind.IRREVERSIBLE, Audience.CLIENTS, "unknown")
        if at.get("webhook") is False:
            return Reach()
        return Reach(Kind.IRREVERSIBLE, Audience.CLIENTS, f"{at.get('audience', 'clients')}, by webhook")

    def audience_name(self, args: TransitionTicketArgs) -> str:
        try:
            return str(target(args.target, "jira").get("audience", args.target))
        except NoEffect:
            return args.target

    def touches(self, args: TransitionTicketArgs) -> list[str]:
        return [f"ticket:{args.target}/{args.issue}"]


def status(jira: Service, issue: str) -> str:
    return str(_issue(jira, issue)["fields"]["status"]["name"])


def _issue(jira: Service, issue: str, more: str = "") -> JSON:
    found: JSON | None = jira.read(f"{_path(issue)}?fields=status{more}", absent=True)
    if found is None:
        raise Unreadable(f"{jira.where} has no ticket {issue}, or our account may not see it.")
    return found


def _history(issue: JSON) -> list[JSON]:
    """The newest changes of the ticket; their ids grow."""
    histories: list[JSON] = issue["changelog"]["histories"]
    return histories


def _transition(jira: Service, issue: str, to: str, now: str) -> JSON:
    """The one way that leads from the status `now` to `to`; `NoEffect` naming what is on offer, if there is none."""
    if to.casefold() == now.casefold():
        raise NoEffect(f"{issue} is in {now} already. Nothing was done.")
    offered = jira.read(f"{_path(issue)}/transitions")["transitions"]
    by_status = [t for t in offered if t["to"]["name"].casefold() == to.casefold()]
    by_name = [t for t in offered if t["name"].casefold() == to.casefold()]
    found: list[JSON] = by_name or by_status
    if not found:
        ways = ", ".join(sorted({t["to"]["name"] for t in offered})) or "nothing"
        raise NoEffect(f"{issue} is in {now}, from where no transition leads to {to}. On offer: {ways}.")
    return found[0]


def _refuse_to_guess(jira: Service, call: Call[TransitionTicketArgs], issue: JSON) -> None:
    """`Unreadable` if our account moved the ticket there since this call was prepared, without this call's mark."""
    for change in _history(issue):
        moved = any(item["field"] == "status" and item["toString"] == call.prepared["after"] for item in change["items"])
        if moved and int(change["id"]) > call.prepared["history"] and _is_me(jira, change.get("author") or {}):
            raise Unreadable(f"{call.args.issue} was moved by our own account, without the mark of this call: a person has to look.")


def _is_me(jira: Service, author: JSON) -> bool:
    return bool(author.get("accountId") == jira.read("/rest/api/3/myself")["accountId"])


def _comments(jira: Service, issue: str) -> list[JSON]:
    """The newest comments, with their properties; a correction of ours is never below more than these."""
    found = jira.read(f"{_path(issue)}/comment?orderBy=-created&maxResults=100&expand=properties")
    comments: list[JSON] = found["comments"]
    return comments


def _comment(jira: Service, call: Call[TransitionTicketArgs], comment: JSON) -> JSON:
    link = f"{_web(jira.target)}/browse/{call.args.issue}?focusedCommentId={comment['id']}"
    return {"id": comment["id"], "issue": call.args.issue, "link": link}


def _effect(call: Call[TransitionTicketArgs], jira: Service, facts: JSON) -> JSON:
    told = {name: facts[name] for name in ("before", "after", "transition")}
    return {"issue": call.args.issue, **told, "link": f"{_web(jira.target)}/browse/{call.args.issue}"}


def _web(at: Target) -> str:
    return str(at.get("web_url") or at["base_url"]).rstrip("/")


def _path(issue: str) -> str:
    return f"/rest/api/3/issue/{quote(issue, safe='')}"


def _property(call: Call[Any]) -> str:
    return f"sagaboard.{call.key}"


def document(text: str) -> JSON:
    """`text` as an Atlassian document: plain paragraphs, nothing in it is markup."""
    lines = [[{"type": "text", "text": line}] if line else [] for line in text.splitlines()]
    return {"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": line} for line in lines]}


def _service(call: Call[TransitionTicketArgs]) -> Service:
    with looking():
        at = target(call.args.target, "jira")
        token = credential(at)
    if not at.get("account"):
        return service(at, {"Authorization": f"Bearer {token}"}, call.timeout, token)
    coded = base64.b64encode(f"{at['account']}:{token}".encode()).decode()
    return service(at, {"Authorization": f"Basic {coded}"}, call.timeout, token, coded)
