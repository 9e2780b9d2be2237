"""Queueing, approving, editing, rejecting, expiring. Every door to a decision goes through `check_decidable`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outbox import editing, release, together
from outbox.exceptions import NotDecidable
from outbox.models import Decision, Item, Served, Version
from outbox.policies import Approver, disabled_why, policy_for, was_served
from outbox.states import Fate, ItemState, Verdict
from runs import keys, lifecycle, registry
from runs.locking import locked_run
from runs.models import Run, Step
from runs.states import RunState
from sagaboard.accounts.models import User


def queue(run: Run, step: Step) -> Item:
    """Puts an irreversible call into the outbox, in the caller's transaction. A gate is decidable at once."""
    rendered = release.render(step, registry.find(step.capability))
    assert rendered is not None, "queued by code that defines it"
    payload, version = rendered
    item, created = Item.objects.get_or_create(
        step=step,
        defaults={
            "digest": release.digest_of(payload, version),
            "queued_at": run.now,
            "is_gate": step.is_gate,
        },
    )
    if not created:
        item.state, item.closed_at, item.is_gate = ItemState.HELD, None, step.is_gate
        item.decisions.filter(voided_at=None).update(voided_at=run.now)
    item.put_under(policy_for(step.capability, step.audience))
    release.add_version(run, item, payload, args=step.args, version=version, made_by=_who_asked(run, step))
    item.save()
    if item.is_gate:
        release.await_or_pass(run, item)
    return item


def _who_asked(run: Run, step: Step) -> str:
    """The actor of the step's newest request, which may be a narrower token than the run's."""
    asked = run.entries.filter(step=step, event="step.requested").order_by("-seq").values_list("actor", flat=True).first()
    return asked or f"token:{run.agent}"


def approve(item: Item, *, digest: str, by: User, in_bulk: bool = False) -> None:
    """Approves exactly what `digest` names; NotDecidable when that is no longer possible, or not together with others."""
    with locked_run(item.step.run_id) as run:
        item = _current(item)
        if any(one.by_id == by.pk and one.verdict == Verdict.APPROVE and one.digest == digest for one in item.standing()):
            return  # a double click: the yes stands already
        check_decidable(run, item, digest=digest, by=by)
        if in_bulk and (alone := together.why_alone(item)):
            raise NotDecidable(f"It is decided by itself: {alone}. Nothing was sent.")
        _decide(run, item, by, Verdict.APPROVE, digest)
        if len(item.standing()) < item.quorum:
            return
        item.state = ItemState.APPROVED
        item.save(update_fields=["state"])
        if item.is_gate:
            release.let_go(run, item)
        else:
            release.go_on(run)


def edit(item: Item, *, digest: str, by: User, fields: Mapping[str, Any]) -> Version:
    """Puts a new version in place of the one named by `digest`: with these arguments, validated like a new request.

    The old version stays. The new one is decided anew, by somebody else where four eyes apply. NotDecidable when the
    item is no longer to be decided or may not be edited, WrongEdit when what was typed can't be sent.
    """
    with locked_run(item.step.run_id) as run:
        item = _current(item)
        check_decidable(run, item, digest=digest, by=by, approves=False)
        revised = editing.revise(item, fields)
        step = item.step
        was = {name: step.args.get(name) for name in revised.changed}
        # What was asked for stays in the log and in version 1; the intent's key too, so that the agent still meets this step.
        step.args, step.read_by = revised.args, revised.read_by
        step.call_key = keys.of_call(run.nonce, step.key or "", keys.digest(revised.args))
        step.save(update_fields=["args", "read_by", "call_key"])
        made = release.add_version(run, item, revised.payload, args=revised.args, version=revised.version, made_by=f"person:{by}", by=by)
        release.put_forward(run, item)
        now = {name: revised.args.get(name) for name in revised.changed}
        run.append("item.edited", step=step, actor=f"person:{by}", before=digest, digest=made.digest, was=was, now=now)
        return made


def reject(item: Item, *, digest: str, by: User, reason: str, fate: str = "") -> None:
    """Says no, with a reason the agent gets, and what becomes of the run. Rejecting one's own item is allowed."""
    fate = fate or fates(item)[0]
    if not reason.strip():
        raise NotDecidable("A reason is required; the agent and the owner get it.")
    if fate not in fates(item):
        raise NotDecidable("Say what becomes of the run.")
    with locked_run(item.step.run_id) as run:
        item = _current(item)
        check_decidable(run, item, digest=digest, by=by, approves=False)
        # Whoever said yes, and others have not yet, may think again.
        item.decisions.filter(by=by, voided_at=None).update(voided_at=run.now)
        _decide(run, item, by, Verdict.REJECT, digest, reason=reason, fate=fate)
        release.close(run, item, ItemState.REJECTED)
        step = run.steps.get(pk=item.step_id)
        lifecycle.close(run, step, "rejected", actor=f"person:{by}", said=reason)
        _after_rejection(run, item, by, reason, fate)


def fates(item: Item) -> list[Fate]:
    """What can become of the run when this item is rejected: a run that waits for a gate's result can't go on without it."""
    return [Fate.COMPENSATE, Fate.SEND_BACK] if item.is_gate else [Fate.DROP, Fate.COMPENSATE]


def _after_rejection(run: Run, item: Item, by: User, reason: str, fate: str) -> None:
    if fate == Fate.COMPENSATE:
        lifecycle.fail_and_undo(run, f"{by} rejected {item}: {reason}", actor=f"person:{by}")
    else:
        release.go_on(run)
        lifecycle.advance(run)


def check_decidable(run: Run, item: Item, *, digest: str, by: User, approves: bool = True) -> None:
    """The one question before every decision: right, four eyes, expiry, digest, run state. NotDecidable says what is so.

    A no and an edit are also for one's own item, and for a capability that is disabled.
    """
    if item.state != ItemState.AWAITING:
        raise NotDecidable(_what_is_so(run, item))
    if item.expires_at is not None and item.expires_at <= run.now:
        raise NotDecidable(f"It expired at {item.expires_at:%H:%M} UTC. Nothing was sent.")
    if digest != item.digest:
        raise NotDecidable("It changed while you read. Nothing was sent; read the new version.")
    in_time = run.state == RunState.RELEASING or (item.is_gate and run.state == RunState.OPEN)
    if not in_time:
        raise NotDecidable(f"The run is {run.get_state_display().lower()}; nothing is sent now.")
    if approves and (disabled := disabled_why(item)):
        raise NotDecidable(f"{disabled}. Nothing was sent.")
    approver = Approver(by)
    why = approver.no_right(item) or (approver.same_eyes(item) if approves else "")
    if why:
        raise NotDecidable(f"{why[0].upper()}{why[1:]}. Nothing was sent.")
    if approves and item.current.is_long and not was_served(item.current, by):
        raise NotDecidable("You have not seen all of it. Show all of it first; nothing was sent.")


def serve_whole(item: Item, *, digest: str, to: User) -> None:
    """Notes that this person gets a long payload whole, if it is still the one on their page."""
    version = item.current
    if version.digest == digest:
        Served.objects.get_or_create(version=version, person=to)


def _what_is_so(run: Run, item: Item) -> str:
    last = item.decisions.last()
    if item.state in (ItemState.APPROVED, ItemState.SENT) and last is not None:
        return f"{last.by_name} approved this at {last.at:%H:%M:%S} UTC."
    if item.state == ItemState.REJECTED and last is not None:
        return f"{last.by_name} rejected this at {last.at:%H:%M:%S} UTC: {last.reason}"
    if item.state == ItemState.WITHDRAWN:
        return f"The run failed at {item.closed_at:%H:%M:%S} UTC; this was withdrawn, unsent."
    if item.state == ItemState.DROPPED:
        return f"{item.let_go_by} dropped this at {item.closed_at:%H:%M:%S} UTC. Nothing was sent."
    if item.state == ItemState.EXPIRED:
        return f"It expired at {item.expires_at:%H:%M} UTC. Nothing was sent; its owner, {run.owner}, was told."
    if item.state == ItemState.HELD:
        return "Its run is not green yet, so there is nothing to decide."
    return f"It is {item.get_state_display().lower()} already."


def record_refusal(item: Item, refusal: NotDecidable, *, by: User) -> str:
    """Logs a refused decision in a transaction of its own, since the refused one was rolled back; returns its words."""
    with locked_run(item.step.run_id) as run:
        run.append("item.refused", step=item.step, actor=f"person:{by}", why=str(refusal))
    return str(refusal)


def withdraw(run: Run, step: Step) -> None:
    """The step was closed: its item leaves the queue in the same transaction."""
    states = {"withdrawn": ItemState.WITHDRAWN, "rejected": ItemState.REJECTED, "expired": ItemState.EXPIRED, "dropped": ItemState.DROPPED}
    item = Item.objects.filter(step=step).first()
    if item is not None and item.state != ItemState.REJECTED:
        release.close(run, item, states[step.closed_why])


def mark_sent(run: Run, step: Step) -> None:
    """It went out: the pivot, if it is the first; the next one's turn."""
    item = Item.objects.filter(step=step).first()
    if item is not None:
        release.close(run, item, ItemState.SENT)
    if run.pivot_at is None:
        run.pivot_at = run.now
        run.save(update_fields=["pivot_at"])
    release.go_on(run)


def ask_again(item: Item, *, by: User) -> None:
    """The owner puts an expired item in front of reviewers once more."""
    with locked_run(item.step.run_id) as run:
        item = _current(item)
        _owners_expired(run, item, by)
        release.await_or_pass(run, item)
        run.append("step.queued", step=item.step, actor=f"person:{by}", asked_again=True)


def drop(item: Item, *, by: User, reason: str) -> None:
    """The owner lets an expired item go; the rest of the run goes on without it."""
    with locked_run(item.step.run_id) as run:
        item = _current(item)
        _owners_expired(run, item, by)
        lifecycle.close(run, run.steps.get(pk=item.step_id), "dropped", actor=f"person:{by}", said=reason or "expired")
        release.go_on(run)
        lifecycle.advance(run)


def _owners_expired(run: Run, item: Item, by: User) -> None:
    if item.state != ItemState.EXPIRED or run.state != RunState.RELEASING:
        raise NotDecidable(_what_is_so(run, item))
    if by.pk != run.owner_id or not by.is_active:
        raise NotDecidable(f"Its owner, {run.owner}, asks again or drops it.")


def _decide(run: Run, item: Item, by: User, verdict: str, digest: str, *, reason: str = "", fate: str = "") -> None:
    policy = f"{item.policy_id}@{item.policy.version}" if item.policy else "built in"
    role = ", ".join(by.groups.order_by("name").values_list("name", flat=True)) or ("superuser" if by.is_superuser else "")
    Decision.objects.create(
        item=item,
        by=by,
        by_name=str(by),
        role=role,
        verdict=verdict,
        digest=digest,
        reason=reason,
        fate=fate,
        policy_version=policy,
        at=run.now,
    )
    run.append(
        "item.decided",
        step=item.step,
        actor=f"person:{by}",
        verdict=verdict,
        digest=digest,
        reason=reason,
        fate=fate,
        role=role,
        policy=policy,
    )


def _current(item: Item) -> Item:
    # What the page has read may be old; behind the lock it is current.
    return Item.objects.select_related("policy", "step__run__token", "step__run__team").get(pk=item.pk)
