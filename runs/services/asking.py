"""An agent asks for a call: which step is meant, is it the same intent, may it run, and the intent goes into the log."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db.models import Count, Exists, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from runs import dispatch, isolation, keys, lifecycle, registry, signals
from runs import plan as planning
from runs.capability import Capability
from runs.exceptions import Improvised, Invalid, KeyReused, NoEffect, NotOpen, OffPlanCall, OverBudget, Overlaps, Refused, TooMany
from runs.limits import rules_of
from runs.locking import locked_run
from runs.models import CapabilityRecord, Check, IdempotencyKey, Run, Step
from runs.paging import page
from runs.services.opening import check_session, heartbeat
from runs.states import KIND_ORDER, OffPlan, Overlap, RunState, StepState
from sagaboard.accounts.models import Token
from sagaboard.quick import Prepared

# What `_pin` and `_write` set.
_ASKED = (
    *("planned_kind", "kind", "audience", "read_by", "version", "leaves_effect", "args", "why", "asked_by", "prepared"),
    *("args_digest", "identity_digest", "key", "call_key", "touches"),
    *("state", "closed_why", "requested_at", "error", "ended_at", "due_at", "intent_seq"),
)
# What was asked for already and has not ended without effect.
STANDS = frozenset(StepState) - {StepState.PLANNED, StepState.SKIPPED, StepState.FAILED}

_NAMED = Prepared(lambda run, ref: Step.objects.filter(run=run, ref=ref), -1, "sample")


def _governed(name: str, run: int) -> QuerySet[CapabilityRecord]:
    """The capability's row, and of the run how many steps are open and whether a check was reported."""
    pending = Step.objects.pending().filter(run=run).order_by().values("run").annotate(found=Count("pk")).values("found")
    reported = Check.objects.filter(run=run).exclude(state="pending")
    found = CapabilityRecord.objects.filter(name=name)
    return found.annotate(pending=Coalesce(Subquery(pending), 0), reported=Exists(reported))


_RECORD = Prepared(_governed, "sample", -1)


@dataclasses.dataclass(frozen=True)
class Asked:
    """The step that is meant; `new` if this call made the intent, `replayed` if an Idempotency-Key was seen before."""

    step: Step
    new: bool
    replayed: bool = False


@dataclasses.dataclass(frozen=True)
class Request:
    """One call as the agent put it, validated against the capability's `Args`."""

    capability: Capability[Any]
    args: dict[str, Any]
    known: Any
    ref: str | None
    why: str
    idempotency_key: str | None

    @property
    def fingerprint(self) -> str:
        return keys.digest([self.capability.name, self.ref, self.args])

    @property
    def identity(self) -> str:
        return keys.digest(keys.identity(self.capability, self.args))


def request_step(
    run: Run,
    *,
    token: Token,
    capability: str,
    args: dict[str, Any],
    ref: str | None = None,
    why: str = "",
    idempotency_key: str | None = None,
    session: int | None = None,
) -> Asked:
    """The step this call is, asked for now or before; Refused, saying what to do, when it may not run."""
    request = _validated(capability, args, ref, why, idempotency_key)
    try:
        with locked_run(run.pk) as locked:
            check_session(locked, session)
            return _replayed(locked, token, request) or _ask(locked, token, request)
    except OverBudget as exc:
        _fail_over_budget(run, exc, token)
        raise
    except NoEffect as exc:
        # The capability's own code, asked what the call would be, knows no such target or recipient.
        raise Invalid(f"{capability} can't be called with these arguments: {exc.reason}. Nothing was done.") from exc


def _fail_over_budget(run: Run, exc: OverBudget, token: Token) -> None:
    """In a transaction of its own, since the refused call's was rolled back. An agent that loops is told to people once."""
    with locked_run(run.pk) as locked:
        if locked.is_going_forward:
            lifecycle.fail(locked, f"{token.name} used up its budget of {rules_of(token).steps_per_run} steps.")
            if not locked.steps.in_effect().exists():
                page(locked, "its budget is used up", exc.detail)


def _validated(name: str, args: dict[str, Any], ref: str | None, why: str, key: str | None) -> Request:
    capability = registry.find(name)
    if capability is None:
        raise Invalid(f"No capability is called “{name}”. GET /api/v1/capabilities lists them.")
    problems = planning.wrong_arguments(capability, args, complete=True)
    if problems:
        raise Invalid(f"The arguments of {name} don't fit: {'; '.join(problems)}.", problems=problems)
    return Request(capability, args, planning.validated(capability, args), ref, why, key)


def _replayed(run: Run, token: Token, request: Request) -> Asked | None:
    """The answer to the same Idempotency-Key, if it was used before by this token."""
    if request.idempotency_key is None:
        return None
    used = IdempotencyKey.objects.select_related("step").filter(token=token, key=request.idempotency_key).first()
    if used is None:
        return None
    if used.run_id != run.pk or used.step is None or used.fingerprint != request.fingerprint:
        raise KeyReused("This Idempotency-Key was used for another call. Use a new key for a new call; nothing was done.")
    heartbeat(run)
    return Asked(used.step, new=False, replayed=True)


def _ask(run: Run, token: Token, request: Request) -> Asked:
    step, new = _meant(run, request)
    if new:
        _check_open(run)
        record = _record(request, run)
        _check_limits(run, token, step, record)
        step = _request(run, token, request, step, record)
    else:
        heartbeat(run)
    if request.idempotency_key is not None:
        _remember(token, request, run, step)
    return Asked(step, new=new)


def _remember(token: Token, request: Request, run: Run, step: Step) -> None:
    """Takes the key for this call; KeyReused if another run of this token took it between our look and now."""
    ours = IdempotencyKey(token=token, key=request.idempotency_key or "", fingerprint=request.fingerprint, run=run, step=step)
    # Waits for whoever takes the same key right now. An error instead would end this transaction.
    IdempotencyKey.objects.bulk_create([ours], ignore_conflicts=True)
    if not IdempotencyKey.objects.filter(token=token, key=ours.key, run=run, step=step).exists():
        raise KeyReused("This Idempotency-Key was used for another call. Use a new key for a new call; nothing was done.")


def _meant(run: Run, request: Request) -> tuple[Step, bool]:
    """Which step is meant, in the order of DESIGN.md 6, and whether it is to be asked for now."""
    if request.ref is not None:
        named = _NAMED.first(run.pk, request.ref)
        if named is not None:
            named.run = run
            return _by_ref(named, request)
    steps = list(run.steps.as_planned())
    if request.ref is not None:
        return _off_plan(run, steps, request), True
    digest = keys.digest(request.args)
    for step in steps:
        if step.capability == request.capability.name and step.args_digest == digest and step.key:
            return step, step.state == StepState.FAILED
    for step in steps:
        if step.state == StepState.PLANNED and _fits(step, request):
            return step, True
    for step in steps:
        came_to_nothing = step.state == StepState.FAILED or _is_sent_back(step)
        if step.capability == request.capability.name and step.identity_digest == request.identity and came_to_nothing:
            return step, True
    return _off_plan(run, steps, request), True


def _by_ref(step: Step, request: Request) -> tuple[Step, bool]:
    if step.capability != request.capability.name:
        raise Improvised(
            f"The plan's {step.ref} is {step.capability}, not {request.capability.name}. Ask for it as planned, or without a ref.",
            step=step.number,
        )
    if step.state == StepState.SKIPPED:
        raise NotOpen(f"{step.ref} was skipped: {step.error}.")
    if step.state == StepState.PLANNED and not _fits(step, request):
        raise Improvised(f"The plan holds other arguments for {step.ref}: {step.args}. Ask for it with those.", step=step.number)
    if step.state in (StepState.PLANNED, StepState.FAILED):
        return step, True
    if step.args_digest == keys.digest(request.args):
        return step, False
    if _is_sent_back(step):
        return step, True
    raise _improvised(step)


def _is_sent_back(step: Step) -> bool:
    """A gate that a reviewer gave back to the agent. The same call again meets the rejection, another is asked for anew."""
    return step.state == StepState.CLOSED and step.closed_why == "rejected" and step.needs_result


def _fits(step: Step, request: Request) -> bool:
    """Whether what the plan knows of this step's arguments is as asked for."""
    if step.capability != request.capability.name:
        return False
    return all(name in request.args and keys.digest(request.args[name]) == keys.digest(value) for name, value in step.args.items())


def _off_plan(run: Run, steps: list[Step], request: Request) -> Step:
    """A step for a call that the plan does not hold; refused if it is a variation on one that ran, or by policy."""
    mine = request.identity
    for step in steps:
        if step.capability == request.capability.name and step.state in STANDS and (step.planned or step.identity_digest == mine):
            raise _improvised(step)
    if run.has_plan and run.off_plan == OffPlan.REFUSE:
        _check_open(run)
        raise OffPlanCall(
            f"The plan holds no such call of {request.capability.name}, and this run's policy refuses others. "
            f"Ask for a planned one (GET /runs/{run.number} lists what remains), or fail the run."
        )
    number = max((step.number for step in steps), default=0) + 1
    return Step(run=run, number=number, ref=request.ref, capability=request.capability.name, planned=False)


def _improvised(step: Step) -> Improvised:
    use = "Ask for it anew under its ref" if _is_sent_back(step) else "Use what it left"
    return Improvised(
        f"Step {step.number} of this run already is a {step.capability}, and it is {step.get_state_display().lower()}. "
        f"{use}; this call was not made.",
        step=step.number,
        ref=step.ref,
        state=step.state,
        args=step.args,
        effect=step.effect,
    )


def _check_open(run: Run) -> None:
    if run.state not in (RunState.OPEN, RunState.CHECKING):
        raise NotOpen(
            f"Run {run.number} is {run.get_state_display().lower()}; nothing more is called in it. "
            "Open a new run with retry_of to try again.",
            state=run.state,
        )


def _record(request: Request, run: Run) -> Any:
    """The row that governs the capability, as `_governed` reads it; refused where people disabled it."""
    name = request.capability.name
    record: Any = _RECORD.first(name, run.pk)
    if record is None or record.disabled_at or record.missing_since:
        raise Invalid(f"{name} is disabled{f': {record.disabled_why}' if record else ''}. Ask an admin, or skip the step.")
    return record


def _check_limits(run: Run, token: Token, step: Step, record: Any) -> None:
    rules = rules_of(token)
    if record.pending >= rules.open_steps:
        raise TooMany(f"{rules.open_steps} steps of this run are open already. Wait for some to end.", retry_after=2, limit="open_steps")
    if step._state.adding and run.steps.count() >= rules.steps_per_run:
        raise OverBudget(
            f"The budget of this run, {rules.steps_per_run} steps, is used up; the run is over, and a person was told.",
            retry_after=3600,
            limit="steps_per_run",
        )


def _check_waiting(run: Run, token: Token) -> None:
    """People's attention is bounded: over all its runs an agent has only so many calls waiting for them."""
    most = rules_of(token).waiting_items
    waiting = Step.objects.filter(run__in=Run.objects.unfinished().filter(token=run.token_id), state=StepState.QUEUED)
    if waiting.count() >= most:
        says = f"{most} calls of this agent wait for people already. Wait until some are decided."
        raise TooMany(says, retry_after=60, limit="waiting_items")


def _request(run: Run, token: Token, request: Request, step: Step, record: Any) -> Step:
    """Writes the intent: the step's row, its entry, and, for what can't be taken back, its place in the outbox."""
    capability = request.capability
    retries = step.state == StepState.FAILED
    if retries and step.tries >= capability.retry.attempts:
        says = f"Step {step.number} failed {step.tries} times and is not tried again. Skip it with a reason, or fail the run."
        raise Refused(says)
    how = registry.effective(capability, record, request.known, proof=False if run.is_drill else None)
    _pin(run, token, step, request, record, how)
    if step.is_irreversible:
        _check_waiting(run, token)
    # Claimed also by what waits for a person: once let through it runs without another look.
    held, warned = _touch(run, step)
    hold = "; ".join(filter(None, [_holds(run, step), held]))
    _back_to_pending(run, reported=record.reported)
    if hold:
        _write(run, step, StepState.ON_HOLD, token, why_held=hold, warned=warned)
        return step
    waits = step.is_irreversible
    _write(run, step, StepState.QUEUED if waits else StepState.REQUESTED, token, warned=warned)
    if waits:
        signals.step_queued.send(Step, run=run, step=step, payload=capability.render(request.known) if capability.has("render") else None)
    else:
        dispatch.invoke(step)
    return step


def _pin(run: Run, token: Token, step: Step, request: Request, record: CapabilityRecord, how: registry.Effective) -> None:
    step.planned_kind = step.kind if step.planned else ""
    step.kind, step.audience, step.read_by = how.kind, how.audience, how.read_by
    step.version, step.leaves_effect = record.version, request.capability.leaves_effect
    step.args, step.why, step.asked_by_id = request.args, request.why, token.person_id
    if step.args_digest != keys.digest(request.args):
        # What was prepared for other arguments would undo the wrong thing.
        step.prepared = None
    step.args_digest, step.identity_digest = keys.digest(request.args), request.identity
    step.key = keys.intent(request.capability, step.ref, request.args)
    step.call_key = keys.of_call(run.nonce, step.key, step.args_digest)
    step.touches = isolation.touched(request.capability, request.known)


def _holds(run: Run, step: Step) -> str:
    """Why a person must let this call through first; "" if none must."""
    if not step.planned and run.has_plan and run.off_plan == OffPlan.HOLD:
        return "the plan does not hold it"
    if step.planned_kind and KIND_ORDER.index(step.kind) > KIND_ORDER.index(step.planned_kind):  # type: ignore[arg-type]
        return f"it is {step.kind}, stricter than the {step.planned_kind} that the plan showed"
    return ""


def _touch(run: Run, step: Step) -> tuple[str, str]:
    """Claims what the call touches. Another unfinished run's claim refuses it, holds it or is warned of, as policy says.

    Returns why it is held, and what the log warns of.
    """
    taken = isolation.claim(run, step)
    if taken is None:
        return "", ""
    resource, other = taken
    says = f"run {other} still has an effect on {resource}"
    if run.overlap == Overlap.REFUSE:
        raise Overlaps(f"{says[0].upper()}{says[1:]}. Wait until it has ended, or choose something else.", run=other)
    return (says, "") if run.overlap == Overlap.HOLD else ("", says)


def _back_to_pending(run: Run, *, reported: bool) -> None:
    """A step asked for later sets the checks back: they judged something else."""
    if run.state == RunState.CHECKING:
        run.move(RunState.OPEN)
    if reported:
        run.checks.exclude(state="pending").update(state="pending", reported_at=None)


def _write(run: Run, step: Step, state: StepState, token: Token, *, why_held: str = "", warned: str = "") -> None:
    step.state, step.requested_at, step.error, step.ended_at, step.due_at = state, run.now, why_held, None, None
    step.closed_why = ""
    # What waits is undone in the order in which it really began, which its first step.started says.
    step.intent_seq = run.next_seq() if state == StepState.REQUESTED else None
    if step._state.adding:
        step.save()
        saves: tuple[str, ...] = ()
    else:
        saves = _ASKED
    event = {StepState.ON_HOLD: "step.on_hold", StepState.QUEUED: "step.queued"}.get(state)
    names = ("capability", "version", "key", "call_key", "args", "kind", "audience", "ref", "why", "touches")
    facts = {name: getattr(step, name) for name in names} | ({"warned": warned} if warned else {})
    run.append("step.requested", step=step, actor=f"token:{token.name}", saves=saves, **facts)
    if event:
        run.append(event, step=step, why=why_held)


def skip_step(
    run: Run, *, token: Token, reason: str, ref: str | None = None, number: int | None = None, session: int | None = None
) -> Step:
    """A planned step is not needed; one that failed is given up. `number` reaches a call that has no ref."""
    if (ref is None) == (number is None):
        raise Invalid("Say which step: its ref, or its number where it has none.")
    with locked_run(run.pk) as locked:
        check_session(locked, session)
        heartbeat(locked)
        _check_open(locked)
        step = locked.steps.filter(Q(ref=ref) if ref is not None else Q(number=number)).first()
        if step is None:
            raise Invalid(f"The plan holds no “{ref}”." if ref is not None else f"There is no step {number}.")
        if step.state == StepState.SKIPPED or (step.state == StepState.CLOSED and step.closed_why == "dropped"):
            return step
        if step.state == StepState.FAILED:
            lifecycle.close(locked, step, "dropped", actor=f"token:{token.name}", said=reason)
            return step
        if step.state != StepState.PLANNED:
            named = ref or f"Step {number}"
            raise Refused(f"{named} was asked for already and is {step.get_state_display().lower()}; it can't be skipped.")
        step.error, step.ended_at = reason, locked.now
        step.move(StepState.SKIPPED, "error", "ended_at")
        locked.append("step.closed", step=step, actor=f"token:{token.name}", why="skipped", said=reason)
        return step
