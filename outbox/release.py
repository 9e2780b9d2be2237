"""What may go out now, and in which order."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Any, NoReturn

from outbox.models import Item, Version
from outbox.policies import needs_yes
from outbox.states import UNDECIDED, ItemState
from runs import dispatch, lifecycle, registry
from runs.capability import Capability, Payload
from runs.exceptions import NotReleasable
from runs.keys import canonical
from runs.models import Run, Step
from runs.paging import page
from runs.states import RunState, StepState
from sagaboard.accounts.models import User


def open_for_decision(run: Run) -> None:
    """The run is green: its items can be decided from now, and those that need no yes have theirs by policy."""
    for item in _items(run):
        if item.state == ItemState.HELD:
            await_or_pass(run, item)
    go_on(run)


def await_or_pass(run: Run, item: Item) -> None:
    """One item becomes decidable; its clock starts here."""
    if not needs_yes(item):
        item.state = ItemState.APPROVED
        item.save(update_fields=["state"])
        run.append("item.decided", step=item.step, verdict="approve", digest=item.digest, why="the policy wants no yes")
        return
    put_forward(run, item)


def put_forward(run: Run, item: Item) -> None:
    """In front of people, from now; what was decided before no longer counts."""
    item.state, item.awaiting_since = ItemState.AWAITING, run.now
    item.expires_at = run.now + dt.timedelta(seconds=item.policy.open_for if item.policy else 4 * 3600)
    item.save(update_fields=["state", "awaiting_since", "expires_at", "digest"])
    item.decisions.filter(voided_at=None).update(voided_at=run.now)
    Step.objects.filter(pk=item.step_id).update(due_at=None)


def go_on(run: Run) -> None:
    """Sends the next item in plan order, once every item of the run is decided and no approval has lapsed."""
    items = _items(run)
    if run.state != RunState.RELEASING or any(item.state in UNDECIDED for item in items) or expire_lapsed(run):
        return
    first = next((item for item in items if item.state == ItemState.APPROVED), None)
    if first is not None:
        let_go(run, first)


def expire_lapsed(run: Run) -> int:
    """Approvals that ran out before the first item of the release went; how many. After that send there is only forward."""
    items = [item for item in _items(run) if not item.is_gate]
    if run.state != RunState.RELEASING or any(item.step.tries for item in items):
        return 0
    lapsed = [item for item in items if item.state == ItemState.APPROVED and item.expires_at and item.expires_at <= run.now]
    for item in lapsed:
        expire(run, item)
    return len(lapsed)


def expire(run: Run, item: Item) -> None:
    """Nobody answered in time: a gate is rejected, anything else waits for the owner, who asks again or drops it."""
    run.append("item.expired", step=item.step, digest=item.digest)
    item.state = ItemState.EXPIRED
    item.save(update_fields=["state"])
    if item.is_gate:
        lifecycle.close(run, run.steps.get(pk=item.step_id), "expired", actor="engine", said="nobody answered in time")
        lifecycle.fail_and_undo(run, f"Nobody decided on {item} in time.", actor="engine")
        return
    Step.objects.filter(pk=item.step_id).update(due_at=None)
    page(run, f"“{item}” expired unsent", "Nothing was sent. Ask again, or drop it.", people=[run.owner])


def withdraw_rest(run: Run) -> None:
    """The run goes nowhere any more: what is still open of it, and nobody is sending, leaves the queue unsent."""
    for item in Item.objects.filter(step__run=run).of_ended_runs().select_related("step"):
        if item.step.state == StepState.QUEUED:
            lifecycle.close(run, item.step, "withdrawn", actor="engine")
        else:
            close(run, item, ItemState.WITHDRAWN)


def close(run: Run, item: Item, state: ItemState) -> None:
    """Nothing more becomes of it."""
    item.state, item.closed_at = state, run.now
    item.save(update_fields=["state", "closed_at"])


def let_go(run: Run, item: Item) -> None:
    """This item's turn: a worker sends it, and the sweep finds it should the message be lost."""
    step = run.steps.get(pk=item.step_id)
    if step.state == StepState.QUEUED:
        if step.due_at is None:
            step.due_at = run.now
            step.save(update_fields=["due_at"])
        dispatch.invoke(step)


def check_sending(run: Run, step: Step) -> Payload:
    """The payload to send, checked once more in the transaction that begins the send; NotReleasable if anything changed."""
    item = Item.objects.select_related("policy", "step__run").get(step=step)
    _check_turn(run, item)
    _check_yeses(run, item)
    version = item.current
    now = render(step, registry.find(step.capability))
    if now is None or digest_of(now[0], now[1]) != item.digest or version.digest != item.digest:
        _void(run, item, "what would be sent is no longer what was approved")
    return version.payload()


def _check_turn(run: Run, item: Item) -> None:
    if item.state != ItemState.APPROVED:
        raise NotReleasable(f"it is {item.state}")
    if item.is_gate and run.state == RunState.OPEN:
        return
    if run.state == RunState.RELEASING and not run.required_checks_green():
        raise NotReleasable("a check is not green")
    if run.state != RunState.RELEASING:
        raise NotReleasable(f"the run is {run.state}")
    if expire_lapsed(run):
        raise NotReleasable("an approval ran out before anything went")
    for other in _items(run):
        if other.state in UNDECIDED:
            raise NotReleasable(f"step {other.step.number} is not decided")
        if other.state == ItemState.APPROVED and other.step.number < item.step.number:
            raise NotReleasable(f"step {other.step.number} goes before it")


def _check_yeses(run: Run, item: Item) -> None:
    """Enough people said yes to these very bytes, and each still has an account."""
    yeses = [one for one in item.decisions.select_related("by").filter(voided_at=None) if one.digest == item.digest]
    for yes in yeses:
        if yes.by is None or not yes.by.is_active:
            _void(run, item, f"the account of {yes.by_name}, who approved it, is disabled")
    if needs_yes(item) and len(yeses) < item.quorum:
        _void(run, item, f"it has {len(yeses)} of the {item.quorum} yeses it needs")


def _void(run: Run, item: Item, why: str) -> NoReturn:
    """An approval that no longer holds: back in front of a person, with what changed."""
    rendered = render(item.step, registry.find(item.step.capability))
    if rendered is not None and digest_of(*rendered) != item.digest:
        add_version(run, item, rendered[0], args=item.step.args, version=rendered[1], made_by="engine")
    put_forward(run, item)
    run.append("item.refused", step=item.step, why=why, digest=item.digest)
    raise NotReleasable(why)


def add_version(run: Run, item: Item, payload: Payload, *, args: Any, version: str, made_by: str, by: User | None = None) -> Version:
    """A new rendering of the item, which becomes what is decided on; `by` is the person who edited it."""
    item.digest = digest_of(payload, version)
    return Version.objects.create(
        item=item,
        number=item.versions.count() + 1,
        title=payload.title[:300],
        to=payload.to,
        body=payload.body,
        content_type=payload.content_type,
        as_read=payload.as_read,
        was=payload.was,
        args=args,
        capability_version=version,
        digest=item.digest,
        made_by=made_by[:200],
        edited_by=by,
        made_at=run.now,
    )


def render(step: Step, capability: Capability[Any] | None) -> tuple[Payload, str] | None:
    """What this step would send by the code of now, and that code's version; None if the code is gone."""
    if capability is None:
        return None
    args = capability.Args.model_validate_json(canonical(step.args))
    return payload_of(capability, args, step.args), capability.version()


def payload_of(capability: Capability[Any], args: object, given: Any) -> Payload:
    """The capability's own rendering; for one whose undo is merely unproven, its arguments."""
    if capability.has("render"):
        return capability.render(args)
    return Payload(
        to={"capability": capability.name, "lives_in": capability.lives_in}, body=canonical(given), title=f"Call {capability.name}"
    )


def digest_of(payload: Payload, version: str) -> str:
    """What a decision is bound to: SHA-256 over bytes, resolved target and capability version, in hex."""
    return hashlib.sha256(version.encode() + b"\n" + payload.digest_source()).hexdigest()


def _items(run: Run) -> list[Item]:
    return list(Item.objects.filter(step__run=run).select_related("policy", "step__run__token").in_order())
