"""notify_partner against the world's partner, who honours a key and can be asked for it."""

import dataclasses
import json

import pytest

from runs.capability import Message
from runs.connectors.http import Unclear
from runs.connectors.partner import NotifyPartner
from runs.exceptions import NoEffect, TryLater, Unreadable

from .calls import OWNER, call_of, configured, done, posts, writes

NOTIFY = NotifyPartner()
CORRECTION = Message(text="[Correction] It was premature.", key="correction-1", to=OWNER)


def notify(subject="Billing field", message="Invoices carry the new field.", **given):
    return call_of(NOTIFY, subject=subject, message=message, **given)


def test_a_notice_arrives_once_with_its_key_and_as_rendered(world):
    call = notify(reference="BILL-318")
    rendered = NOTIFY.render(call.args)
    call = done(NOTIFY, dataclasses.replace(call, payload=rendered))
    (entry,) = world.ledger("partner")
    assert entry["key"] == "key-1"
    assert entry["body"].encode() == rendered.body
    assert world.reading()["partner"] == [{**json.loads(rendered.body), "key": "key-1"}]
    assert NOTIFY.verify_done(call)
    assert NOTIFY.fill(NOTIFY.human_signal, call.effect) == "notice “Billing field” to NorthPay"
    assert rendered.to == {
        "target": "northpay",
        "url": f"{world.url}/partner/v2/notices",
        "account": "",
        "credential": rendered.to["credential"],
        "recipient": "NorthPay",
    }


def test_the_same_key_gives_one_notice_however_often_it_is_sent(world):
    first, second = done(NOTIFY, notify()), done(NOTIFY, notify())
    assert first.effect == second.effect
    assert len(world.effects("partner")) == 1


@pytest.mark.parametrize("fault", [{"answer": "drop"}, {"answer": "cut"}, {"answer": "hang", "hang_for": 1}, {"status": 502}])
def test_out_03_a_lost_answer_is_unknown_asked_once_and_found_by_the_key(world, fault):
    world.fault("partner", method="POST", **fault)
    call = notify(timeout=0.5)
    with pytest.raises(Unclear):
        NOTIFY.do(call)
    assert len(writes(world.ledger("partner"))) == 1
    assert NOTIFY.probe(call)["id"]


def test_out_02_a_notice_that_never_arrived_is_provably_absent(world):
    world.fault("partner", method="POST", effect=False, answer="drop")
    with pytest.raises(Unclear):
        NOTIFY.do(notify())
    assert NOTIFY.probe(notify()) is None


def test_without_a_look_up_nobody_guesses(world, settings):
    configured(settings, "northpay", lookup=None)
    with pytest.raises(Unreadable, match="offers no look-up"):
        NOTIFY.probe(notify())
    assert not world.ledger("partner")


def test_out_06_slow_down_is_try_later_with_its_pause(world):
    world.fault("partner", effect=False, status=429, headers={"Retry-After": "30"})
    with pytest.raises(TryLater) as caught:
        NOTIFY.do(notify())
    assert caught.value.after == 30
    assert not world.effects()


def test_a_lie_is_seen_through(world):
    world.fault("partner", method="POST", effect=False)
    assert not NOTIFY.verify_done(done(NOTIFY, notify()))


def test_a_wrong_token_a_dead_host_and_an_unknown_target_are_refusals_a_person_can_act_on(world, settings):
    with pytest.raises(NoEffect, match="There are: northpay"):
        NOTIFY.do(notify(target="southpay"))
    configured(settings, "northpay", token_file=None, token="wr0ng")
    with pytest.raises(NoEffect, match="refused the credential") as caught:
        NOTIFY.do(notify())
    assert "wr0ng" not in caught.value.reason
    configured(settings, "northpay", base_url="http://127.0.0.1:9")
    with pytest.raises(NoEffect, match="Nothing was sent"):
        NOTIFY.do(notify())


def test_a_correction_is_posted_below_the_notice_once(world):
    call = done(NOTIFY, notify())
    assert NOTIFY.place(call).key == f"notice:northpay/{call.effect['id']}"
    assert NOTIFY.probe_correction(call, CORRECTION) is None
    posted = NOTIFY.correct(call, CORRECTION)
    assert NOTIFY.correct(call, CORRECTION) == posted == NOTIFY.probe_correction(call, CORRECTION)
    assert len(world.effects("partner")) == 2


def test_a_partner_without_a_place_for_corrections_gets_none_and_its_owner_a_note(world, settings):
    configured(settings, "northpay", correction_path=None)
    call = done(NOTIFY, notify())
    assert NOTIFY.place(call).label == "a note to the owner of NorthPay"
    posted = NOTIFY.correct(call, CORRECTION)
    assert NOTIFY.probe_correction(call, CORRECTION) == posted
    assert len(posts(world)) == 1
    assert len(world.effects("partner")) == 1
