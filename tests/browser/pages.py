"""Every page in every state in which people meet it: what the pictures, axe and the narrow screen go through."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from corrections import delivery
from corrections import services as corrections
from corrections.models import Audience, Correction
from outbox import services as outbox
from outbox.models import Item, Policy
from runs import picture, services
from runs.engine import compensate, invoke
from runs.exceptions import NoEffect
from runs.models import CapabilityRecord, OutsideTool, Run, Step
from runs.services import governing
from runs.services.drilling import start_drill
from runs.tasks import drill_run
from sagaboard.accounts.models import User
from tests.browser.scenes import make_board, make_letters, make_note
from tests.corrections.scenes import SHOWN_TWICE, draft_of, make_retry, make_undone
from tests.factories import ask, do, make_run, make_token, make_user
from tests.outbox.scenes import deliver, item_of, make_released, make_waiting, set_policy
from tests.runs.pages.helpers import failed_run
from tests.runs.pages.scenes import red_run
from tests.tools import world

LONG = "The agent reads the whole conversation again before it says why: " + "one sentence follows another, " * 20
HOSTILE = '<script>alert(1)</script> "onmouseover="x" {{ 7 }} \u202eevil\u200b ' + "withoutasinglespace" * 12


@dataclasses.dataclass(frozen=True)
class Shown:
    """A page: the picture's name, its address, who looks (None: nobody signed in) and the status it comes with."""

    name: str
    address: str
    by: User | None
    status: int = 200


def every_page(team: Any, settings: Any, alice: User, bob: User) -> list[Shown]:
    """Makes what the pages show, by the engine, and lists them. Some capabilities are never called here, only shown."""
    # No worker runs here, and no page is about that.
    settings.LATE_AFTER = 3600
    ada = make_user("ada", roles=("admin", "on-call", "reviewer", "owner"), team=team, first_name="Ada", last_name="Adler")
    alone = make_user("noor", first_name="Noor", last_name="Haddad", roles=("on-call",), team=None)
    return [
        *_without_a_name(),
        Shown("runs-empty", "/runs/", alone),
        *_runs(team, alice, bob, ada),
        *_outbox(team, settings, alice, bob),
        *_corrections(team, alice, ada),
        *_registry(team, settings, alice, ada),
        *_own(alice, bob, ada),
    ]


def break_a_region(monkeypatch: Any) -> None:
    """The picture of one run can't be made."""
    made = picture.of

    def of(known: Any, table: Any) -> Any:
        if known.run.ticket == "BROKEN-1":
            raise ValueError("a picture of nothing")
        return made(known, table)

    monkeypatch.setattr(picture, "of", of)


def _without_a_name() -> Iterator[Shown]:
    yield Shown("login", "/login/", None)
    yield Shown("login-for-a-page", "/login/?next=/runs/1/", None)


def _runs(team: Any, alice: User, bob: User, ada: User) -> Iterator[Shown]:
    red = red_run(team)
    runs = {
        "failed": red,
        "stuck": _stuck(team),
        "drifted": _drifted(team),
        "unknown": _unknown(team),
        "paused": _paused(team, alice),
        "undoing": _pressed(team, "undoing"),
        "undone-to-tell": _undone(team, "untold"),
        "undone": _told(team, "told"),
        "left": _left(team, alice),
        "planned": make_run(token=make_token(team=team), plan=plan_of("planned")),
        "running": _running(team),
        "unplanned": make_run(token=make_token(team=team), plan=[]),
        "on-hold": _on_hold(team),
        "nothing-done": _nothing_done(team),
        "gate": make_waiting(token=make_token(team=team), plan=_with_a_gate()),
        "sent": _sent(team, ada),
        "unsent": _unsent(team, ada),
        "unchecked": _unchecked(team),
        "hostile": _hostile(team),
        "many": _many(team),
        "region-broken": failed_run(team, plan=plan_of("broken"), ticket="BROKEN-1"),
    }
    yield Shown("runs", "/runs/", alice)
    yield Shown("runs-visible", "/runs/?state=visible", alice)
    yield Shown("runs-no-match", "/runs/?q=nothing+like+it&owner=ana", alice)
    for name, run in runs.items():
        yield Shown(f"run-{name}", f"/runs/{run.pk}/", alice)
    yield Shown("run-failed-no-permission", f"/runs/{red.pk}/", bob)
    yield Shown("run-stuck-no-permission", f"/runs/{runs['stuck'].pk}/", bob)
    yield from _undo(runs, alice, ada)
    yield Shown("leave", f"/runs/{red.pk}/leave/", alice)
    yield Shown("pause", f"/runs/{runs['undoing'].pk}/pause/", alice)
    yield Shown("stop", f"/runs/{runs['running'].pk}/stop/", alice)
    yield Shown("confirm", f"/runs/{runs['unchecked'].pk}/confirm/", alice)
    held = runs["on-hold"].steps.get(state="on_hold").number
    yield Shown("refuse", f"/runs/{runs['on-hold'].pk}/steps/{held}/refuse/", alice)
    yield Shown("drop", f"/runs/{runs['unsent'].pk}/steps/3/drop/", alice)
    for name, run, number in (
        ("done", red, 3),
        ("failed", red, 5),
        ("stuck", runs["stuck"], 3),
        ("unknown", runs["unknown"], 3),
        ("unsent", runs["unsent"], 3),
        ("on-hold", runs["on-hold"], held),
        ("hostile", runs["hostile"], 1),
    ):
        yield Shown(f"step-{name}", f"/runs/{run.pk}/steps/{number}/", alice)
    yield Shown("steps", f"/runs/{runs['many'].pk}/steps/?from=1&to=30", alice)
    yield Shown("settle", f"/runs/{runs['stuck'].pk}/steps/3/settle/", alice)
    for name in ("planned", "unplanned", "hostile"):
        yield Shown(f"plan-{name}", f"/runs/{runs[name].pk}/plan/", alice)
    yield Shown("log", f"/runs/{red.pk}/log/", alice)
    yield Shown("log-of-a-step", f"/runs/{red.pk}/log/?step=3", alice)
    for name in ("failed", "undone", "sent", "hostile"):
        yield Shown(f"report-{name}", f"/runs/{runs[name].pk}/report/", alice)


def _undo(runs: dict[str, Run], alice: User, ada: User) -> Iterator[Shown]:
    yield Shown("preview", f"/runs/{runs['failed'].pk}/compensate/", alice)
    yield Shown("preview-looking", f"/runs/{runs['failed'].pk}/compensate/?look=later", alice)
    yield Shown("preview-as-left", f"/runs/{runs['left'].pk}/compensate/", alice)
    yield Shown("preview-stuck", f"/runs/{runs['stuck'].pk}/compensate/", alice)
    yield Shown("preview-drifted", f"/runs/{runs['drifted'].pk}/compensate/", alice)
    yield Shown("preview-past-the-pivot", f"/runs/{runs['unsent'].pk}/compensate/", ada)
    yield Shown("preview-past-the-pivot-no-permission", f"/runs/{runs['unsent'].pk}/compensate/", alice)
    yield Shown("preview-of-what-ended", f"/runs/{runs['undone'].pk}/compensate/", alice)


def plan_of(name: str) -> list[dict[str, Any]]:
    """Two calls that machines read, one that the team sees, one that goes out: of things that no other run touches."""
    return [
        {"ref": "one", "capability": "put_thing", "args": {"name": f"{name} branch"}},
        {"ref": "two", "capability": "put_thing", "args": {"name": f"{name} schema"}},
        {"ref": "show", "capability": "show_thing", "args": {"name": f"{name} panel"}},
        {"ref": "tell", "capability": "tell_client", "args": {"name": f"{name} news", "value": "ready"}},
    ]


def _pressed(team: Any, name: str) -> Run:
    run = failed_run(team, plan=plan_of(name))
    services.compensate_run(run, actor="person:Alice Ahn")
    return run


def _undone(team: Any, name: str) -> Run:
    run = _pressed(team, name)
    compensate.compensate(run.pk)
    return run


def _told(team: Any, name: str) -> Run:
    run = _undone(team, name)
    corrections.dismiss(run.corrections.get(), by=run.owner, reason="Nobody was in.")
    return run


def _stuck(team: Any) -> Run:
    """The undo of its third step does not get through."""
    world.before["undo stuck panel"] = _locked
    run = _undone(team, "stuck")
    world.before.clear()
    return run


def _locked(call: Any) -> None:
    raise RuntimeError("the shelf is locked")


def _drifted(team: Any) -> Run:
    run = _pressed(team, "drifted")
    world.things["drifted panel"]["value"] = "changed by somebody"
    compensate.compensate(run.pk)
    return run


def _unknown(team: Any) -> Run:
    """Its third call was lost on the way back, and nobody can look whether it came through."""
    token = make_token(team=team)
    plan = [
        *plan_of("unknown")[:2],
        {"ref": "blind", "capability": "blind_thing", "args": {"name": "blind"}},
    ]
    run = make_run(token=token, plan=plan)
    do(run, "one")
    do(run, "two")
    world.after["do blind"] = _lost
    do(run, "blind")
    world.after.clear()
    return run


def _lost(call: Any) -> None:
    raise TimeoutError("no answer within 2 s")


def _paused(team: Any, alice: User) -> Run:
    run = _pressed(team, "paused")
    services.pause_run(run, by=alice)
    compensate.compensate(run.pk)
    return run


def _left(team: Any, alice: User) -> Run:
    run = failed_run(team, plan=plan_of("left"))
    services.leave_standing(run, by=alice, reason="The next run needs them.")
    return run


def _running(team: Any) -> Run:
    run = make_run(token=make_token(team=team), ticket="WEB-912", plan=plan_of("running"))
    do(run, "one")
    do(run, "two")
    ask(run, "show_thing", ref="show", args={"name": "running panel"})
    return run


def _on_hold(team: Any) -> Run:
    run = make_run(token=make_token(team=team, off_plan="hold"), plan=plan_of("held")[:1])
    do(run, "one")
    ask(run, "blind_thing", ref="more", args={"name": "what nobody planned"})
    return run


def _nothing_done(team: Any) -> Run:
    token = make_token(team=team)
    run = make_run(token=token, plan=plan_of("nothing"))
    services.fail_run(run, token=token, reason="The agent lost its way before it began")
    return run


def _approve_all(run: Run, by: User) -> None:
    for item in Item.objects.filter(step__run=run):
        outbox.approve(item, digest=item.digest, by=by)


def _going_out(name: str) -> list[dict[str, Any]]:
    """One call that can be undone, and two that tell a client."""
    more = {"ref": "more", "capability": "tell_client", "args": {"name": f"{name} more", "value": "really"}}
    return [*plan_of(name)[:1], *plan_of(name)[3:], more]


def _with_a_gate() -> list[dict[str, Any]]:
    *first, tell = plan_of("gate")
    return [*first, {**tell, "needs_result": True}]


def _sent(team: Any, by: User) -> Run:
    run = make_released(token=make_token(team=team), plan=_going_out("sent"))
    _approve_all(run, by)
    deliver(run)
    return run


def _unsent(team: Any, by: User) -> Run:
    """One call went out, the next was refused until nobody tried any more."""
    run = make_released(token=make_token(team=team), plan=_going_out("unsent"))
    world.before["do unsent more"] = _refused
    _approve_all(run, by)
    for _ in range(5):
        Step.objects.filter(run=run, state="queued").update(due_at=timezone.now())
        deliver(run)
    world.before.clear()
    return run


def _refused(call: Any) -> None:
    raise NoEffect("the portal answered 422: no such client")


def _unchecked(team: Any) -> Run:
    token = make_token(team=team, required_checks=[])
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing", "args": {"name": "unchecked"}}])
    do(run, "one")
    services.finish_run(run, token=token)
    return run


def _hostile(team: Any) -> Run:
    """Everything that an agent can write is long, hostile or both."""
    token = make_token(team=team)
    plan = [{"ref": "one", "capability": "put_thing", "args": {"name": HOSTILE, "value": LONG}}]
    run = make_run(token=token, ticket=HOSTILE[:80], plan=plan)
    Run.objects.filter(pk=run.pk).update(title=HOSTILE[:200], agent=HOSTILE[:80])
    step = ask(run, "put_thing", ref="one", args=plan[0]["args"], why=LONG).step
    invoke.invoke(run.pk, step.pk)
    services.fail_run(run, token=token, reason=HOSTILE + LONG)
    return run


def _many(team: Any) -> Run:
    """Forty steps, of which people see a few."""
    kinds = {True: "show_thing", False: "put_thing"}
    plan = [{"ref": f"s{n}", "capability": kinds[n % 9 == 0], "args": {"name": f"thing {n}"}} for n in range(40)]
    token = make_token(team=team)
    run = make_run(token=token, plan=plan)
    for n in range(30):
        do(run, f"s{n}")
    services.fail_run(run, token=token, reason="CI died")
    return run


def _outbox(team: Any, settings: Any, alice: User, bob: User) -> Iterator[Shown]:
    Policy.objects.exclude(capability="").delete()
    board = make_board(team, settings)
    ticket, tell = item_of(board, "ticket"), item_of(board, "tell")
    held = Item.objects.filter(state="held").latest("pk")
    yield Shown("outbox", "/outbox/", alice)
    yield Shown("outbox-no-permission", "/outbox/", bob)
    yield Shown("outbox-decided", "/outbox/?decided", alice)
    for name, item in (("item", ticket), ("item-held", held)):
        yield Shown(name, item.get_absolute_url(), alice)
    for what in ("approve", "reject", "edit"):
        yield Shown(f"item-{what}", f"{ticket.get_absolute_url()}?confirm={what}", alice)
    yield Shown("item-version", f"/outbox/{tell.pk}/versions/1/", alice)
    first, second, third = make_letters(board.token)[:3]
    yield Shown("bulk", f"/outbox/bulk/?item={first.pk}&item={second.pk}&item={third.pk}&item={tell.pk}", alice)
    yield from _decided(team, alice, bob)


def _decided(team: Any, alice: User, bob: User) -> Iterator[Shown]:
    """What became of an item, as its card says it to whom it concerns."""
    set_policy("tell_client", editable=["value"], quorum=2)
    runs = {name: make_released(token=make_token(team=team), plan=_going_out(name)) for name in ("edited", "yes", "no", "late", "dead")}
    items = {name: item_of(run, "tell") for name, run in runs.items()}
    yield Shown("item-edit-open", f"{items['yes'].get_absolute_url()}?confirm=edit", alice)
    outbox.edit(items["edited"], digest=items["edited"].digest, by=alice, fields={"value": "almost ready"})
    outbox.approve(items["yes"], digest=items["yes"].digest, by=alice)
    outbox.reject(items["no"], digest=items["no"].digest, by=alice, reason="Not before Friday.", fate="compensate")
    Item.objects.filter(pk=items["late"].pk).update(expires_at=timezone.now())
    services.stop_run(runs["dead"], by=alice, reason="The plan was wrong.")
    for name, item in items.items():
        yield Shown(f"item-{name}", item.get_absolute_url(), alice)
    owner = items["late"].step.run.owner
    yield Shown("item-late-owner", items["late"].get_absolute_url(), owner)
    yield Shown("item-drop", f"{items['late'].get_absolute_url()}?confirm=drop", owner)
    yield Shown("item-no-permission", items["edited"].get_absolute_url(), bob)
    sent = Item.objects.filter(state="sent", step__ref="more").latest("pk")
    yield Shown("item-sent", sent.get_absolute_url(), alice)
    yield Shown("item-evidence", f"{sent.get_absolute_url()}evidence/", alice)
    yield Shown("item-gate", Item.objects.get(is_gate=True).get_absolute_url(), alice)
    words = {"name": HOSTILE, "value": "\n".join([LONG] * 300)}
    long = make_released(token=make_token(team=team), plan=[{"ref": "tell", "capability": "tell_client", "args": words}])
    yield Shown("item-long", item_of(long, "tell").get_absolute_url(), alice)


def _corrections(team: Any, alice: User, ada: User) -> Iterator[Shown]:
    note = make_note(team)
    over = _told(team, "nobody").corrections.get()
    held = _undone(team, "back").corrections.get()
    corrections.hold_back(held, by=held.run.owner)
    owner = note.run.owner
    several = draft_of(make_undone(token=make_token(team=team), plan=SHOWN_TWICE))
    world.before["correct"] = _refused
    failed = _gone_out(draft_of(make_undone(token=make_token(team=team))))
    world.before.clear()
    sent = _gone_out(draft_of(make_undone(token=make_token(team=team))))
    make_retry(sent.run)
    Correction.objects.filter(pk=sent.pk).update(replies=2)
    yield Shown("corrections", "/corrections/", owner)
    yield Shown("correction", note.get_absolute_url(), owner)
    for what in ("send", "dismiss"):
        yield Shown(f"correction-{what}", f"{note.get_absolute_url()}?confirm={what}", owner)
    yield Shown("correction-dismissed", over.get_absolute_url(), over.run.owner)
    yield Shown("correction-held", held.get_absolute_url(), held.run.owner)
    yield Shown("correction-several", several.get_absolute_url(), several.run.owner)
    yield Shown("correction-not-delivered", failed.get_absolute_url(), failed.run.owner)
    yield Shown("correction-sent", sent.get_absolute_url(), sent.run.owner)
    yield Shown("corrections-all", "/corrections/", ada)
    yield Shown("corrections-not-told", "/corrections/?state=open&q=panel", ada)
    yield Shown("corrections-no-match", "/corrections/?q=nothing+like+it", ada)
    yield Shown("correction-no-permission", note.get_absolute_url(), alice)
    yield Shown("audiences", "/audiences/", ada)
    yield Shown("audience-new", "/audiences/new/", ada)
    yield Shown("audience", f"/audiences/{Audience.objects.latest('pk').pk}/", ada)
    yield Shown("templates", "/templates/", ada)
    yield Shown("template", "/templates/correction/note/", ada)


def _gone_out(draft: Correction) -> Correction:
    corrections.send(draft, by=draft.run.owner, revision=draft.revision)
    delivery.deliver(draft.run_id, draft.pk)
    return draft


def _registry(team: Any, settings: Any, alice: User, ada: User) -> Iterator[Shown]:
    OutsideTool.objects.create(name="shell_psql", reached_by="builder, by its shell", lives_in="shared staging DB", read_by="machines")
    CapabilityRecord.objects.filter(name="blind_thing").update(proven_version="")
    settings.SAGABOARD_TARGETS = {**settings.SAGABOARD_TARGETS, "sandbox-panel": {"system": "x", "sandbox": True}}
    over, begun = [start_drill("show_thing", {"name": "sandbox-panel"}, by=ada, team=team) for _ in range(2)]
    drill_run(over.pk)
    yield Shown("capabilities", "/capabilities/", ada)
    yield Shown("capabilities-blank", "/capabilities/?state=blank", ada)
    yield Shown("capabilities-no-match", "/capabilities/?q=nothing+like+it", ada)
    yield Shown("capability", "/capabilities/set_flag/", alice)
    blind = CapabilityRecord.objects.get(name="blind_thing")
    governing.disable(blind, by=ada, reason=f"It left things behind that nobody could find. {HOSTILE}")
    yield Shown("capability-disabled", "/capabilities/blind_thing/", ada)
    yield Shown("disable", "/capabilities/put_thing/disable/", ada)
    yield Shown("disable-no-permission", "/capabilities/put_thing/disable/", alice, 403)
    yield Shown("enable", "/capabilities/blind_thing/enable/", ada)
    yield Shown("capability-drilled", "/capabilities/show_thing/", ada)
    yield Shown("drill-all-due", "/drills/", ada)
    yield Shown("drill-nothing-due", "/drills/", alice)
    yield Shown("drill", "/capabilities/show_thing/drill/", ada)
    yield Shown("drill-no-permission", "/capabilities/show_thing/drill/", alice, 403)
    yield Shown("drill-running", f"/capabilities/show_thing/drills/{begun.pk}/", ada)
    yield Shown("drill-over", f"/capabilities/show_thing/drills/{over.pk}/", ada)


def _own(alice: User, bob: User, ada: User) -> Iterator[Shown]:
    yield Shown("me", "/me/", alice)
    yield Shown("audit", "/audit/", alice)
    yield Shown("people", "/people/", ada)
    yield Shown("person", f"/people/{ada.pk}/", ada)
    yield Shown("policies", "/policies/", ada)
    yield Shown("policy-new", "/policies/new/", ada)
    yield Shown("policy", f"/policies/{Policy.objects.earliest('pk').pk}/", ada)
    yield Shown("404", "/nothing/", alice, 404)
    yield Shown("404-run", "/runs/4199/", alice, 404)
    yield Shown("403", "/people/", bob, 403)
