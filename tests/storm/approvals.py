"""200 clients press on 50 items of the running product at once, and each item gets one decision.

They approve, reject, edit, let expire and withdraw, by the pages and the API, as fast as the server takes it. Afterwards no
answer was a server error, no item has two decisions, and the target's ledger holds exactly what was approved, each once.
Not part of the suite: it wants the whole machine for a minute.
"""

from __future__ import annotations

import collections
import datetime as dt
import random
import threading
import time
from typing import Any

import httpx
from django.db import connection

from outbox.models import Decision, Item, Policy
from outbox.states import ItemState, Verdict
from runs import services
from tests.factories import ask, make_run, make_user
from tests.faults.conftest import agent_token, site, site_of_module  # noqa: F401  (fixtures)
from tests.site import until

CLIENTS, ITEMS, PRESSES = 200, 50, 5
TOKEN = "a" * 32
OVER = {ItemState.SENT, ItemState.REJECTED, ItemState.WITHDRAWN, ItemState.EXPIRED}


def released(token: Any, number: int) -> Item:
    """A green run with one call that waits for a yes."""
    plan = [{"ref": "send", "capability": "send_out", "args": {"name": f"letter-{number}", "value": "as asked"}}]
    run = make_run(token=token, plan=plan)
    ask(run, "send_out", args=plan[0]["args"], ref="send")
    services.finish_run(run, token=token)
    services.report_check(run, token=token.checker, name="ci", state="success")
    return Item.objects.get(step__run=run)


def session_of(url: str, person: Any) -> str:
    """A session that the running site gave."""
    form = {"username": person.username, "password": "a long password", "csrfmiddlewaretoken": TOKEN}
    answer = httpx.post(f"{url}/login/", data=form, cookies={"csrftoken": TOKEN}, timeout=60, trust_env=False)
    return answer.cookies["sessionid"]


class Reviewer(threading.Thread):
    """One client: a person with a browser, who presses on items at random."""

    def __init__(self, at: Any, session: str, items: list[tuple[int, int]], token: Any, seed: int) -> None:
        super().__init__()
        self.site, self.items, self.token, self.dice = at, items, token, random.Random(seed)
        self.cookies = {"sessionid": session, "csrftoken": TOKEN}
        self.answers: list[tuple[str, int]] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.site.url, cookies=self.cookies, timeout=120, trust_env=False) as client:
            for _ in range(PRESSES):
                item, run = self.dice.choice(self.items)
                press = self.dice.choices([self.approve, self.reject, self.edit, self.withdraw, self.expire], [40, 20, 25, 5, 5])[0]
                try:
                    self.answers.append((press.__name__, press(client, item, run)))
                except (httpx.HTTPError, AssertionError) as exc:
                    self.answers.append((f"{press.__name__}: {type(exc).__name__}", 599))
        connection.close()

    def approve(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "approve", {})

    def reject(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "reject", {"reason": "Not like this.", "fate": self.dice.choice(["drop", "compensate"])})

    def edit(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "edit", {"arg-value": f"edited {self.dice.random()}"})

    def withdraw(self, client: httpx.Client, item: int, run: int) -> int:
        return int(self.site.api(self.token.checker, "PUT", f"/runs/{run}/checks/ci", {"state": "failure"}).status_code)

    def expire(self, client: httpx.Client, item: int, run: int) -> int:
        # Its time is over; the running sweep finds it while others press.
        Item.objects.filter(pk=item, state=ItemState.AWAITING).update(expires_at=dt.datetime.now(dt.UTC))
        return 200

    def _post(self, client: httpx.Client, item: int, door: str, fields: dict[str, str]) -> int:
        digest = Item.objects.values_list("digest", flat=True).get(pk=item)
        headers = {"X-CSRFToken": TOKEN}
        answer = client.post(f"/outbox/{item}/{door}/", data={"digest": digest, **fields}, headers=headers)
        assert "/login/" not in answer.headers.get("location", ""), "a press by nobody shows nothing"
        return answer.status_code


def test_each_of_fifty_items_gets_one_decision_under_two_hundred_clients(site, agent_token):  # noqa: F811
    Policy.objects.create(capability="send_out", editable=["value"])
    token = agent_token
    token.rules.rules.waiting_items = 1000
    token.rules.rules.save()
    items = [released(token, number) for number in range(ITEMS)]
    people = [make_user(f"reviewer-{n}", roles=("reviewer",), team=token.team) for n in range(20)]
    sessions = [session_of(site.url, person) for person in people]
    known = [(item.pk, item.step.run_id) for item in items]
    clients = [Reviewer(site, sessions[n % len(sessions)], known, token, seed=n) for n in range(CLIENTS)]
    began = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    took = time.monotonic() - began
    answers = collections.Counter(answer for client in clients for answer in client.answers)
    print(f"\n{CLIENTS} clients, {ITEMS} items, {sum(answers.values())} presses in {took:.1f} s")
    for (press, status), count in sorted(answers.items()):
        print(f"  {press:<10} {status}  {count}")
    assert [answer for answer in answers if answer[1] >= 500] == []
    assert answers["approve", 302] and answers["reject", 302] and answers["edit", 302], "nobody decided anything"
    until(lambda: not Item.objects.filter(state=ItemState.APPROVED).exists(), 60, "what was approved was not sent")
    print("  items:", dict(collections.Counter(Item.objects.values_list("state", flat=True))))
    sent = collections.Counter(entry["key"] for entry in site.world.effects("shelf"))
    for item in Item.objects.select_related("step"):
        standing = Decision.objects.filter(item=item, voided_at=None)
        assert standing.count() <= 1, item
        assert item.state in OVER | {ItemState.AWAITING}, item.state
        assert sent.pop(item.step.call_key, 0) == (1 if item.state == ItemState.SENT else 0), item
        verdicts = [one.verdict for one in standing if one.digest == item.digest]
        # A yes may still be withdrawn with its run, or lapse, before a worker takes it; nothing goes without one.
        wanted = {ItemState.SENT: [Verdict.APPROVE], ItemState.REJECTED: [Verdict.REJECT], ItemState.AWAITING: []}
        assert verdicts == wanted.get(ItemState(item.state), verdicts), (item, item.state)
    assert not sent, "something went out that no item stands for"
