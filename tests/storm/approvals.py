"""Many clients press on the items of the running product at once, and each item gets one decision.

They approve, reject, edit and withdraw, by the pages and the API, as fast as the server takes it, while the time of some runs
out. Afterwards no answer was a server error, no item has two decisions, and the target's ledger holds exactly what was
approved, each once. `python -m tests.storm` sends 200 clients to 50 items, which wants the whole machine for a minute; the
suite sends fewer.
"""

from __future__ import annotations

import collections
import datetime as dt
import random
import re
import threading
import time
from typing import Any

import httpx
from django.db import connection

from outbox.models import Decision, Item, Policy
from outbox.states import ItemState, Verdict
from runs import services
from tests.factories import ask, make_run, make_user
from tests.site import until

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
    """One client: a person with a browser, who presses on items at random. All that it knows is what it was shown."""

    def __init__(self, at: Any, session: str, items: list[tuple[int, int]], token: Any, *, presses: int, seed: int) -> None:
        super().__init__()
        self.site, self.items, self.token, self.presses, self.dice = at, items, token, presses, random.Random(seed)
        self.cookies = {"sessionid": session, "csrftoken": TOKEN}
        self.answers: list[tuple[str, int]] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.site.url, cookies=self.cookies, timeout=120, trust_env=False) as client:
            for _ in range(self.presses):
                item, run = self.dice.choice(self.items)
                press = self.dice.choices([self.approve, self.reject, self.edit, self.withdraw], [40, 20, 25, 5])[0]
                try:
                    self.answers.append((press.__name__, press(client, item, run)))
                except (httpx.HTTPError, AssertionError) as exc:
                    self.answers.append((f"{press.__name__}: {type(exc).__name__}", 599))

    def approve(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "approve", {})

    def reject(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "reject", {"reason": "Not like this.", "fate": self.dice.choice(["drop", "compensate"])})

    def edit(self, client: httpx.Client, item: int, run: int) -> int:
        return self._post(client, item, "edit", {"arg-value": f"edited {self.dice.random()}"})

    def withdraw(self, client: httpx.Client, item: int, run: int) -> int:
        return int(self.site.api(self.token.checker, "PUT", f"/runs/{run}/checks/ci", {"state": "failure"}).status_code)

    def _post(self, client: httpx.Client, item: int, door: str, fields: dict[str, str]) -> int:
        page = client.get(f"/outbox/{item}/", params={"confirm": door})
        self.answers.append(("look", page.status_code))
        # A card that is decided has no form: this press is the one of a window that was left open.
        shown = re.search(r'name="digest" value="(\w+)"', page.text)
        headers = {"X-CSRFToken": TOKEN}
        answer = client.post(f"/outbox/{item}/{door}/", data={"digest": shown[1] if shown else "", **fields}, headers=headers)
        assert "/login/" not in answer.headers.get("location", ""), "a press by nobody shows nothing"
        return answer.status_code


class Clock(threading.Thread):
    """Lets the time of every fifth item run out, one by one; the running sweep finds it while others press."""

    def __init__(self, items: list[tuple[int, int]]) -> None:
        super().__init__()
        self.items, self.over = items, threading.Event()
        self.ended = self.connections = 0

    def run(self) -> None:
        last = random.Random(0).sample(self.items, len(self.items) // 5)
        while not self.over.wait(0.5):
            item = last.pop()[0] if last else 0
            awaiting = Item.objects.filter(pk=item, state=ItemState.AWAITING)
            self.ended += awaiting.update(expires_at=dt.datetime.now(dt.UTC))
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
                self.connections = max(self.connections, cursor.fetchone()[0])
        connection.close()


def storm(site: Any, token: Any, *, clients: int, items: int, presses: int) -> None:
    """Lets it loose, prints the figures, and looks at what it left."""
    Policy.objects.create(capability="send_out", editable=["value"])
    token.rules.rules.waiting_items = 1000
    token.rules.rules.save()
    waiting = [released(token, number) for number in range(items)]
    people = [make_user(f"reviewer-{n}", roles=("reviewer",), team=token.team) for n in range(20)]
    sessions = [session_of(site.url, person) for person in people]
    known = [(item.pk, item.step.run_id) for item in waiting]
    reviewers = [Reviewer(site, sessions[n % len(sessions)], known, token, presses=presses, seed=n) for n in range(clients)]
    clock = Clock(known)
    began = time.monotonic()
    for thread in (clock, *reviewers):
        thread.start()
    for reviewer in reviewers:
        reviewer.join()
    took = time.monotonic() - began
    clock.over.set()
    clock.join()
    answers = collections.Counter(answer for reviewer in reviewers for answer in reviewer.answers)
    print(f"\n{clients} clients, {items} items, {sum(answers.values())} requests in {took:.1f} s")
    for (press, status), count in sorted(answers.items()):
        print(f"  {press:<10} {status}  {count}")
    print(f"  {clock.ended} times were run out; at most {clock.connections} connections to PostgreSQL, the tests' own included")
    assert [answer for answer in answers if answer[1] >= 500] == []
    assert sum(count for (_, status), count in answers.items() if status == 302) > items / 4, "nobody decided anything"
    until(lambda: not Item.objects.filter(state=ItemState.APPROVED).exists(), 60, "what was approved was not sent")
    states = collections.Counter(Item.objects.values_list("state", flat=True))
    print(f"  items: {', '.join(f'{count} {state}' for state, count in sorted(states.items()))}")
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
