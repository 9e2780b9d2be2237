"""The rows of the table, the picture beside it, and the strip in the list."""

import dataclasses
import datetime as dt

from runs import blast_radius, exposure, picture, strip
from tests.runs.pages.test_situation import AGO, NOW, facts_of, step


def table_of(*given, **more):
    return blast_radius.table(facts_of(*given, **more))


def test_rows_are_cut_by_the_pivot_and_keep_their_numbers():
    table = table_of("failed", step("done"), step("closed", "clients", sends=True, closed_why="withdrawn"), step("failed", "none"))
    assert [row.step.number for row in table.above] == [1, 3]
    assert [row.step.number for row in table.below] == [2]
    assert table.crossed_at is None


def test_a_gate_stands_among_what_can_be_undone():
    table = table_of("open", step("done"), step("queued", "clients", sends=True, needs_result=True), step("planned"))
    assert [row.step.number for row in table.above] == [1, 2, 3]
    assert table.below == []


def test_a_row_says_what_the_capability_says():
    row = table_of("failed", step("done", "people")).above[0]
    assert (row.title, row.identifier, row.lives_in, row.read_by) == ("put it", "it", "the shelf", "people")
    assert (row.undo, row.blank, row.reader, row.look, row.node) == ("take it away", False, "eye", "done", "done")
    assert row.is_visible
    assert row.said == "Done"


def test_an_undo_that_is_gone_from_the_code_is_loud():
    gone = step("done")
    gone.capability = "renamed_away"
    row = table_of("failed", gone).above[0]
    assert row.blank
    assert row.undo == "NO UNDO: the capability is gone"


def test_what_the_plan_does_not_know_yet_is_left_open():
    planned = step("planned")
    planned.args = {}
    assert table_of("open", planned).above[0].title == "put …"


def test_the_items_state_is_the_pill_of_a_held_call():
    held = step("queued", "clients", sends=True)
    looks = {
        state: table_of("releasing", held, items={1: {"state": state}}).below[0].look
        for state in ("awaiting", "approved", "expired", "held")
    }
    assert looks == {"awaiting": "awaiting", "approved": "approved", "expired": "expired", "held": "held"}


def test_facts_below_the_pill():
    tried, gone = step("undo_failed", undo_tries=3), step("undone", undone_at=NOW)
    said, going = step("settled", settled_by="person:Sam Okafor", ended_at=NOW), step("undoing", undo_started_at=AGO)
    rows = table_of("stuck", tried, gone, said, going).rows
    assert [(row.fact, row.fact_at, row.fact_since) for row in rows[:3]] == [
        ("tried 3 times", None, None),
        ("verified", NOW, None),
        ("by Sam Okafor", NOW, None),
    ]


def test_exposure_runs_from_done_to_verified_gone():
    seen = exposure.of(step("done", "people"))
    assert seen.is_visible and seen.seconds(NOW) == 663
    gone = exposure.of(step("undone", "people", undone_at=AGO + dt.timedelta(seconds=700)))
    assert gone.was_visible and gone.seconds(NOW) == 700
    assert exposure.of(step("done")).is_machines
    held = exposure.of(step("queued", "clients", sends=True))
    assert held.waits and not held.is_visible
    assert exposure.of(step("sent", "clients", sends=True)).is_endless
    assert exposure.of(step("unknown", "people", done_at=None)).at_most


def test_the_picture_has_a_lane_for_what_people_could_see():
    known = facts_of(
        "failed", step("done"), step("done", "people"), step("closed", "clients", sends=True, closed_why="withdrawn", requested_at=AGO)
    )
    drawn = picture.of(known, blast_radius.table(known))
    assert [lane.label for lane in drawn.lanes] == ["2 · put it", "1 · Put it", "3 · Withdrawn from the outbox"]
    assert [lane.right for lane in drawn.lanes] == ["11 min 03 s", "machines only", "not visible"]
    assert drawn.lanes[0].bars[0].cap == "open"
    assert drawn.says.startswith("Put it could be seen by people for 11 min 03 s, and still can.")
    assert all(value.endswith("%") for tick in drawn.ticks for value in [tick.x])
    assert [lane.y for lane in drawn.lanes] == [48, 94, 140]


def test_many_lanes_are_counted_instead_of_drawn():
    known = facts_of("failed", *[step("done", "people") for _ in range(20)])
    drawn = picture.of(known, blast_radius.table(known))
    assert len(drawn.lanes) == picture.MOST_LANES
    assert drawn.more == 8


def test_the_strip_draws_the_pivot_before_what_waits():
    steps = facts_of("failed", step("done"), step("done"), step("failed", "none"), step("queued", sends=True)).steps
    drawn = strip.of(steps)
    assert [cell.look for cell in drawn.cells] == ["done", "done", "fail", "held"]
    assert drawn.says == "2 done, 1 failed, 1 held; pivot before the last 1"
    assert drawn.cells[2].x < drawn.pivot < drawn.cells[3].x


def test_many_steps_merge_into_segments():
    steps = facts_of("open", *[step("done") for _ in range(40)], step("running"), *[step("planned") for _ in range(9)]).steps
    drawn = strip.of(steps)
    assert [(cell.look, cell.count) for cell in drawn.cells] == [("done", 40), ("run", 1), ("plan", 9)]
    assert all(cell.width >= 10 for cell in drawn.cells)


def test_a_run_without_steps_has_a_strip_too():
    assert dataclasses.astuple(strip.of([])) == ((), None, 1, "no step yet")


def test_while_a_run_is_undone_the_next_step_is_told_from_those_behind_it():
    steps = [step("done"), step("done"), step("undoing"), step("undone", "people")]
    for seq, one in enumerate(steps):
        one.intent_seq = seq

    def said(state, **more):
        known = facts_of(state, *steps)
        for name, value in more.items():
            setattr(known.run, name, value)
        return [row.fact for row in blast_radius.table(known).above][:2]

    assert said("compensating") == ["in effect", "in effect, next"]
    assert said("failed") == ["in effect", "in effect"]
    assert said("compensating", undo_to="two") == ["in effect", "in effect"]
    assert said("stuck", compensating_since=NOW) == ["in effect, waits", "in effect, waits"]
