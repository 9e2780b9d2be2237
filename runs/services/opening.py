"""Opening a run, hearing of its agent, and taking one over."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction

from runs import keys, signals
from runs import plan as planning
from runs.clock import Clock
from runs.exceptions import Invalid, KeyReused, NoEffect, NotAllowed, NotOpen, StaleSession
from runs.limits import rules_of
from runs.locking import locked_run
from runs.models import Check, IdempotencyKey, Rules, Run, Step, StoredPayload
from runs.plan import PlannedCall
from runs.sections import sections
from runs.states import OffPlan, OnFailure
from sagaboard.accounts.models import Token, User

# Earlier words are tighter; a request can go that way only.
TIGHTNESS: dict[str, list[str]] = {"off_plan": list(OffPlan), "on_failure": [OnFailure.COMPENSATE, OnFailure.ASK]}

ONCE_IN = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True)
class Opened:
    run: Run
    warnings: list[str]
    replayed: bool = False


def open_run(*, token: Token, title: str, owner: str = "", idempotency_key: str | None = None, **asked: Any) -> Opened:
    """A run under the token's rules. `asked` may hold ticket, plan, checks, patience, on_failure, off_plan, retry_of."""
    if token.run_number:
        raise NotAllowed(f"This token is for run {token.run_number} alone. Open runs with the token of the agent that leads.")
    fingerprint = keys.digest(["POST /runs", title, owner, {name: value for name, value in asked.items() if value is not None}])
    if idempotency_key and (before := _opened_before(token, idempotency_key, fingerprint)):
        return before
    rules = rules_of(token)
    fields = _fields(token, rules, title=title, owner=owner, asked=asked)
    calls = planning.read(asked.get("plan") or [])
    if rules.plan_required and not calls:
        raise Invalid("This token's runs need a plan. Declare the steps you know, with what you know of their arguments.")
    checks = _checks(rules, asked.get("checks") or [])
    # Before anything is written, since code of capabilities is asked.
    warnings = _warnings(calls, token)
    try:
        with transaction.atomic(durable=True):
            run = Run.objects.create(has_plan=bool(calls), **fields)
            if idempotency_key:
                IdempotencyKey.objects.create(token=token, key=idempotency_key, fingerprint=fingerprint, run=run)
            _write(run, calls, checks, token, warnings)
    except IntegrityError:
        # The same request came in twice at once; the other one's run is the answer.
        if idempotency_key and (before := _opened_before(token, idempotency_key, fingerprint)):
            return before
        raise
    return Opened(run, warnings)


def _opened_before(token: Token, key: str, fingerprint: str) -> Opened | None:
    used = IdempotencyKey.objects.select_related("run").filter(token=token, key=key).first()
    if used is None:
        return None
    if used.fingerprint != fingerprint or used.step_id is not None:
        raise KeyReused("This Idempotency-Key was used for another request. Use a new key for a new run; nothing was done.")
    return Opened(used.run, _warned(used.run), replayed=True)


def _warnings(calls: list[PlannedCall], token: Token) -> list[str]:
    try:
        return planning.warnings(calls, sections.owned_audiences(), token.team_id)
    except NoEffect as exc:
        raise Invalid(f"The plan can't be used: {exc.reason}. Nothing was done.") from exc


def _warned(run: Run) -> list[str]:
    """What the first answer warned of."""
    warnings: list[str] = declared(run).get("warnings", [])
    return warnings


def declared(run: Run) -> dict[str, Any]:
    """What the run was opened with, as the log has it. A large entry lies beside the log; {} where that was erased."""
    said: dict[str, Any] = run.entries.get(event="run.opened").data
    if "$beside" in said:
        said = StoredPayload.objects.filter(pk=said["$beside"]).values_list("body", flat=True).first() or {}
    return said


def _fields(token: Token, rules: Rules, *, title: str, owner: str, asked: dict[str, Any]) -> dict[str, Any]:
    patience = asked.get("patience")
    if patience is not None and not 0 < patience <= rules.patience:
        raise Invalid(f"patience: this token's runs may be silent for at most {rules.patience} s, and at least 1.")
    return {
        "team": token.team,
        "title": title,
        "ticket": asked.get("ticket") or "",
        "agent": token.name,
        "token": token,
        "opened_by": token.person,
        "owner": _owner(token, rules, owner),
        "off_plan": _tighter("off_plan", rules.off_plan, asked.get("off_plan")),
        "on_failure": _tighter("on_failure", rules.on_failure, asked.get("on_failure")),
        "overlap": rules.overlap,
        "patience": patience or rules.patience,
        "check_grace": rules.check_grace,
        "retry_of": _retried(token, asked.get("retry_of")),
    }


def _owner(token: Token, rules: Rules, username: str) -> User:
    may = rules.owners.filter(is_active=True) if rules.pk and rules.owners.exists() else token.team.members.filter(is_active=True)
    if not username:
        return token.person
    owner = may.filter(username=username).first()
    if owner is None:
        names = ", ".join(may.order_by("username").values_list("username", flat=True)[:20])
        raise Invalid(f"owner: “{username}” may not own this token's runs. These may: {names or 'nobody; ask an admin'}.")
    return owner


def _tighter(field: str, rule: str, asked: str | None) -> str:
    if asked is None:
        return rule
    order = TIGHTNESS[field]
    if asked not in order:
        raise Invalid(f"{field}: want one of {', '.join(order)}.")
    if order.index(asked) > order.index(rule):
        raise Invalid(f"{field}: this token's rules say “{rule}”; a run can only be stricter than that.")
    return asked


def _retried(token: Token, number: int | None) -> Run | None:
    if number is None:
        return None
    run = Run.objects.filter(team=token.team, pk=number).first()
    if run is None:
        raise Invalid(f"retry_of: there is no run {number} of this team.")
    return run


def _checks(rules: Rules, asked: Iterable[str]) -> list[str]:
    return sorted({*rules.required_checks, *asked})


def _write(run: Run, calls: list[PlannedCall], checks: list[str], token: Token, warnings: list[str]) -> None:
    Check.objects.bulk_create([Check(run=run, name=name) for name in checks])
    Step.objects.bulk_create([_planned(run, number, call) for number, call in enumerate(calls, 1)])
    plan = [
        {
            "ref": call.ref,
            "capability": call.capability.name,
            "kind": call.effective.kind,
            "args": call.args,
            "needs_result": call.needs_result,
        }
        for call in calls
    ]
    facts: dict[str, Any] = {"title": run.title, "plan": plan, "checks": checks, "owner": str(run.owner), "warnings": warnings}
    run.append("run.opened", actor=f"token:{token.name}", **facts)
    signals.run_opened.send(Run, run=run)


def _planned(run: Run, number: int, call: PlannedCall) -> Step:
    return Step(
        run=run,
        number=number,
        ref=call.ref,
        capability=call.capability.name,
        planned=True,
        needs_result=call.needs_result,
        kind=call.effective.kind,
        audience=call.effective.audience,
        read_by=call.effective.read_by,
        leaves_effect=call.capability.leaves_effect,
        args=call.args,
    )


def heartbeat(run: Run, *, session: int | None = None) -> None:
    """The agent is still there; written down once a second at most, so that polling costs a look and not a write."""
    check_session(run, session)
    Run.objects.filter(pk=run.pk, last_heard_at__lt=Clock() - ONCE_IN).going_forward().update(last_heard_at=Clock())


def check_session(run: Run, session: int | None) -> None:
    """StaleSession if the caller says that it is an agent whose run another one has taken over since."""
    if session is not None and session != run.session:
        raise StaleSession(
            f"This run was taken over by session {run.session}; yours is {session}. Read GET /runs/{run.number}.",
            session=run.session,
        )


def resume_run(run: Run, *, token: Token) -> Run:
    """A fresh agent takes the run over; calls of older sessions are refused from here."""
    with locked_run(run.pk) as locked:
        if not locked.is_going_forward:
            raise NotOpen(f"Run {run.number} is {locked.get_state_display().lower()}; it can't be resumed. Open a new one with retry_of.")
        locked.session += 1
        locked.last_heard_at = locked.now
        locked.save(update_fields=["session", "last_heard_at"])
        locked.append("run.resumed", actor=f"token:{token.name}", session=locked.session)
        return locked
