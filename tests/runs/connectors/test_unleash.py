"""set_flag against the world's flag service, whose behaviour is that of Unleash 7.5.1 (the same calls were tried on both)."""

import dataclasses
import json

import pytest

from runs.capability import Message
from runs.connectors.http import Unclear
from runs.connectors.unleash import SetFlag
from runs.exceptions import NoEffect, TryLater, Unreadable

from .calls import OWNER, call_of, configured, done, posts, prepared, writes

FLAG = SetFlag()


def on(segment="qa-cohort", **given):
    return call_of(FLAG, flag="billing_panel_v1", segment=segment, value=True, **given)


def off(segment="qa-cohort", **given):
    return call_of(FLAG, flag="billing_panel_v1", segment=segment, value=False, **given)


def strategies(world):
    return {s["constraints"][0]["values"][0]: s for s in world.reading()["flag"]["strategies"]}


def test_turning_on_for_one_segment_leaves_the_others_and_the_effect_says_what_changed(world):
    before = strategies(world)
    call = done(FLAG, on())
    assert call.effect["before"] == "off"
    assert call.effect["after"] == "on"
    assert FLAG.fill(FLAG.human_signal, call.effect) == "flag billing_panel_v1 turned on for qa-cohort"
    assert strategies(world).keys() == {"dogfood", "qa-cohort"}
    assert strategies(world)["dogfood"] == before["dogfood"]
    assert FLAG.verify_done(call)
    assert not FLAG.verify_undone(call)
    assert len(world.effects("flags")) == 1
    assert world.effects("flags")[0]["key"] == call.key


def test_undoing_restores_the_snapshot_exactly(world):
    before = world.reading()["flag"]
    call = done(FLAG, on())
    FLAG.undo(call)
    assert FLAG.verify_undone(call)
    assert world.reading()["flag"] == before


def test_undoing_twice_calls_once(world):
    call = done(FLAG, on())
    FLAG.undo(call)
    FLAG.undo(call)
    assert [e["method"] for e in world.effects("flags")] == ["POST", "DELETE"]


def test_turning_off_disables_the_strategy_and_undoing_gives_it_back_as_it_was(world):
    world.change("flags", segment="qa-cohort", on=True, rollout=40)
    before = world.reading()["flag"]
    call = done(FLAG, off())
    assert strategies(world)["qa-cohort"]["disabled"]
    assert call.effect["after"] == "off"
    assert FLAG.probe(call) == call.effect
    FLAG.undo(call)
    assert FLAG.verify_undone(call)
    assert world.reading()["flag"] == before


def test_turning_on_what_was_disabled_enables_it_and_undoing_disables_it_again(world):
    world.change("flags", segment="qa-cohort", on=True)
    done(FLAG, off(key="first"))
    before = world.reading()["flag"]
    call = done(FLAG, on(key="second"))
    assert call.effect["after"] == "on"
    FLAG.undo(call)
    assert world.reading()["flag"] == before


@pytest.mark.parametrize("fault", [{"answer": "drop"}, {"answer": "hang", "hang_for": 1}, {"status": 502}, {"answer": "cut"}])
def test_eng_07_an_effect_whose_answer_was_lost_is_found_by_its_mark(world, fault):
    call = prepared(FLAG, on(timeout=0.5))
    world.fault("flags", method="POST", **fault)
    with pytest.raises(Unclear):
        FLAG.do(call)
    found = FLAG.probe(call)
    assert found["after"] == "on"
    assert found["strategy"]
    FLAG.undo(dataclasses.replace(call, effect=found))
    assert FLAG.verify_undone(call)
    assert len(world.effects("flags")) == 2


def test_a_call_that_never_arrived_is_not_found(world):
    call = prepared(FLAG, on())
    world.fault("flags", method="POST", effect=False, answer="drop")
    with pytest.raises(Unclear):
        FLAG.do(call)
    assert FLAG.probe(call) is None


def test_a_lie_is_seen_through(world):
    world.fault("flags", method="POST", effect=False)
    call = done(FLAG, on())
    assert not FLAG.verify_done(call)
    assert FLAG.verify_undone(call)


def test_a_second_attempt_converges_on_the_first_ones_effect(world):
    call = done(FLAG, on())
    assert FLAG.do(call) == call.effect
    assert len(world.effects("flags")) == 1


def test_eng_18_a_strategy_that_somebody_else_made_for_the_same_segment_is_not_ours(world):
    call = prepared(FLAG, on())
    world.change("flags", segment="qa-cohort", on=True)
    assert FLAG.probe(call) is None
    with pytest.raises(NoEffect, match="changed for qa-cohort since the snapshot"):
        FLAG.do(call)
    assert not world.effects("flags")


def test_eng_16_a_change_of_another_segment_survives_the_undo(world):
    call = done(FLAG, on())
    world.change("flags", segment="beta", on=True, rollout=50)
    assert FLAG.verify_done(call)
    FLAG.undo(call)
    assert FLAG.verify_undone(call)
    assert strategies(world).keys() == {"dogfood", "beta"}


def test_eng_16_a_change_of_the_same_segment_is_drift_and_is_not_overwritten(world):
    call = done(FLAG, on())
    world.change("flags", segment="qa-cohort", on=True, rollout=10)
    theirs = world.reading()["flag"]
    assert not FLAG.verify_done(call)
    assert not FLAG.verify_undone(call)
    with pytest.raises(NoEffect, match="someone else"):
        FLAG.undo(call)
    assert world.reading()["flag"] == theirs


def test_eng_14_a_rule_that_a_person_removed_counts_as_undone(world):
    call = done(FLAG, on())
    world.change("flags", segment="qa-cohort", on=False)
    assert FLAG.verify_undone(call)


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_eng_14_only_the_flag_itself_can_say_that_the_rule_is_gone(world, status):
    call = done(FLAG, on())
    world.fault("flags", times=0, status=status)
    for look in (FLAG.verify_undone, FLAG.verify_done, FLAG.probe):
        with pytest.raises(Unreadable):
            look(call)


def test_what_is_so_already_is_refused_in_a_sentence(world):
    with pytest.raises(NoEffect, match="dogfood is on already"):
        FLAG.prepare(on("dogfood"))
    with pytest.raises(NoEffect, match="qa-cohort is off already"):
        FLAG.prepare(off())


def test_what_would_reach_other_segments_is_refused(world):
    with pytest.raises(NoEffect, match="no other live strategy"):
        FLAG.prepare(off("dogfood"))
    world.change("flags", enabled=False)
    with pytest.raises(NoEffect, match="is off in this environment"):
        FLAG.prepare(on())
    assert not world.effects("flags")


def test_a_missing_flag_names_where_it_was_looked_for(world):
    with pytest.raises(NoEffect, match="no flag nope in project default, environment development"):
        FLAG.prepare(call_of(FLAG, flag="nope", segment="qa", value=True))


def test_a_wrong_token_a_dead_host_and_an_unknown_target_are_refusals_a_person_can_act_on(world, settings):
    with pytest.raises(NoEffect, match="There are: flags, flags-sandbox"):
        FLAG.prepare(on(target="flagz"))
    configured(settings, "flags", token_file=None, token="wr0ng")
    with pytest.raises(NoEffect, match="refused the credential") as caught:
        FLAG.prepare(on())
    assert "wr0ng" not in caught.value.reason
    configured(settings, "flags", base_url="http://127.0.0.1:9")
    with pytest.raises(NoEffect, match="Nothing answers at"):
        FLAG.prepare(on())
    assert not world.effects("flags")


def test_slow_down_is_passed_on_by_prepare_and_by_do(world):
    world.fault("flags", status=429, headers={"Retry-After": "30"})
    with pytest.raises(TryLater):
        FLAG.prepare(on())
    call = prepared(FLAG, on())
    world.fault("flags", method="POST", effect=False, status=429, headers={"Retry-After": "30"})
    with pytest.raises(TryLater) as caught:
        FLAG.do(call)
    assert caught.value.after == 30


def test_the_sandbox_is_another_environment(world):
    before = world.reading()
    call = done(FLAG, on(target="flags-sandbox"))
    assert call.effect["environment"] == "sandbox"
    assert world.reading() == before
    FLAG.undo(call)
    assert FLAG.verify_undone(call)


def test_what_is_rendered_is_what_is_sent_but_for_the_key(world):
    call = on()
    rendered = FLAG.render(call.args)
    assert rendered == FLAG.render(call.args)
    assert rendered.to["url"] == f"{world.url}/unleash/api/admin/projects/default/features/billing_panel_v1/environments/development"
    done(FLAG, call)
    sent = json.loads(writes(world.ledger("flags"))[0]["body"])
    assert {**json.loads(rendered.body)["strategy"], "title": f"sagaboard {call.key}"} == sent


def test_the_correction_is_a_note_to_the_owner_of_the_cohort_posted_once(world):
    call = done(FLAG, on())
    message = Message(text="It was premature.", key="correction-1", to=OWNER)
    place = FLAG.place(call)
    assert (place.kind, place.key, place.label) == ("note", "cohort:qa-cohort", "a note to the owner of qa-cohort")
    assert FLAG.probe_correction(call, message) is None
    posted = FLAG.correct(call, message)
    assert FLAG.probe_correction(call, message) == posted
    assert FLAG.correct(call, message) == posted
    assert [n["to"] for n in world.reading()["chat"]["notes"]] == ["U0MEERA"]
    assert len(posts(world)) == 1


def test_a_correction_nobody_is_named_for_says_so(world):
    call = done(FLAG, on())
    with pytest.raises(NoEffect, match="Nobody is named"):
        FLAG.correct(call, Message(text="x", key="c"))


def test_the_segment_is_what_a_run_touches_and_who_reads_it(world):
    call = on()
    assert FLAG.touches(call.args) == ["flag:flags/billing_panel_v1@qa-cohort"]
    assert FLAG.audience_name(call.args) == "qa-cohort"


@pytest.mark.parametrize("flag", ["../users", "a/b", "", "a?x=1", "ä"])
def test_a_flag_name_cant_lead_elsewhere(flag):
    with pytest.raises(ValueError, match="flag"):
        call_of(FLAG, flag=flag, segment="x", value=True)


@pytest.mark.parametrize("theirs", [{"on": True, "rollout": 10}, {"on": False}])
def test_a_person_may_undo_over_what_somebody_changed_of_the_same_segment(world, theirs):
    call = done(FLAG, on())
    world.change("flags", segment="qa-cohort", **theirs)
    FLAG.undo(dataclasses.replace(call, over=True))
    assert FLAG.verify_undone(call)
    assert strategies(world).keys() == {"dogfood"}


def test_what_was_there_before_comes_back_also_where_somebody_removed_it_since(world):
    world.change("flags", segment="qa-cohort", on=True, rollout=25)
    call = done(FLAG, off())
    world.change("flags", segment="qa-cohort", on=False)
    FLAG.undo(dataclasses.replace(call, over=True))
    assert FLAG.verify_undone(call)
