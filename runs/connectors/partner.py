"""Notices to a partner's API: one POST that carries an Idempotency-Key, and a look-up by that key where the partner has one.

Target: `{"system": "partner", "base_url", "path": "/v2/notices", "token" | "token_env" | "token_file",
"lookup": "/v2/notices/by-key/{key}", "correction_path": "/v2/notices/{id}/corrections", "audience": who reads it there}`.
Without `lookup` nobody can tell after a lost answer whether a notice arrived; without `correction_path` a correction is a
note to whoever owns the partner.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pydantic

from runs.capability import JSON, Args, Call, Capability, Message, Payload, Place
from runs.connectors import notes
from runs.connectors.credentials import credential, short
from runs.connectors.http import Service, before_sending, looking, service
from runs.connectors.payload import approved, canonical, destination
from runs.connectors.targets import target
from runs.exceptions import NoEffect, Unreadable
from runs.states import Audience, Kind


class NotifyPartnerArgs(Args):
    subject: str = pydantic.Field(description="What the notice is about, in a few words.", min_length=1, max_length=200)
    message: str = pydantic.Field(description="What the partner should know, as plain text.", min_length=1, max_length=10_000)
    reference: str = pydantic.Field("", description="Our own reference, e.g. a ticket.", max_length=100)
    target: str = pydantic.Field("northpay", description="The configured partner.")


class NotifyPartner(Capability[NotifyPartnerArgs]):
    """Send a notice to a partner's system, where their people read it."""

    name = "notify_partner"
    kind = Kind.IRREVERSIBLE
    lives_in = "external API"
    audience = Audience.CLIENTS
    read_by = "machine + their humans"
    undo_cost = "depends on their API"
    undo_note = "no undo known"
    undone_when = "never; a correction can follow"
    human_signal = "notice “{subject}” to {partner}"
    what_to_do = "Nothing. Please don’t act on the notice “{subject}”."
    reverted_to = "not taken back; this correction follows it"
    title = "notify partner"
    identifier = "{target}: {subject}"
    honours_key = True
    connector_version = "partner-1"
    Args = NotifyPartnerArgs

    def do(self, call: Call[NotifyPartnerArgs]) -> JSON:
        with before_sending():
            partner = _service(call)
        body = canonical(approved(call, self.render(call.args)))
        answer = partner.send("POST", partner.target["path"], body=body, headers={"Idempotency-Key": call.key})
        return _effect(call, partner, partner.parse(answer))

    def probe(self, call: Call[NotifyPartnerArgs]) -> JSON | None:
        partner = _service(call)
        found = partner.read(_lookup(partner, call), absent=True)
        return None if found is None else _effect(call, partner, found)

    def verify_done(self, call: Call[NotifyPartnerArgs]) -> bool:
        partner = _service(call)
        found = partner.read(_lookup(partner, call), absent=True)
        return found is not None and _id(found) == call.effect["id"]

    def correct(self, call: Call[NotifyPartnerArgs], message: Message) -> JSON:
        with before_sending():
            partner = _service(call)
        path = _correction_path(call)
        if not path:
            return notes.note(message, call.timeout)
        answer = partner.send("POST", path, {"text": message.text}, headers={"Idempotency-Key": message.key})
        return {"id": _id(partner.parse(answer)), "notice": call.effect["id"], "link": ""}

    def probe_correction(self, call: Call[NotifyPartnerArgs], message: Message) -> JSON | None:
        path = _correction_path(call)
        if not path:
            return notes.find_note(message, call.timeout)
        found = _service(call).read(path)
        ours = [c for c in found["corrections"] if c.get("key") == message.key]
        return {"id": _id(ours[0]), "notice": call.effect["id"], "link": ""} if ours else None

    def place(self, call: Call[NotifyPartnerArgs]) -> Place:
        name = self.audience_name(call.args)
        if not _correction_path(call):
            return Place(key=f"partner:{name}", label=f"a note to the owner of {name}", kind="note", address={"partner": name})
        notice = {"target": call.args.target, "id": call.effect["id"]}
        label = f"a correction of the notice at {name}"
        return Place(
            f"notice:{call.args.target}/{notice['id']}", label, "notice", notice, readers=f"the people of {name}", above=call.args.message
        )

    def render(self, args: NotifyPartnerArgs) -> Payload:
        at = target(args.target, "partner")
        body = {"subject": args.subject, "message": args.message, **({"reference": args.reference} if args.reference else {})}
        lines = [args.subject, "", args.message, *(["", args.reference] if args.reference else [])]
        to = destination(at, at["path"], self.audience_name(args))
        return Payload(to=to, body=canonical(body), title=f"Notice to {self.audience_name(args)}", as_read="\n".join(lines))

    def audience_name(self, args: NotifyPartnerArgs) -> str:
        try:
            return str(target(args.target, "partner").get("audience", args.target))
        except NoEffect:
            return args.target


def _lookup(partner: Service, call: Call[Any]) -> str:
    template = partner.target.get("lookup")
    if not template:
        raise Unreadable(f"{partner.where} offers no look-up: only the partner's people can say whether the notice arrived.")
    return str(template).format(key=quote(call.key, safe=""))


def _correction_path(call: Call[NotifyPartnerArgs]) -> str:
    with looking():
        template = target(call.args.target, "partner").get("correction_path", "")
    return str(template).format(id=quote(str(call.effect["id"]), safe="")) if template else ""


def _service(call: Call[NotifyPartnerArgs]) -> Service:
    with looking():
        at = target(call.args.target, "partner")
        token = credential(at)
    return service(at, {"Authorization": f"Bearer {token}"}, call.timeout, token)


def _id(document: JSON) -> str:
    return short(str(document["id"]))


def _effect(call: Call[NotifyPartnerArgs], partner: Service, notice: JSON) -> JSON:
    return {"id": _id(notice), "partner": partner.target.get("audience", call.args.target), "subject": call.args.subject}
