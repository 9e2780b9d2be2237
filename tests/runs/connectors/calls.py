"""Calls as the engine would make them, without the engine."""

import dataclasses

from runs.capability import Call

OWNER = {"target": "chat", "user": "U0MEERA"}


def call_of(capability, *, key="key-1", timeout=5.0, **args):
    return Call(args=capability.Args(**args), key=key, timeout=timeout)


def prepared(capability, call):
    return dataclasses.replace(call, prepared=capability.prepare(call))


def done(capability, call):
    """The call after `prepare`, where it has one, and `do`."""
    call = prepared(capability, call) if capability.has("prepare") else call
    return dataclasses.replace(call, effect=capability.do(call))


def configured(settings, name, **options):
    """The target `name`, with some of its options changed; None takes one away."""
    known = {**settings.SAGABOARD_TARGETS[name], **options}
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, name: {k: v for k, v in known.items() if v is not None}}


def writes(entries):
    """Those of the ledger's entries that are no looks."""
    return [e for e in entries if e["method"] in ("PUT", "POST", "DELETE")]


def posts(world, method="chat.postMessage"):
    """The calls of one of Slack's methods, all of which are POSTs."""
    return [e for e in world.ledger("chat") if e["path"].endswith(method)]
