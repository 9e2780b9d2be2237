"""The first sentence of a run's page, for every state: what is out there, who sees it, whether it went past the pivot."""

import dataclasses
import datetime as dt

import pytest

from runs import situation
from runs.facts import Facts
from runs.models import Check, LogEntry, Run, Step
from runs.sections import Told

NOW = dt.datetime(2026, 11, 29, 3, 4, 44, tzinfo=dt.UTC)
AGO = NOW - dt.timedelta(minutes=11, seconds=3)
NAMES = {"machines": "put_thing", "people": "show_thing", "clients": "tell_client", "none": "read_thing"}


def step(state, reach="machines", *, sends=False, **more):
    """One step, the next of its run."""
    name, kind = NAMES[reach], "irreversible" if sends else "reversible"
    facts = {"state": state, "audience": "machines" if reach == "none" else reach, "kind": kind, "leaves_effect": reach != "none"}
    began = {"intent_seq": 1, "started_at": AGO, "done_at": AGO} if state not in ("planned", "queued", "closed", "requested") else {}
    return Step(capability=name, args={"name": "it"}, read_by=reach, **{**facts, **began, **more})


def facts_of(state, *steps, checks=(), told=(), items=None, **run):
    for number, one in enumerate(steps, 1):
        one.pk, one.number = number, number
    made = Run(pk=4182, title="Add a field", state=state, opened_at=AGO, last_heard_at=NOW - dt.timedelta(seconds=12), **run)
    return Facts(made, list(steps), NOW, items=items or {}, told=list(told), checks=list(checks))


def says(*given, **more):
    return situation.of(facts_of(*given, **more)).sentence


DONE, SEEN, SENT, HELD = step("done"), step("done", "people"), step("sent", "clients", sends=True), step("queued", "clients", sends=True)
WITHDRAWN = step("closed", "clients", sends=True, closed_why="withdrawn")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("open",), "Waiting for the agent. Nothing was done yet."),
        (("open", step("done"), step("done"), step("running"), step("planned")),
         "Step 3 of 4 is running. Two effects exist, machines only. Nothing was sent."),
        (("open", step("done")), "Waiting for the agent’s next call. One effect exists, machines only. Nothing was sent."),
        (("open", step("done"), step("unknown", due_at=NOW + dt.timedelta(seconds=20))),
         "Step 2 may or may not have happened. Looking since 02:53:41; the next look is at 03:05:04. One effect exists, machines only. "
         "Nothing was sent."),
        (("open", step("unknown", due_at=None)),
         "Step 1 may or may not have happened. A person has to say. No effect exists. Nothing was sent."),
        (("open", step("on_hold")), "One call is on hold for a person. No effect exists. Nothing was sent."),
        (("failed", step("done"), step("done"), step("done", "people"), step("closed", sends=True, closed_why="withdrawn")),
         "Three effects are still out there. People can see one of them. Nothing that can’t be taken back was sent."),
        (("failed", step("done", "people")),
         "One effect is still out there. People can see it. Nothing that can’t be taken back was sent."),
        (("failed", step("done")),
         "One effect is still out there. Machines only; no person can see anything. Nothing that can’t be taken back was sent."),
        (("failed", step("failed", "none"), step("planned")), "Failed before it did anything. There is nothing to undo."),
        (("failed", step("undone")), "Failed. Nothing is in effect any more."),
        (("failed", step("done"), step("done"), step("done"), step("sent", "clients", sends=True), step("sent", "clients", sends=True)),
         "Two calls went out and can’t be taken back. Three effects could be."),
        (("failed", step("done"), step("unknown", due_at=None)),
         "Step 2 may or may not have happened. A person has to say. One effect exists, machines only. Nothing was sent."),
        (("compensating", step("undoing"), step("undone", "people")),
         "Undoing step 1, put it. One effect is already back. No person can see anything of this run any more."),
        (("compensating", step("done"), step("done", "people")), "Getting ready to undo. People can still see one of them."),
        (("compensated", step("undone"), step("undone"), step("undone", "people")),
         "Everything is back where it was. Three of three effects undone and verified. Nobody had to be told."),
        (("compensated", step("undone"), step("left_standing", "clients", sends=True)),
         "One effect could not be taken back and stays. One of two effects undone and verified. Nobody had to be told."),
        (("stuck", step("done"), step("undo_failed"), step("undone"), step("undone")),
         "Stopped at step 2: the undo can’t be verified. Two effects are back, two are not."),
        (("stuck", step("drifted")), "Stopped at step 1: somebody changed it since. Nothing is back yet, one effect is out there."),
        (("succeeded", step("done"), step("sent", "clients", sends=True)),
         "Done as planned. One effect stays, as planned. One call went out."),
        (("left_standing", step("left_standing", "people")), "One effect stays on purpose. Nobody had to be told."),
        (("checking", step("done")),
         "The agent is done. No check decides this run: a person has to say that it is good. One effect exists, machines only. "
         "Nothing was sent."),
    ],
)  # fmt: skip
def test_the_sentence(given, sentence):
    run = {"compensating_since": AGO} if given[0] == "stuck" else {}
    assert says(*given, **run) == sentence


def test_a_call_that_waits_for_a_person_is_said():
    held = [step("done"), step("queued", "clients", sends=True)]
    items = {2: {"state": "awaiting"}}
    assert says("releasing", *held, items=items) == (
        "Everything before the pivot is done. One call waits for a person. Nothing was sent yet."
    )
    assert says("open", step("queued", "clients", sends=True, needs_result=True), items={1: {"state": "awaiting"}}).startswith(
        "Everything before the gate is done. One call waits for a person."
    )


def test_checks_are_named():
    waiting = [Check(name="ci", state="pending"), Check(name="monitor", state="success")]
    assert "Waiting for ci." in says("checking", step("done"), checks=waiting)
    assert "ci is red and may still turn green." in says("checking", step("done"), checks=[Check(name="ci", state="failure")])


def test_who_was_told_is_counted_by_what_was_sent():
    sent, due = Told("Meera", "flag", "a note", state="sent"), Told("Ana", "flag", "a note", state="draft")
    assert says("compensated", step("undone", "people"), told=[sent]).endswith("One person was told.")
    assert says("compensated", step("undone", "people"), told=[sent, due]).endswith("One person is to be told.")
    dismissed = dataclasses.replace(sent, state="dismissed")
    assert says("compensated", step("undone", "people"), told=[dismissed]).endswith("Nobody was told.")


def test_a_send_that_failed_is_where_it_stopped():
    assert (
        says("stuck", step("sent", sends=True), step("failed", sends=True)) == "Stopped at step 2: it could not be sent. One call went out."
    )


def test_silence_has_a_bound_that_is_said():
    assert situation.of(facts_of("open")).why == "Last heard 03:04:32; after 5 min of silence the run is failed."


def test_who_will_be_told_is_said_while_it_is_undone():
    known = facts_of("compensating", step("done", "people"))
    known.to_tell = [Told("Meera", "flag", "a note")]
    fact = situation.of(known).facts[3]
    assert (fact.label, fact.value, fact.small) == ("To be told", "1", "Meera")


def test_an_audience_that_nobody_owns_is_named_and_not_counted_as_told():
    known = facts_of("compensating", step("done", "people"))
    nobodys = Told("a note", "flag", "a note", owned=False, reaches=False, audience="qa-cohort")
    known.to_tell = [Told("Meera", "flag", "a note"), nobodys]
    fact = situation.of(known).facts[3]
    assert (fact.value, fact.small, fact.tone) == ("1", "Meera · nobody owns “qa-cohort”", "hot")


def test_paused_is_not_failed():
    assert says("stuck", step("done"), compensating_since=AGO, stopped_why="Paused by a person.").startswith("Paused by a person.")


def test_the_four_facts_of_a_failed_run():
    withdrawn = step("closed", "clients", sends=True, closed_why="withdrawn", ref="ticket")
    found = situation.of(
        facts_of("failed", step("done", ref="branch"), step("done", "people", ref="flag"), withdrawn, failed_why="CI died", failed_at=AGO)
    )
    assert [(fact.label, fact.value, fact.small, fact.tone) for fact in found.facts] == [
        ("In effect", "2", "branch, flag", ""),
        ("Visible to people", "1", "people", "hot"),
        ("Withdrawn, never sent", "1", "ticket", ""),
        ("Sent past the pivot", "0", "nothing went out", "good"),
    ]
    assert found.facts[1].since == AGO
    assert found.why == "CI died. Failed 02:53:41."


def test_the_meter_counts_what_is_back():
    known = facts_of("compensating", step("undone"), step("undoing"), step("done"))
    known.__dict__["usual"] = {"put_thing": 35.0}
    found = situation.of(known)
    assert found.meter == 33
    assert found.meter_says.startswith("1 of 3 undone and verified · about 1 min 10 s left")


def test_who_compensated_it_is_named():
    known = facts_of("compensated", step("undone"), compensating_since=AGO)
    known.marks = [LogEntry(event="run.compensating", actor="person:Tomas Lindqvist", at=AGO, data={})]
    assert situation.of(known).why == "Compensated by Tomas Lindqvist at 02:53:41. Nothing that can’t be taken back was ever sent."


SETTLED = {"settled_by": "person:Tomas Lindqvist", "settled_why": "I saw to it"}


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        ("verify_undone: still there", "Not everything is known to be back. One of two effects is undone and verified; "
         "one was settled by Tomas Lindqvist, and sagaboard still saw it there. Nobody had to be told."),
        ("verify_undone: gone", "Everything is back where it was. One of two effects is undone and verified; "
         "one was settled by Tomas Lindqvist, and sagaboard saw it gone. Nobody had to be told."),
        ("the look failed: OSError", "Not everything is known to be back. One of two effects is undone and verified; "
         "one was settled by Tomas Lindqvist, and sagaboard could not see it gone. Nobody had to be told."),
    ],
)  # fmt: skip
def test_what_a_person_settled_is_not_called_verified(seen, sentence):
    found = situation.of(facts_of("compensated", step("undone"), step("settled", seen_at_settling=seen, **SETTLED)))
    assert found.sentence == sentence
    assert (found.facts[0].value, found.facts[0].small) == ("1 of 2", "put it · 1 settled by hand")


def test_a_run_with_a_refused_call_is_not_done_as_planned():
    refused = step("closed", "clients", sends=True, closed_why="rejected")
    assert says("succeeded", step("done"), refused) == (
        "Done, but not all of the plan: one call was rejected. One effect stays. Nothing had to go out."
    )


def test_a_step_that_failed_before_the_silence_is_the_cause():
    failed = step("failed", "none", error="CI is red (3 tests)", ended_at=AGO)
    known = facts_of("failed", failed, failed_at=NOW, failed_why="The agent was silent for more than 4 s.")
    assert known.cause == "Step 1, read thing, failed (CI is red (3 tests)); then the agent was silent for more than 4 s."


def test_a_lost_worker_and_an_estimate_that_is_over_are_said():
    late = step("undoing", undo_started_at=AGO)
    known = facts_of("compensating", step("done"), late, lease_until=AGO)
    known.__dict__["usual"] = {"put_thing": 5.0}
    found = situation.of(known)
    assert found.sentence.startswith("A worker was lost; what it did is looked at again.")
    assert "left" not in found.meter_says
    known = facts_of("compensating", step("undoing", undo_started_at=AGO))
    known.__dict__["usual"] = {"put_thing": 5.0}
    assert "left" not in situation.of(known).meter_says


def test_nothing_takes_no_time():
    known = facts_of("compensated", step("undone"), compensating_since=NOW, ended_at=NOW)
    assert "verified, in under 1 s." in situation.of(known).sentence


def test_the_undo_took_as_long_as_since_the_first_press():
    known = facts_of("compensated", step("undone"), compensating_since=NOW, ended_at=NOW)
    known.marks = [LogEntry(event="run.compensating", actor="person:A", at=at, data={}) for at in (AGO, NOW)]
    assert "verified, in 11 min 03 s." in situation.of(known).sentence


def test_what_hides_in_the_reason_is_in_sight():
    found = situation.of(facts_of("failed", step("done"), failed_at=AGO, failed_why="died\u202e\u200b\x00"))
    assert found.said == "Died⟨U+202E⟩⟨U+200B⟩⟨U+0000⟩."
    assert found.ours == "Failed 02:53:41."
