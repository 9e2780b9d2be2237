"""Every way in which a run ends badly leads to the same handling; and an undo whose code is gone is never skipped."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from outbox import receivers
from outbox import services as outbox
from outbox.models import Item
from runs import needed, registry, services
from runs.engine import compensate, invoke, sweep
from runs.exceptions import NoEffect, Refused, TooMany
from runs.models import Page, Run, Step
from tests.factories import ask, do, make_run, make_token, make_user, prove
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"ref": "one", "capability": "put_thing", "args": {"name": "one"}}
TWO = {"ref": "two", "capability": "put_thing", "args": {"name": "two"}}
SHOW = {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}
GATE = {"ref": "gate", "capability": "tell_client", "args": {"name": "gate"}, "needs_result": True}


def long_ago(*fields: str) -> None:
    then = timezone.now() - dt.timedelta(hours=3)
    Run.objects.update(**dict.fromkeys(fields, then))
    Step.objects.exclude(requested_at=None).update(requested_at=then)
    Step.objects.exclude(ended_at=None).update(ended_at=then)


class Ways:
    """Ends a half-done run, each in one of the ways there are. The second time it must change nothing any more."""

    def __init__(self, run: Run, team: Any) -> None:
        self.run, self.team = run, team
        self.person = make_user("pat", roles=("on-call", "reviewer"), team=team)

    def agent(self) -> None:
        services.fail_run(self.run, token=self.run.token, reason="I give up")

    def red_check(self) -> None:
        services.report_check(self.run, token=make_token(scope="checker", team=self.team), name="ci", state="failure")

    def failed_step(self) -> None:
        world.before["do two"] = lambda call: (_ for _ in ()).throw(NoEffect("refused"))
        for _ in range(3):
            do(self.run, "two")

    def silence(self) -> None:
        long_ago("last_heard_at", "opened_at")
        sweep.sweep()

    def deadline(self) -> None:
        if self.run.steps.get(ref="two").state == "planned":
            services.skip_step(self.run, token=self.run.token, ref="two", reason="not needed")
            services.finish_run(self.run, token=self.run.token)
        long_ago("checking_since")
        sweep.sweep()

    def cancel(self) -> None:
        services.stop_run(self.run, by=self.person, reason="wrong ticket")

    def budget(self) -> None:
        ask(self.run, "put_thing", args={"name": "extra"}, ref="extra")


WAYS = ["agent", "red_check", "failed_step", "silence", "deadline", "cancel", "budget"]


@pytest.fixture
def half_done(team):
    """A run with one effect that people can see, its token's rules as given."""

    def make(*plan: dict[str, Any], **rules: Any) -> Run:
        token = make_token(team=team, off_plan="allow", **rules)
        run = make_run(token=token, plan=list(plan) or [SHOW, TWO])
        do(run, plan[0]["ref"] if plan else "show")
        return run

    return make


@pytest.mark.parametrize("policy", ["compensate", "ask"])
@pytest.mark.parametrize("way", WAYS)
def test_eng_08_each_way_to_end_leads_to_the_same_handling(half_done, team, way, policy):
    run = half_done(on_failure=policy, steps_per_run=2)
    ways = Ways(run, team)
    end_twice(ways, way)
    run.refresh_from_db()
    if policy == "ask":
        assert run.state == "failed"
        assert [page.person for page in Page.objects.filter(run=run)] == [ways.person]
        services.compensate_run(run, actor="person:Pat", by=ways.person)
    # What ended the run can't end its way back.
    with_refusals(getattr(ways, way))
    run.refresh_from_db()
    assert run.state == "compensating"
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, world.things, world.calls("undo")) == ("compensated", {}, ["panel"])


def end_twice(ways: Ways, way: str) -> None:
    if way == "budget":
        with pytest.raises(TooMany):
            ways.budget()
    else:
        getattr(ways, way)()
    with_refusals(getattr(ways, way))


def with_refusals(call: Any) -> None:
    with contextlib.suppress(Refused):
        call()


@pytest.mark.parametrize("policy", ["compensate", "ask"])
@pytest.mark.parametrize("way", ["rejected", "expired"])
def test_eng_08_a_gate_that_nobody_lets_through_undoes_what_came_before(half_done, team, way, policy):
    run = half_done(ONE, GATE, on_failure=policy)
    ask(run, "tell_client", args=GATE["args"], ref="gate")
    item = Item.objects.get(step__run=run)
    if way == "rejected":
        outbox.reject(item, digest=item.digest, by=Ways(run, team).person, reason="no", fate="compensate")
    else:
        Item.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))
        receivers.expire_items(None)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, world.things) == ("compensated", {})


def test_eng_08_a_run_over_its_budget_is_told_once_also_where_nothing_is_left(team):
    token = make_token(team=team, off_plan="allow", steps_per_run=1)
    run = make_run(token=token, plan=[ONE])
    for name in ("two", "three", "four"):
        with pytest.raises(Refused):
            ask(run, "put_thing", args={"name": name}, ref=name)
    run.refresh_from_db()
    assert run.state == "failed"
    assert Page.objects.filter(run=run).count() == 1


# ENG-06


def test_eng_06_an_undo_whose_code_is_gone_stops_the_walk_at_its_entry(token, alice, monkeypatch, caplog):
    prove("show_thing")
    run = make_run(token=token, plan=[ONE, SHOW, TWO])
    for ref in ("one", "show", "two"):
        assert do(run, ref).state == "done"
    asked = run.entries.get(event="step.requested", step__ref="show")
    assert asked.data["capability"] == "show_thing"
    assert asked.data["version"] == run.steps.get(ref="show").version
    known = dict(registry.classes())
    del known["show_thing"]
    monkeypatch.setattr(registry, "classes", lambda: known)
    needed.say()
    assert f"Run {run.number} needs show_thing (version {asked.data['version']})" in caplog.text
    services.fail_run(run, token=token, reason="x")
    Page.objects.all().delete()
    for _ in range(2):  # pressing again skips nothing either
        services.compensate_run(run, actor="person:Alice", by=alice)
        compensate.compensate(run.pk)
        run.refresh_from_db()
        assert run.state == "stuck"
        assert [step.state for step in run.steps.as_planned()] == ["done", "undo_failed", "undone"]
    page = Page.objects.filter(run=run).first()
    assert "step 2, show_thing" in page.body
    assert world.calls("undo") == ["two"]
    monkeypatch.undo()
    services.compensate_run(run, actor="person:Alice", by=alice)
    compensate.compensate(run.pk)
    run.refresh_from_db()
    assert (run.state, world.calls("undo")) == ("compensated", ["two", "panel", "one"])


def test_eng_06_a_step_whose_code_is_gone_before_it_ran_is_closed_and_not_called(token, monkeypatch):
    run = make_run(token=token, plan=[ONE])
    step = ask(run, "put_thing", args=ONE["args"], ref="one").step
    known = {name: cls for name, cls in registry.classes().items() if name != "put_thing"}
    monkeypatch.setattr(registry, "classes", lambda: known)
    invoke.invoke(run.pk, step.pk)
    step.refresh_from_db()
    assert (step.state, step.closed_why) == ("closed", "dropped")
    assert "No code defines the capability put_thing" in step.error
