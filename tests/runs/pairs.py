"""Twelve things that can happen to a run, the scenes in which two of them meet, and what came of it in words to compare."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import re
from collections.abc import Callable
from typing import Any

from outbox import receivers as outbox_receivers
from outbox import services as outbox
from outbox.models import Item, Policy
from runs import services
from runs.engine import claim, compensate, invoke, record, sweep
from runs.engine.attempt import Attempt
from runs.models import Run, Step
from runs.states import WAITS_FOR_WORKER, RunState, StepState
from tests.checker import forged
from tests.factories import ask, do, make_run
from tests.outbox.scenes import item_of
from tests.tools import world

LONG_AGO = dt.timedelta(hours=1)


@dataclasses.dataclass
class Scene:
    """A run in which two actions can meet, and what they need to know of it."""

    run: Run
    people: dict[str, Any]
    # The step that a worker would claim, the one a person would settle, and the attempt whose worker comes back late.
    claims: str = ""
    settles: str = ""
    how: str = "never_happened"
    late: Attempt | None = None
    decides: str = "gate"
    fate: str = "compensate"
    # The digest that both had on their screens.
    read: str = ""
    claimed: list[Attempt] = dataclasses.field(default_factory=list)

    def step(self, ref: str) -> Step:
        return self.run.steps.get(ref=ref)

    def look(self) -> None:
        self.read = next(iter(Item.objects.filter(step__run=self.run, step__ref=self.decides).values_list("digest", flat=True)), "")

    def item(self) -> Item:
        return item_of(self.run, self.decides)


# The actions. Each is one transaction behind the run's lock, whatever it looks at before; `who` is 0 for the first of two.
def _claim(scene: Scene, who: int) -> bool:
    step = scene.step(scene.claims)
    take = claim.to_look if step.state in (StepState.RUNNING, StepState.UNKNOWN) else claim.to_do
    attempt = take(scene.run.pk, step.pk)
    if attempt is not None:
        scene.claimed.append(attempt)
    return attempt is not None


def _finish(scene: Scene, who: int) -> str:
    return services.finish_run(scene.run, token=scene.run.token).state


def _fail(scene: Scene, who: int) -> str:
    return services.fail_run(scene.run, token=scene.run.token, reason="given up").state


def _silence(scene: Scene, who: int) -> None:
    sweep.silent_runs()


def _compensate(scene: Scene, who: int) -> None:
    services.compensate_run(scene.run, actor="person:alice", by=scene.people["alice"])


def _settle(scene: Scene, who: int) -> None:
    services.settle_step(scene.step(scene.settles), by=scene.people["alice"], how=scene.how, reason="looked myself")


def _approve(scene: Scene, who: int) -> None:
    item = scene.item()
    outbox.approve(item, digest=scene.read, by=scene.people["alice" if who == 0 else "carol"])


def _reject(scene: Scene, who: int) -> None:
    item = scene.item()
    by = scene.people["alice" if who == 0 else "carol"]
    outbox.reject(item, digest=scene.read, by=by, reason="not now", fate=scene.fate)


def _edit(scene: Scene, who: int) -> None:
    by = scene.people["alice" if who == 0 else "carol"]
    outbox.edit(scene.item(), digest=scene.read, by=by, fields={"value": f"reworded by {by}"})


def _expire(scene: Scene, who: int) -> None:
    outbox_receivers.expire_items(None)


def _withdraw(scene: Scene, who: int) -> None:
    services.stop_run(scene.run, by=scene.people["alice"], reason="wrong ticket")


def _late(scene: Scene, who: int) -> None:
    assert scene.late is not None
    call = scene.late.call
    record.done(scene.late, {"name": call.args.name, "value": call.args.value})


ACTIONS: dict[str, Callable[[Scene, int], Any]] = {
    "claim": _claim,
    "finish": _finish,
    "fail": _fail,
    "silence": _silence,
    "compensate": _compensate,
    "settle": _settle,
    "approve": _approve,
    "reject": _reject,
    "edit": _edit,
    "expire": _expire,
    "withdraw": _withdraw,
    "late effect": _late,
}


# The scenes.
def _put(ref: str, capability: str = "put_thing", **more: Any) -> dict[str, Any]:
    return {"ref": ref, "capability": capability, "args": {"name": ref}, **more}


def _run(people: dict[str, Any], *plan: dict[str, Any]) -> Run:
    run = make_run(token=people["agent"], plan=list(plan))
    # Whichever twin it is: the sweep is to find this one alone.
    Run.objects.exclude(pk=run.pk).filter(state="open").update(last_heard_at=run.opened_at + LONG_AGO)
    return run


def _call(run: Run, ref: str) -> Step:
    planned = run.steps.get(ref=ref)
    return ask(run, planned.capability, args=planned.args, ref=ref).step


def lose(step: Step) -> None:
    """The worker's lease is over, and its call began long ago."""
    past = dt.timedelta(seconds=1)
    step.refresh_from_db()
    assert step.lease_until is not None and step.started_at is not None
    Step.objects.filter(pk=step.pk, lease_until__isnull=False).update(
        lease_until=step.started_at - past, started_at=step.started_at - LONG_AGO
    )


def _overtaken(run: Run, ref: str) -> Attempt:
    """A worker takes the step and is not heard of again; a look finds nothing, since its call is still on the way."""
    step = _call(run, ref)
    attempt = claim.to_do(run.pk, step.pk)
    assert attempt is not None
    lose(step)
    invoke.look(run.pk, step.pk)
    # It arrives after all.
    world.things[attempt.call.args.name] = {"value": attempt.call.args.value, "key": attempt.call.key}
    return attempt


def _unknown(run: Run, ref: str) -> Attempt:
    """A call whose worker was lost, and nothing can look for it."""
    step = _call(run, ref)
    attempt = claim.to_do(run.pk, step.pk)
    assert attempt is not None
    assert record.prepared(attempt, {"was": None})
    lose(step)
    invoke.look(run.pk, step.pk)
    assert run.steps.get(pk=step.pk).state == StepState.UNKNOWN
    return attempt


def _let_edit(run: Run) -> None:
    Item.objects.filter(step__run=run).update(policy=_policy("edited", editable=["*"]))


def working(*refs: str, claims: str = "two", overdue: bool = False) -> Callable[[dict[str, Any]], Scene]:
    """In the middle of its work: one call done, and of the others those named: one to be taken (`two`), one whose worker was
    overtaken (`slow`), one nobody can explain (`lost`), a gate that waits (`gate`), or whose time is over."""
    capabilities = {"two": "put_thing", "slow": "put_thing", "lost": "blind_thing", "gate": "tell_client"}

    def scene(people: dict[str, Any]) -> Scene:
        run = _run(people, _put("one"), *[_put(ref, capabilities[ref], needs_result=ref == "gate") for ref in refs])
        do(run, "one")
        doing = {"slow": _overtaken, "lost": _unknown}
        late = [doing.get(ref, _call)(run, ref) for ref in refs]
        _let_edit(run)
        if overdue:
            Item.objects.filter(step__run=run).update(expires_at=run.opened_at - LONG_AGO)
        attempts = [attempt for attempt in late if isinstance(attempt, Attempt)]
        return Scene(run, people, claims=claims, settles="lost", late=attempts[-1] if attempts else None)

    scene.__name__ = "_".join(["overdue" if overdue else "working", *refs])
    return scene


def quiet(people: dict[str, Any]) -> Scene:
    """The agent is silent: one call done, one that came to nothing as far as anybody knows."""
    run = _run(people, _put("one"), _put("slow"))
    do(run, "one")
    step = _call(run, "slow")
    late = claim.to_do(run.pk, step.pk)
    Step.objects.filter(pk=step.pk).update(tries=3)
    lose(step)
    forged(run, "so that the step's end is not the run's")
    Run.objects.filter(pk=run.pk).update(state="checking")
    invoke.look(run.pk, step.pk)
    Run.objects.filter(pk=run.pk).update(state="open")
    _silent(run)
    return Scene(run, people, late=late)


def _silent(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(last_heard_at=run.opened_at - LONG_AGO)
    Step.objects.filter(run=run, requested_at__isnull=False).update(requested_at=run.opened_at - LONG_AGO)
    Step.objects.filter(run=run, ended_at__isnull=False).update(ended_at=run.opened_at - LONG_AGO)


def ready(people: dict[str, Any]) -> Scene:
    """All is asked for, the check is green, and a call waits for the release; the agent has only to finish. It is silent."""
    run = _run(people, _put("slow"), _put("tell", "tell_client"))
    late = _overtaken(run, "slow")
    invoke.invoke(run.pk, run.steps.get(ref="slow").pk)
    _call(run, "tell")
    _let_edit(run)
    _green(run, people)
    _silent(run)
    return Scene(run, people, late=late, decides="tell", fate="drop")


def _green(run: Run, people: dict[str, Any]) -> None:
    services.report_check(run, token=people["checker"], name="ci", state="success")


def hasty(people: dict[str, Any]) -> Scene:
    """The same; what waits expires at once."""
    scene = ready(people)
    Item.objects.filter(step__run=scene.run).update(policy=_policy("no capability's", open_for=0))
    return scene


def _policy(capability: str, **fields: Any) -> Policy:
    return Policy.objects.update_or_create(capability=capability, audience="", defaults=fields)[0]


def passing(people: dict[str, Any]) -> Scene:
    """The same; what waits needs no yes."""
    run = _run(people, _put("tell", "tell_team"))
    _policy("tell_team", needs_yes=False)
    _call(run, "tell")
    _green(run, people)
    return Scene(run, people, claims="tell")


def plain(people: dict[str, Any]) -> Scene:
    """Everything is done and green, and nothing waits."""
    run = _run(people, _put("one"))
    do(run, "one")
    _green(run, people)
    return Scene(run, people)


def unsure(people: dict[str, Any]) -> Scene:
    """The same, but for a call that nobody can explain."""
    run = _run(people, _put("one"), _put("lost", "blind_thing"))
    do(run, "one")
    _unknown(run, "lost")
    _green(run, people)
    return Scene(run, people, settles="lost")


def failed(people: dict[str, Any]) -> Scene:
    """It failed: one call done, one overtaken, one whose worker is lost."""
    run = _run(people, _put("one"), _put("slow"), _put("lost"))
    do(run, "one")
    late = _overtaken(run, "slow")
    lost = _call(run, "lost")
    assert claim.to_do(run.pk, lost.pk)
    lose(lost)
    services.fail_run(run, token=run.token, reason="given up")
    return Scene(run, people, claims="lost", late=late)


def stuck(people: dict[str, Any]) -> Scene:
    """The way back stopped at what somebody else has changed."""
    scene = failed(people)
    world.things["one"] = {"value": "theirs", "key": "theirs"}
    invoke.look(scene.run.pk, scene.step("lost").pk)
    _compensate(scene, 0)
    compensate.compensate(scene.run.pk)
    return dataclasses.replace(scene, settles="one", how="undone_by_hand")


def released(people: dict[str, Any]) -> Scene:
    """Green, with two calls in front of reviewers."""
    run = _run(people, _put("one"), _put("tell", "tell_client"), _put("also", "tell_client"))
    do(run, "one")
    _call(run, "tell")
    _call(run, "also")
    services.finish_run(run, token=run.token)
    _green(run, people)
    also = item_of(run, "also")
    outbox.approve(also, digest=also.digest, by=people["alice"])
    return Scene(run, people, claims="tell", decides="tell", fate="drop")


def lapsed(people: dict[str, Any]) -> Scene:
    """Everybody said yes, and it was too long ago."""
    scene = released(people)
    scene.look()
    _approve(scene, 0)
    Item.objects.filter(step__run=scene.run).update(expires_at=scene.run.opened_at - LONG_AGO)
    return scene


# Which scenes the two meet in.
PAIRS: dict[tuple[str, str], tuple[Callable[[dict[str, Any]], Scene], ...]] = {
    ("claim", "claim"): (working("two"), working("lost", claims="lost")),
    ("claim", "finish"): (working("two"), passing),
    ("claim", "fail"): (working("two"), working("slow", claims="slow")),
    ("claim", "compensate"): (failed,),
    ("claim", "settle"): (working("lost", claims="lost"),),
    ("claim", "approve"): (working("gate", claims="gate"), released),
    ("claim", "reject"): (working("gate", claims="gate"),),
    ("claim", "edit"): (working("gate", claims="gate"),),
    ("claim", "expire"): (lapsed,),
    ("claim", "withdraw"): (working("two"),),
    ("claim", "late effect"): (working("slow", claims="slow"),),
    ("finish", "finish"): (ready, plain),
    ("finish", "fail"): (ready,),
    ("finish", "silence"): (ready,),
    ("finish", "compensate"): (plain,),
    ("finish", "settle"): (unsure,),
    ("finish", "approve"): (ready,),
    ("finish", "reject"): (ready,),
    ("finish", "edit"): (ready,),
    ("finish", "expire"): (hasty,),
    ("finish", "withdraw"): (ready,),
    ("finish", "late effect"): (ready,),
    ("fail", "fail"): (working("two", "gate"),),
    ("fail", "silence"): (quiet,),
    ("fail", "compensate"): (working("two"),),
    ("fail", "settle"): (working("lost"),),
    ("fail", "approve"): (working("gate"), released),
    ("fail", "reject"): (working("gate"), released),
    ("fail", "edit"): (working("gate"),),
    ("fail", "expire"): (working("gate", overdue=True),),
    ("fail", "withdraw"): (working("two", "gate"),),
    ("fail", "late effect"): (quiet, working("slow")),
    ("silence", "silence"): (quiet,),
    ("silence", "compensate"): (quiet,),
    ("silence", "withdraw"): (quiet,),
    ("silence", "late effect"): (quiet,),
    ("compensate", "compensate"): (failed,),
    ("compensate", "settle"): (stuck,),
    ("compensate", "reject"): (working("gate"),),
    ("compensate", "expire"): (working("gate", overdue=True),),
    ("compensate", "withdraw"): (working("two"),),
    ("compensate", "late effect"): (failed, stuck),
    ("settle", "settle"): (working("lost"), stuck),
    ("settle", "approve"): (working("lost", "gate"),),
    ("settle", "reject"): (working("lost", "gate"),),
    ("settle", "edit"): (working("lost", "gate"),),
    ("settle", "expire"): (working("lost", "gate", overdue=True),),
    ("settle", "withdraw"): (working("lost"),),
    ("settle", "late effect"): (working("lost"), stuck),
    ("approve", "approve"): (working("gate"),),
    ("approve", "reject"): (working("gate"), released),
    ("approve", "edit"): (working("gate"),),
    ("approve", "expire"): (working("gate", overdue=True),),
    ("approve", "withdraw"): (working("gate"), released),
    ("approve", "late effect"): (working("slow", "gate"),),
    ("reject", "reject"): (working("gate"), released),
    ("reject", "edit"): (working("gate"),),
    ("reject", "expire"): (working("gate", overdue=True),),
    ("reject", "withdraw"): (working("gate"),),
    ("reject", "late effect"): (working("slow", "gate"),),
    ("edit", "edit"): (working("gate"),),
    ("edit", "expire"): (working("gate", overdue=True),),
    ("edit", "withdraw"): (working("gate"),),
    ("edit", "late effect"): (working("slow", "gate"),),
    ("expire", "expire"): (working("gate", overdue=True), lapsed),
    ("expire", "withdraw"): (working("gate", overdue=True), lapsed),
    ("expire", "late effect"): (working("slow", "gate", overdue=True),),
    ("withdraw", "withdraw"): (working("two", "gate"),),
    ("withdraw", "late effect"): (working("slow"),),
    ("late effect", "late effect"): (quiet,),
}
# Which never meet, and why.
APART = {
    ("claim", "silence"): "the clock of silence stands while a call waits for a worker or is being made",
    ("silence", "settle"): "the clock stands while a call is unknown, and what else is settled belongs to a run that is stuck",
    ("silence", "approve"): "the clock stands while a gate waits for a person, and after `finish` nobody waits for the agent",
    ("silence", "reject"): "as for approve",
    ("silence", "edit"): "as for approve",
    ("silence", "expire"): "as for approve",
    ("compensate", "approve"): "a run that can be undone has failed or ended, and nothing in it can be approved",
    ("compensate", "edit"): "nor edited",
}


def all_pairs() -> list[tuple[str, str]]:
    return list(itertools.combinations_with_replacement(ACTIONS, 2))


@dataclasses.dataclass
class Outcome:
    """Where everything stands, what the log says happened, and what reached the target: after the two, and at the end."""

    answers: dict[str, str]
    run: list[str]
    steps: list[tuple[Any, ...]]
    items: list[tuple[Any, ...]]
    entries: list[tuple[Any, ...]]
    ledger: list[tuple[str, str]]
    end: tuple[Any, ...] = ()


def outcome(scene: Scene, answers: dict[str, str]) -> Outcome:
    run = Run.objects.get(pk=scene.run.pk)
    steps = run.steps.as_planned()
    return Outcome(
        answers=answers,
        run=[run.state, bool(run.pivot_at), run.failed_why and re.sub(r"\d+", "N", run.failed_why)],
        steps=[(step.ref, step.state, step.closed_why, step.settled_as, step.tries, bool(step.lease_until)) for step in steps],
        items=[
            (
                item.step.ref,
                item.state,
                [(one.verdict, one.by_name, one.voided_at is None) for one in item.decisions.all()],
                item.versions.count(),
            )
            for item in Item.objects.filter(step__run=run).in_order()
        ],
        entries=[
            (entry.event, entry.step and entry.step.ref, re.sub(r"\d+", "N", entry.actor), entry.data.get("how"), entry.data.get("verdict"))
            for entry in run.entries.order_by("seq").select_related("step")
        ],
        ledger=[(what, name) for what, name, _ in world.ledger if what in ("do", "undo", "correct")],
    )


def see_through(scene: Scene) -> None:
    """What was begun goes on to its end, as workers and the sweep would bring it there."""
    for attempt in scene.claimed:
        if attempt.call.payload is not None or scene.step(scene.claims).state == StepState.RUNNING:
            record.done(attempt, attempt.capability.do(attempt.call))
    world.before.clear()
    world.after.clear()
    for _ in range(9):
        before = scene.run.entries.count()
        _go_on(scene.run)
        if scene.run.entries.count() == before:
            return
    raise AssertionError("It never comes to rest.")


def _go_on(run: Run) -> None:
    for step in run.steps.filter(state__in=WAITS_FOR_WORKER | {StepState.QUEUED}).order_by("number"):
        if step.lease_until is not None:
            lose(step)
        if step.state == StepState.RUNNING or (step.state == StepState.UNKNOWN and step.due_at is not None):
            invoke.look(run.pk, step.pk)
        elif step.state in (StepState.REQUESTED, StepState.QUEUED):
            invoke.invoke(run.pk, step.pk)
    if Run.objects.get(pk=run.pk).state == RunState.COMPENSATING:
        compensate.compensate(run.pk)
