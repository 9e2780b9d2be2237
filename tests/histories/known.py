"""Short histories that a guard is known by: each went wrong, here or by hand, without it."""

from __future__ import annotations

from tests.histories.machine import Histories

ONE = [("one", "put_thing", False)]
SENDS = [("one", "put_thing", False), ("tell", "tell_client", False), ("also", "tell_client", False)]
GATE = [("one", "put_thing", False), ("gate", "tell_client", True)]
RULES = {"on_failure": "ask", "off_plan": "refuse", "quorum": 1, "grace": 0.0, "has_check": True}


def two_workers_for_one_call(h: Histories) -> None:
    h.open(**RULES, plan=ONE)
    h.do("ask", "one")
    h.do("work", "one", "killed before")
    h.do("work", "one")
    h.do("look", "one")
    h.do("later", 1)
    h.do("look", "one")
    h.do("work", "one")


def a_late_answer_beside_a_second_attempt(h: Histories) -> None:
    h.open(**RULES, plan=ONE)
    h.do("ask", "one")
    first = h.do("take", "one")
    h.system.remove("one")
    del h.model.things["one"]
    h.do("later", 1)
    h.do("look", "one")
    h.do("work", "one", "killed before")
    h.do("bring", "one", first)


def nothing_seen_too_early(h: Histories) -> None:
    h.open(**RULES, plan=ONE)
    h.do("ask", "one")
    h.do("work", "one", "silent")
    h.do("look", "one")
    h.do("later", 1)
    h.do("look", "one")


def back_past_what_went_out(h: Histories) -> None:
    h.open(**RULES, plan=GATE)
    for ref in ("one", "gate"):
        h.do("ask", ref)
    h.do("work", "one")
    h.do("approve", "gate", "alice")
    h.do("work", "gate")
    h.do("give_up")
    h.do("compensate")
    h.do("compensate", override=True)


def approvals_that_ran_out(h: Histories) -> None:
    h.open(**RULES, plan=SENDS)
    for ref in ("one", "tell", "also"):
        h.do("ask", ref)
        h.do("work", ref)
    h.do("finish")
    h.do("report", "success")
    h.do("approve", "tell", "alice", stale=True)
    h.do("approve", "tell", "alice")
    h.do("later", 5)
    h.do("approve", "also", "alice")
    h.do("sweep")
    h.do("work", "tell")


def an_account_closed_after_its_yes(h: Histories) -> None:
    h.open(**RULES, plan=GATE)
    h.do("ask", "gate")
    h.do("approve", "gate", "carol")
    h.take_a_role_away(account=True)
    h.do("work", "gate")


def one_correction_for_a_killed_delivery(h: Histories) -> None:
    h.open(**RULES, plan=[("show", "show_thing", False)])
    h.do("ask", "show")
    h.do("work", "show")
    h.do("give_up")
    h.do("compensate")
    h.do("walk")
    h.do("send", 0)
    h.do("deliver", 0, "killed")
    h.do("deliver", 0)
    h.do("later", 1)
    h.do("deliver", 0)


KNOWN = [
    two_workers_for_one_call,
    a_late_answer_beside_a_second_attempt,
    nothing_seen_too_early,
    back_past_what_went_out,
    approvals_that_ran_out,
    an_account_closed_after_its_yes,
    one_correction_for_a_killed_delivery,
]
