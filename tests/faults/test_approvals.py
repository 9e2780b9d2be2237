"""Faults of approvals: what others' products sent although nobody had approved just that, or nobody could say who had."""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from outbox import services
from outbox.exceptions import NotDecidable, WrongEdit
from outbox.models import Decision, Item, Policy
from outbox.receivers import expire_items
from outbox.states import ItemState
from runs import services as run_services
from runs.capability import Payload
from runs.engine import invoke
from runs.models import LogEntry
from runs.states import RunState, StepState
from tests.checker import forged
from tests.factories import make_token, make_user
from tests.helpers import meet_after, reread, run_together
from tests.outbox.scenes import CLIENTS, GATE, deliver, go_green, item_of, make_released, make_waiting, set_policy
from tests.tools import TellClient, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


@pytest.fixture
def carol(team):
    return make_user("carol", roles=("reviewer",), team=team, first_name="Carol", last_name="Cho")


@pytest.fixture
def run(token):
    return make_released(token=token)


def signed_in(person):
    client = Client()
    client.force_login(person)
    return client


def approve(item, by, digest=None):
    item = reread(item)
    services.approve(item, digest=digest or item.digest, by=by)


def press(person, item, door="approve", digest=None, **fields):
    return signed_in(person).post(f"/outbox/{item.pk}/{door}/", {"digest": digest or item.digest, **fields})


def page_of(person, item):
    return signed_in(person).get(f"/outbox/{item.pk}/").content.decode()


def refusals(item):
    return list(item.step.run.entries.filter(event="item.refused").values_list("actor", flat=True))


# OUT-07


def test_out_07_an_approved_item_of_a_run_that_fails_is_never_sent(alice, run):
    tell, also = item_of(run, "tell"), item_of(run, "also")
    approve(tell, alice)
    services.reject(also, digest=also.digest, by=alice, reason="Not now.", fate="compensate")
    assert deliver(run) == []
    assert (reread(tell).state, reread(also).state) == (ItemState.WITHDRAWN, ItemState.REJECTED)


def test_out_07_a_check_that_turns_red_holds_what_was_approved_back(alice, token):
    token.rules.rules.check_grace = 600
    token.rules.rules.save()
    run = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    run_services.report_check(run, token=token, name="ci", state="failure")
    assert deliver(run) == []
    assert run.state == RunState.RELEASING


def test_out_07_either_it_went_before_or_it_is_withdrawn(alice, run, monkeypatch):
    from outbox import release

    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    meet_after(monkeypatch, release, "check_sending")
    step = item_of(run, "tell").step
    fail = partial(run_services.report_check, run, token=run.token, name="ci", state="failure")
    run_together(partial(invoke.invoke, run.pk, step.pk), fail)
    deliver(run)
    step.refresh_from_db()
    went = [name for name in world.calls("do") if name != "one"]
    if step.state == StepState.CLOSED:
        assert (went, step.closed_why) == ([], "withdrawn")
    else:
        assert (went, step.state) == (["news"], StepState.SENT)
    # Red after the pivot: what was approved is kept back for a person to say what becomes of it.
    left = ItemState.APPROVED if run.state == RunState.STUCK else ItemState.WITHDRAWN
    assert item_of(run, "also").state == left


# APR-01


def test_apr_01_of_four_presses_at_once_one_decides_and_the_others_read_who(alice, carol, team, run, monkeypatch):
    item = item_of(run, "tell")
    others = [make_user(name, roles=("reviewer",), team=team) for name in ("dora", "erik")]
    meet_after(monkeypatch, services, "check_decidable", parties=4)
    presses = [partial(press, by, item) for by in (alice, carol, others[0])]
    presses.append(partial(press, others[1], item, "reject", reason="No.", fate="drop"))
    answers = run_together(*presses)
    assert sorted(answer.status_code for answer in answers) == [302, 409, 409, 409]
    assert Decision.objects.count() == 1
    verdict = Decision.objects.get()
    for answer in answers:
        if answer.status_code == 409:
            assert f"{verdict.by_name} {verdict.get_verdict_display()} this" in answer.content.decode()
    assert len(refusals(item)) == 3


def test_apr_01_a_second_decision_on_a_decided_item_is_refused(alice, carol, run):
    item = item_of(run, "tell")
    approve(item, alice)
    with pytest.raises(NotDecidable, match="Alice Ahn approved this"):
        services.reject(item, digest=item.digest, by=carol, reason="No.", fate="drop")
    assert reread(item).state == ItemState.APPROVED


# APR-02


def test_apr_02_a_yes_to_an_older_revision_is_refused_and_the_difference_shown(alice, carol, token):
    set_policy(editable=["value"])
    item = item_of(make_released(token=token), "tell")
    services.edit(item, digest=item.digest, by=carol, fields={"value": "something else"})
    answer = press(alice, item)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "It changed while you read. Nothing was sent" in page
    gone, new = page.index('class="gone"'), page.index('class="new"')
    assert "&quot;ready&quot;" in page[gone:new]
    assert "something else" in page[new:]
    assert not Decision.objects.exists()


def test_apr_02_what_is_sent_is_recomputed_and_compared(alice, run, monkeypatch):
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    render = TellClient.render

    def elsewhere(self, args):
        payload = render(self, args)
        return Payload({**payload.to, "url": "https://other.example/"}, payload.body, title=payload.title)

    monkeypatch.setattr(TellClient, "render", elsewhere)
    assert deliver(run) == []
    item = item_of(run, "tell")
    assert item.state == ItemState.AWAITING
    assert "https://other.example/" in page_of(alice, item)


def test_apr_02_nothing_alters_what_was_approved(alice, carol, token):
    set_policy(editable=["value"])
    item = item_of(make_released(token=token), "tell")
    approve(item, alice)
    with pytest.raises(NotDecidable, match="Alice Ahn approved this"):
        services.edit(item, digest=item.digest, by=carol, fields={"value": "later words"})
    assert item.versions.count() == 1


# APR-03


def test_apr_03_what_was_asked_edited_and_approved_are_three_records_and_the_edited_one_goes(alice, carol, token):
    set_policy(editable=["value"])
    run = make_released(token=token)
    item = item_of(run, "tell")
    services.edit(item, digest=item.digest, by=alice, fields={"value": "corrected"})
    edited = reread(item)
    with pytest.raises(NotDecidable, match="You edited it last, so someone else must approve it"):
        approve(edited, alice)
    approve(edited, carol)
    approve(item_of(run, "also"), alice)
    assert deliver(run) == ["news", "more"]
    proposed, second = item.versions.order_by("number")
    assert (proposed.made_by, second.made_by) == (f"token:{token.name}", "person:Alice Ahn")
    assert (proposed.args["value"], second.args["value"]) == ("ready", "corrected")
    assert run.entries.get(event="item.edited").data["was"] == {"value": "ready"}
    assert Decision.objects.get(item=item).digest == second.digest
    assert run.steps.get(ref="tell").effect["sent"] == '{"say":"corrected"}'


def test_apr_03_an_edit_is_validated_like_a_new_request(alice, token):
    set_policy(editable=["value"])
    item = item_of(make_released(token=token), "tell")
    with pytest.raises(WrongEdit):
        services.edit(item, digest=item.digest, by=alice, fields={"value": ["not", "a", "text"]})
    assert reread(item).digest == item.digest
    assert item.versions.count() == 1


# APR-04


def test_apr_04_after_its_time_nobody_approves_also_before_the_sweep_came(alice, run):
    item = item_of(run, "tell")
    assert "data-until=" in page_of(alice, item)
    Item.objects.filter(pk=item.pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))
    answer = press(alice, item)
    assert answer.status_code == 409
    assert "It expired at" in answer.content.decode()
    assert reread(item).state == ItemState.AWAITING
    page = page_of(alice, item)
    assert "Expired. Nothing was sent." in page
    assert "Awaiting approval" not in page.partition('id="item"')[2]
    assert "Approve and send" not in page


def test_apr_04_the_clock_starts_when_people_can_decide(token):
    run = make_waiting(token=token)
    item = item_of(run, "tell")
    assert item.expires_at is None
    Item.objects.update(queued_at=timezone.now() - dt.timedelta(days=3))
    go_green(run)
    assert reread(item).expires_at > timezone.now() + dt.timedelta(hours=3)


def test_apr_04_the_page_says_what_expiry_will_do(alice, token, run):
    assert f"Unanswered, nothing is sent then, and {run.owner} asks again or drops it." in page_of(alice, item_of(run, "tell"))
    gate = item_of(make_waiting(token=token, plan=GATE), "gate")
    assert "Unanswered, the run fails then, and what it did is undone." in page_of(alice, gate)


# APR-05


def test_apr_05_items_leave_the_list_in_the_transaction_that_ends_the_run(alice, run):
    item = item_of(run, "tell")
    run_services.report_check(run, token=run.token, name="ci", state="failure")
    assert set(Item.objects.values_list("state", flat=True)) == {ItemState.WITHDRAWN}
    assert f"/outbox/{item.pk}/" not in signed_in(alice).get("/outbox/").content.decode()
    answer = press(alice, item)
    assert answer.status_code == 409
    assert re.search(r"The run failed at \d\d:\d\d:\d\d UTC; this was withdrawn, unsent\.", answer.content.decode())


def test_apr_05_a_second_gate_appears_like_the_first(alice, token):
    second = {"ref": "again", "capability": "tell_client", "args": {"name": "second"}, "needs_result": True}
    run = make_waiting(token=token, plan=GATE)
    approve(item_of(run, "gate"), alice)
    deliver(run)
    other = make_waiting(token=token, plan=[GATE[0] | {"args": {"name": "two"}}, GATE[1], second])
    approve(item_of(other, "gate"), alice)
    deliver(other)
    gate = item_of(other, "again")
    assert gate.state == ItemState.AWAITING
    assert f"/outbox/{gate.pk}/" in signed_in(alice).get("/outbox/").content.decode()
    approve(gate, alice)
    deliver(other)
    assert "second" in world.calls("do")


# APR-06


def test_apr_06_a_decision_in_the_first_moment_is_kept_and_acted_on(alice, token):
    """A script approves each gate the moment its row can be seen, while its agent's request still answers."""
    runs, stop = 12, threading.Event()
    refused = []

    def watch():
        try:
            while not stop.is_set():
                for item in Item.objects.awaiting():
                    answer = press(alice, item)
                    if answer.status_code != 302:
                        refused.append(answer.status_code)
        finally:
            connection.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        made = [make_waiting(token=token, plan=GATE) for _ in range(runs)]
        until = time.monotonic() + 30
        while Item.objects.awaiting().exists() and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        stop.set()
        watcher.join()
    for run in made:
        deliver(run)
    assert refused == []
    assert Decision.objects.count() == runs
    assert set(Item.objects.values_list("state", flat=True)) == {ItemState.SENT}


def test_apr_06_no_gate_waits_for_a_decision_that_was_made(alice, token):
    item = item_of(make_waiting(token=token, plan=GATE), "gate")
    approve(item, alice)
    item.step.refresh_from_db()
    # Whatever becomes of the message: the sweep looks for what is due.
    assert item.step.due_at is not None


# APR-07


def owner(run, person):
    run.owner = person
    run.save(update_fields=["owner"])


def holder(run, person):
    run.token.person = person
    run.token.save(update_fields=["person"])


def opener(run, person):
    run.opened_by = person
    run.save(update_fields=["opened_by"])


def editor(run, person):
    item = item_of(run, "tell")
    services.edit(item, digest=item.digest, by=person, fields={"value": "mine"})


@pytest.mark.parametrize("role", ["reviewer", "superuser"])
@pytest.mark.parametrize("relation", [owner, holder, opener, editor])
def test_apr_07_nobody_approves_their_own_by_any_door(team, token, relation, role):
    set_policy(editable=["value"])
    run = make_released(token=token)
    person = make_user("self", roles=("reviewer",), team=team, is_superuser=role == "superuser")
    relation(run, person)
    item = item_of(run, "tell")
    assert "Approve and send" not in page_of(person, item)
    doors = [press(person, item), signed_in(person).post("/outbox/bulk/", {"yes": [f"{item.pk}:{item.digest}"]})]
    for answer in doors:
        assert "so someone else must approve it" in answer.content.decode()
    with pytest.raises(NotDecidable):
        services.approve(item, digest=item.digest, by=person)
    assert not Decision.objects.exists()
    assert refusals(item) == [f"person:{person}"] * 2
    assert press(person, item, "reject", reason="On second thoughts, no.", fate="drop").status_code == 302
    assert reread(item).state == ItemState.REJECTED


# APR-08


def many(token, count):
    plan = [{"ref": f"c{n}", "capability": "tell_client", "args": {"name": f"n{n}", "value": f"dear {n}"}} for n in range(count)]
    run = make_released(token=token, plan=plan)
    known_host(token)
    return run, [item_of(run, f"c{n}") for n in range(count)]


def known_host(token):
    """Somebody wrote there before, so that this is no warning."""
    run = make_released(token=token, plan=[{"ref": "first", "capability": "tell_client", "args": {"name": "first", "value": "first"}}])
    forged(run, "as if somebody had written there before")
    Item.objects.filter(step__run=run).update(state=ItemState.SENT, closed_at=timezone.now())


def test_apr_08_only_what_was_named_with_its_digest_is_decided(alice, carol, token):
    set_policy(editable=["value"])
    run, items = many(token, 8)
    shown = items[:6]
    page = signed_in(alice).get("/outbox/bulk/", {"item": [item.pk for item in shown]}).content.decode()
    assert page.count('name="yes"') == 6
    assert "checked" not in page
    services.edit(shown[0], digest=shown[0].digest, by=carol, fields={"value": "changed meanwhile"})
    answer = signed_in(alice).post("/outbox/bulk/", {"yes": [f"{item.pk}:{item.digest}" for item in shown]})
    said = answer.content.decode()
    assert "5 yeses given, 1 refused" in said
    assert "It changed while you read" in said
    states = [reread(item).state for item in items]
    assert states == [ItemState.AWAITING, *[ItemState.APPROVED] * 5, *[ItemState.AWAITING] * 2]
    assert [one.by for one in Decision.objects.all()] == [alice] * 5
    assert refusals(shown[0]) == ["person:Alice Ahn"]


@pytest.mark.parametrize("named", [{"all": "on"}, {"item": "1"}, {"yes": ["*"]}, {"yes": ["1"]}, {"yes": ["x:y", "99999:abc"]}])
def test_apr_08_there_is_no_all_on_the_server(alice, token, named):
    many(token, 3)
    signed_in(alice).post("/outbox/bulk/", named)
    assert not Decision.objects.exists()


def test_apr_08_what_one_may_not_see_or_is_another_kind_is_not_decided_together(alice, token, team):
    set_policy("tell_team", audience="people", needs_yes=True)
    plan = [*CLIENTS, {"ref": "team", "capability": "tell_team", "args": {"name": "summary", "value": "x"}}]
    run = make_released(token=token, plan=plan)
    known_host(token)
    tell, other = item_of(run, "tell"), item_of(run, "team")
    both = {"yes": [f"{item.pk}:{item.digest}" for item in (tell, other)]}
    assert signed_in(alice).post("/outbox/bulk/", both).status_code == 422
    foreign = item_of(make_released(token=make_token()), "tell")
    signed_in(alice).post("/outbox/bulk/", {"yes": [f"{item.pk}:{item.digest}" for item in (tell, foreign)]})
    assert [one.item for one in Decision.objects.all()] == [tell]
    assert refusals(foreign) == []


def test_apr_08_more_than_can_be_read_are_not_decided_and_stay_ticked(alice, token):
    """As no page offers it. What was ticked comes back ticked, so that nothing has to be read twice."""
    set_policy()
    _, items = many(token, 21)
    client = signed_in(alice)
    sent = [f"{item.pk}:{item.digest}" for item in items]
    answer = client.post("/outbox/bulk/", {"yes": sent})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Nothing was sent: 21 were ticked, and 20 go at once at most." in page
    assert page.count(" checked ") == page.count('name="yes"') == 20
    assert not Decision.objects.exists()
    named = client.post("/outbox/bulk/", {"yes": [*sent[:2] * 30, "x:y"]})
    assert "2 yeses given" in named.content.decode()


def test_apr_08_no_address_makes_the_server_look_up_more_than_a_queue_shows(alice, token):
    set_policy()
    _, items = many(token, 1)
    strange = [*range(10**6, 10**6 + 100), items[0].pk]
    answer = signed_in(alice).get("/outbox/bulk/", {"item": strange})
    assert answer.status_code == 422
    assert "You chose 101 calls. Here are the first 100; go back for the others." in answer.content.decode()
    assert 'name="yes"' not in answer.content.decode()
    assert 'name="yes"' in signed_in(alice).get("/outbox/bulk/", {"item": strange[1:]}).content.decode()


def test_apr_08_gates_warnings_and_policies_keep_an_item_out(alice, token):
    set_policy(editable=["value"], bulk=True)
    run, (plain, odd) = many(token, 2)
    gate = item_of(make_waiting(token=token, plan=GATE), "gate")
    odd_digest = services.edit(
        odd, digest=odd.digest, by=make_user("dan", roles=("reviewer",), team=run.team), fields={"value": "a\u200bb"}
    ).digest
    page = signed_in(alice).get("/outbox/bulk/", {"item": [plain.pk, odd.pk, gate.pk]}).content.decode()
    assert page.count('name="yes"') == 1
    assert page.count("One by one:") == 2
    for item, digest in ((odd, odd_digest), (gate, gate.digest)):
        answer = signed_in(alice).post("/outbox/bulk/", {"yes": [f"{item.pk}:{digest}"]})
        assert "It is decided by itself" in answer.content.decode()
    Policy.objects.filter(capability="tell_client").update(bulk=False)
    assert "its policy allows no bulk" in signed_in(alice).post("/outbox/bulk/", {"yes": [f"{plain.pk}:{plain.digest}"]}).content.decode()
    assert not Decision.objects.exists()


# APR-09


def test_apr_09_no_get_head_or_options_changes_anything(alice, token):
    """Every address of the product is fetched as a scanner or a prefetching browser would, with a session and without."""
    from tests.routes import paths

    set_policy(editable=["value"])
    run = make_released(token=token)
    item = item_of(run, "tell")
    boss = make_user("boss", is_superuser=True, is_staff=True)
    query = {"digest": item.digest, "yes": f"{item.pk}:{item.digest}", "reason": "x", "fate": "drop", "confirm": "approve"}
    fetched = 0
    for client in (Client(), signed_in(boss), signed_in(alice)):
        base = everything()
        for path in paths(run=run, item=item):
            for method in ("get", "head", "options"):
                answer = getattr(client, method)(path, query)
                assert answer.status_code < 500, (method, path)
                getattr(answer, "streaming_content", None) and list(answer.streaming_content)
                fetched += 1
        assert everything() == base
    assert fetched > 300


@pytest.mark.parametrize("door", ["approve", "edit", "reject", "drop", "ask-again", "show-all"])
def test_apr_09_no_door_to_a_decision_opens_by_anything_but_a_post(alice, token, door):
    item = item_of(make_released(token=token), "tell")
    for method in ("get", "head", "options", "put", "patch", "delete"):
        answer = getattr(signed_in(alice), method)(f"/outbox/{item.pk}/{door}/?digest={item.digest}&reason=x&fate=drop")
        assert answer.status_code == 405, method
    unsigned = Client(enforce_csrf_checks=True)
    unsigned.force_login(alice)
    assert unsigned.post(f"/outbox/{item.pk}/{door}/", {"digest": item.digest}).status_code == 403


NOTED = {"django_session"}


def everything():
    """A digest of every row of every table, but for sessions and the time a person was last there."""
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table in NOTED or table == "django_migrations":
                continue
            columns = "to_jsonb(t) - 'last_login' - 'last_used_at'"
            cursor.execute(f"SELECT coalesce(md5(string_agg(({columns})::text, ',' ORDER BY ({columns})::text)), '') FROM \"{table}\" t")
            found[table] = cursor.fetchone()[0]
    return found


# APR-10

HIDING = ["\u202e", "\u200b", "\u2066", "\U000e0041", "\ufe0f", "\ue000", "\u2028", "\x85"]


def test_apr_10_what_hides_is_in_sight_wherever_an_agents_text_is_shown(alice, carol, token):
    hidden = f"pay{'x'.join(HIDING)}ee"
    set_policy(editable=["value"])
    plan = [{"ref": "tell", "capability": "tell_client", "args": {"name": hidden, "value": hidden}}]
    run = make_waiting(token=token, plan=plan, why=hidden)
    type(run).objects.filter(pk=run.pk).update(title=hidden)
    go_green(run)
    item = item_of(run, "tell")
    services.edit(item, digest=item.digest, by=carol, fields={"value": hidden + "!"})
    client = signed_in(alice)
    pages = (
        "",
        f"{item.pk}/",
        f"{item.pk}/?confirm=approve",
        f"{item.pk}/?confirm=reject",
        f"{item.pk}/versions/1/",
        f"bulk/?item={item.pk}",
    )
    for path in pages:
        html = client.get(f"/outbox/{path}").content.decode()
        for character in HIDING:
            assert character not in html, (path, hex(ord(character)))
            assert f"U+{ord(character):04X}" in html, (path, hex(ord(character)))
    assert "can’t be seen" in page_of(alice, item)
    approve(item, alice)
    deliver(run)
    assert run.steps.get(ref="tell").effect["sent"] == f'{{"say":"{hidden}!"}}'


def test_apr_10_words_keep_their_direction_to_themselves(alice, run):
    item = item_of(run, "tell")
    assert '<bdi dir="auto">Tell the client about news</bdi>' in page_of(alice, item)


def test_apr_10_a_host_in_mixed_letters_is_shown_as_the_network_knows_it(alice, token, monkeypatch):
    render = TellClient.render

    def lookalike(self, args):
        payload = render(self, args)
        return Payload({**payload.to, "url": "https://аcme.example/notices"}, payload.body, title=payload.title)

    monkeypatch.setattr(TellClient, "render", lookalike)
    page = page_of(alice, item_of(make_released(token=token), "tell"))
    assert "xn--" in page
    assert "Latin + Cyrillic" in page


# APR-11


def test_apr_11_age_and_expiry_are_shown_and_sorted_on(alice, token):
    old, new = make_released(token=token), make_released(token=token)
    Item.objects.filter(step__run=old).update(awaiting_since=timezone.now() - dt.timedelta(hours=3))
    Item.objects.filter(step__run=new).update(expires_at=timezone.now() + dt.timedelta(minutes=5))
    html = signed_in(alice).get("/outbox/").content.decode()
    order = [html.index(f'href="/outbox/{item_of(run, ref).pk}/"') for run in (old, new) for ref in ("tell", "also")]
    assert order == sorted(order)
    assert html.count("· <svg") == 2
    assert "3 h" in html


def test_apr_11_nothing_is_ever_approved_by_time_alone(run):
    Item.objects.update(expires_at=timezone.now() - dt.timedelta(days=30))
    for _ in range(3):
        expire_items(None)
    assert set(Item.objects.values_list("state", flat=True)) == {ItemState.EXPIRED}
    assert deliver(run) == []
    assert not Decision.objects.exists()
    assert not LogEntry.objects.filter(event="item.decided").exists()


def test_apr_11_time_to_decision_and_decisions_per_reviewer_hour_are_measured(alice, run):
    Item.objects.update(awaiting_since=timezone.now() - dt.timedelta(minutes=12))
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    page = signed_in(alice).get("/outbox/?decided").content.decode()
    assert "2 decisions, half of them within 12 min" in page
    assert "at most 2 by one person in an hour" in page


# UI-01


def by_htmx(person, item, door="approve", **fields):
    client = Client() if person is None else signed_in(person)
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{item.get_absolute_url()}?confirm={door}"}
    return client.post(f"/outbox/{item.pk}/{door}/", {"digest": item.digest, **fields}, headers=headers)


@pytest.mark.parametrize("door", ["approve", "reject", "edit", "drop", "ask-again", "show-all"])
def test_ui_01_a_press_after_the_session_ended_decides_nothing_and_leads_to_the_login(run, door):
    item = item_of(run, "tell")
    answer = by_htmx(None, item, door, reason="typed", fate="drop")
    assert answer.status_code == 204
    assert answer["HX-Redirect"] == f"/login/?next=/outbox/{item.pk}/%3Fconfirm%3D{door}"
    assert answer.content == b""
    assert reread(item).state == ItemState.AWAITING


@pytest.mark.parametrize("door", ["approve", "reject", "edit", "drop"])
def test_ui_01_without_scripts_the_login_leads_back_to_the_page_of_the_form(run, door):
    item = item_of(run, "tell")
    page = f"/outbox/{item.pk}/?confirm={door}"
    answer = Client().post(f"/outbox/{item.pk}/{door}/", {"digest": item.digest}, headers={"Referer": f"http://testserver{page}"})
    assert answer.url == f"/login/?next=/outbox/{item.pk}/%3Fconfirm%3D{door}"
    answer = Client().post(f"/outbox/{item.pk}/{door}/", headers={"Referer": "http://elsewhere.example/outbox/"})
    assert answer.url == "/login/?next=/"


def test_ui_01_after_the_login_one_looks_and_presses_again(alice, run):
    item = item_of(run, "tell")
    back = by_htmx(None, item)["HX-Redirect"]
    answer = Client().post(back, {"username": "alice", "password": "a long password"})
    assert answer.url == f"/outbox/{item.pk}/?confirm=approve"
    page = signed_in(alice).get(answer.url).content.decode()
    assert "Yes, send" in page
    assert not Decision.objects.exists()


def test_ui_01_a_look_after_the_session_ended_puts_no_form_into_the_page(run):
    answer = Client().get("/outbox/live/", headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/outbox/"})
    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/login/?next=/outbox/")


def test_ui_01_a_token_of_an_earlier_login_loads_the_page_again(alice, run):
    item = item_of(run, "tell")
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(f"/outbox/{item.pk}/approve/", {"digest": item.digest}, headers={"HX-Request": "true", "X-CSRFToken": "b" * 32})
    assert (answer.status_code, answer["HX-Refresh"]) == (204, "true")
    assert not Decision.objects.exists()


# UI-02

DOORS = {
    "approve": ({}, ItemState.APPROVED),
    "reject": ({"reason": "No.", "fate": "drop"}, ItemState.REJECTED),
    "edit": ({"arg-value": "other words"}, ItemState.AWAITING),
    "drop": ({"reason": "Too late."}, ItemState.DROPPED),
    "ask-again": ({}, ItemState.AWAITING),
}


@pytest.mark.parametrize("door", DOORS)
def test_ui_02_every_button_pressed_twice_at_once_changes_one_thing(alice, token, door):
    set_policy(editable=["value"])
    run = make_released(token=token)
    item, by = item_of(run, "tell"), alice
    if door in ("drop", "ask-again"):
        by = run.owner
        Item.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))
        expire_items(None)
    fields, state = DOORS[door]
    before = run.entries.count()
    answers = run_together(*[partial(press, by, item, door, **fields)] * 2)
    assert sorted(answer.status_code for answer in answers) in ([302, 302], [302, 409])
    assert reread(item).state == state
    assert item.versions.count() == (2 if door == "edit" else 1)
    changes = run.entries.filter(seq__gt=before).exclude(event__in=["item.refused", "step.closed", "run.paged"])
    assert changes.count() == (0 if door == "drop" else 1)
    assert Decision.objects.count() == (1 if door in ("approve", "reject") else 0)


def test_ui_02_a_yes_pressed_twice_where_two_are_wanted_counts_once(alice, carol, token):
    set_policy(quorum=2)
    item = item_of(make_released(token=token), "tell")
    answers = run_together(*[partial(press, alice, item)] * 2)
    assert [answer.status_code for answer in answers] == [302, 302]
    assert (Decision.objects.count(), reread(item).state) == (1, ItemState.AWAITING)
    assert press(carol, item).status_code == 302
    assert reread(item).state == ItemState.APPROVED
