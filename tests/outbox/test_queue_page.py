"""The queue and the card: what waits for whom and why, what is so now, and nothing else."""

import re

import pytest
from django.test.utils import CaptureQueriesContext

from outbox import services
from outbox.models import Policy
from outbox.receivers import expire_items
from runs import services as run_services
from sagaboard.accounts.models import User
from sagaboard.web import counts_for
from tests.factories import make_run, make_user
from tests.helpers import forbidden
from tests.outbox.scenes import GATE, TEAM, deliver, item_of, make_released, make_waiting, set_policy
from tests.outbox.test_reject import expired

pytestmark = pytest.mark.django_db(transaction=True)


def page(client, person, path="/outbox/", **data):
    client.force_login(person)
    response = client.get(path, data)
    assert response.status_code == 200
    return response.content.decode()


def group_of(html, title):
    """The items that stand under a heading of the queue."""
    for part in re.split(r'<h2 class="q-h">', html):
        if part.startswith(title):
            return re.findall(r'href="/outbox/(\d+)/[^"]*"', part.split("</ul>")[0])
    return []


def approve(item, by):
    services.approve(item, digest=item.digest, by=by)


def test_what_i_may_decide_is_for_me_and_counted(client, token, alice):
    run = make_released(token=token)
    html = page(client, alice)
    assert group_of(html, "For you") == [str(item_of(run, ref).pk) for ref in ("tell", "also")]
    assert counts_for(alice, {})["outbox"].number == 2


def test_what_others_decide_says_why(client, token, alice, bob):
    run = make_released(token=token)
    html = page(client, bob)
    assert group_of(html, "For someone else") == [str(item_of(run, ref).pk) for ref in ("tell", "also")]
    assert "another group decides it" in html
    assert counts_for(bob, {})["outbox"].number == 0
    run.owner = alice
    run.save()
    html = page(client, alice)
    assert "you own the run, so someone else must approve it" in html
    assert "Nothing waits for you. Two wait for someone else." in html


def test_my_yes_moves_it_to_the_others_and_off_my_count(client, token, alice):
    set_policy(quorum=2)
    run = make_released(token=token)
    approve(item_of(run, "tell"), alice)
    html = page(client, alice)
    assert group_of(html, "For someone else") == [str(item_of(run, "tell").pk)]
    assert "needs 2 yeses, has 1 with yours" in html
    assert counts_for(alice, {})["outbox"].number == 1


def test_held_items_stand_by_themselves(client, token, alice):
    run = make_waiting(token=token)
    html = page(client, alice)
    assert group_of(html, "Held until their run is green") == [str(item_of(run, ref).pk) for ref in ("tell", "also")]
    assert counts_for(alice, {})["outbox"].number == 0


def test_an_expired_item_is_its_owners_and_in_nobodys_queue(client, token, alice):
    run = make_released(token=token)
    expired(run)
    assert group_of(page(client, run.owner), "Expired") == [str(item_of(run, ref).pk) for ref in ("tell", "also")]
    assert "/outbox/1/" not in page(client, alice)
    assert counts_for(alice, {})["outbox"].number == 0


def test_an_item_of_a_failed_run_leaves_the_queue(client, token, alice):
    run = make_released(token=token)
    run_services.report_check(run, token=token, name="ci", state="failure")
    assert "/outbox/1/" not in page(client, alice)
    assert "Withdrawn" in page(client, alice, "/outbox/", decided="")


def test_a_stranger_sees_and_counts_nothing(client, token):
    make_released(token=token)
    stranger = make_user("stranger")
    html = page(client, stranger)
    assert "/outbox/1/" not in html
    assert "Nothing waits that you can see." in html


def test_the_card_says_all_that_a_decision_needs(client, token, alice):
    run = make_released(token=token, why="Please <b>approve</b>\u200b it.")
    item = item_of(run, "tell")
    html = page(client, alice, f"/outbox/{item.pk}/")
    for needed in [
        "Tell the client about news",
        "A client will see this.",
        run.agent,
        "Please &lt;b&gt;approve&lt;/b&gt;",
        "U+200B",
        "Step 1 done",
        "Check ci green",
        "First to go out: this is the pivot",
        "https://client.example/notices",
        "15 bytes",
        f"{item.digest[:4]} {item.digest[4:8]} … {item.digest[-4:]}",
        "Nothing was ever sent to this host through sagaboard",
        "Approve and send to client",
        "Nothing goes out until all 2 are decided.",
        "After this: Tell the client about more (step 3).",
    ]:
        assert needed in html, needed


def test_hidden_characters_of_the_payload_are_counted_above_the_decision(client, token, alice):
    plan = [{"ref": "tell", "capability": "tell_client", "args": {"name": "news", "value": "pay\u200b now\u202e"}}]
    run = make_released(token=token, plan=plan)
    html = page(client, alice, f"/outbox/{item_of(run, 'tell').pk}/")
    assert "2 characters can’t be seen" in html
    assert html.index("2 hidden.") < html.index('id="decide"')


def test_the_same_text_sent_lately_is_a_warning(client, token, alice):
    first = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(first, ref), alice)
    deliver(first)
    second = make_released(token=token)
    html = page(client, alice, f"/outbox/{item_of(second, 'tell').pk}/")
    assert "The same text went to the same recipient within the last 24 h" in html
    assert "Nothing was ever sent to this host" not in html


def test_the_card_of_what_went_out_says_who_let_it(client, token, alice):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        approve(item_of(run, ref), alice)
    deliver(run)
    html = page(client, alice, f"/outbox/{item_of(run, 'tell').pk}/")
    assert "Sent. Approved by you." in html
    assert "Yes, send" not in html
    assert "Approve and send" not in html


def test_a_gate_says_that_the_run_waits(client, token, alice):
    run = make_waiting(token=token, plan=GATE)
    assert "gate: the run waits for the result" in page(client, alice, f"/outbox/{item_of(run, 'gate').pk}/")


def test_what_needs_no_yes_says_so(client, token, alice):
    run = make_released(token=token, plan=TEAM)
    html = page(client, alice, f"/outbox/{item_of(run, 'team').pk}/")
    assert "By policy it needs no yes." in html


def test_nothing_changed_is_204_and_a_change_is_its_parts(client, token, alice):
    run = make_released(token=token)
    item = item_of(run, "tell")
    html = page(client, alice, f"/outbox/{item.pk}/")
    poll = re.search(r'hx-get="(/outbox/live/[^"]*)"', html)[1].replace("&amp;", "&")
    assert client.get(poll).status_code == 204
    approve(item, make_user(roles=("reviewer",), team=token.team))
    answer = client.get(poll).content.decode()
    # A page on which someone may be deciding gets a line, not another card under their hand.
    assert 'id="changed"' in answer
    assert 'id="item"' not in answer
    assert 'id="queue"' in answer
    assert 'id="nav-counts"' in answer
    assert client.get(poll.replace("&deciding", "")).content.decode().count('id="item"') == 1


def test_live_tells_nothing_of_what_one_may_not_see(client, token):
    item = item_of(make_released(token=token), "tell")
    client.force_login(make_user("stranger"))
    assert "Tell the client" not in client.get("/outbox/live/", {"item": item.pk}).content.decode()


@pytest.mark.parametrize("path", ["/outbox/", "/outbox/?decided", "/outbox/1/", "/outbox/1/?confirm=approve", "/outbox/1/?confirm=reject"])
def test_no_page_carries_what_the_policy_forbids(client, token, alice, path):
    make_released(token=token, plan=TEAM, why="<img src=x onerror=alert(1)>")
    html = page(client, alice, path)
    assert forbidden(html) == []
    assert "<img" not in html


def test_a_queue_of_many_costs_no_more_queries_than_one_of_few(client, token, alice):
    from django.db import connection

    def queries():
        with CaptureQueriesContext(connection) as captured:
            page(client, alice)
        return len(captured)

    make_released(token=token)
    few = queries()
    for _ in range(4):
        make_released(token=token)
    assert queries() <= few + 2


def test_decided_items_are_a_page_at_a_time(client, token, alice, monkeypatch):
    from outbox import inbox, views

    monkeypatch.setattr(inbox, "PAGE", 1)
    monkeypatch.setattr(views, "PAGE", 1)
    run = make_released(token=token)
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        services.reject(item, digest=item.digest, by=alice, reason="no")
    html = page(client, alice, "/outbox/", decided="")
    assert f'before={item_of(run, "also").pk}"' in html
    assert f"/outbox/{item_of(run, 'tell').pk}/" in page(client, alice, "/outbox/", decided="", before=item_of(run, "also").pk)


def test_the_sweep_can_look_twice(token):
    run = make_released(token=token)
    expired(run)
    expire_items(None)
    assert run.entries.filter(event="item.expired").count() == 2


def test_an_empty_outbox_says_so(client, alice):
    make_run(plan=[])
    assert "Nothing waits for you" in page(client, alice)


def test_who_decides_nothing_reads_whom_to_ask(client, token, alice, bob):
    """Bob owns the runs, and may approve nothing of anybody's."""
    run = make_released(token=token)
    html = page(client, bob)
    assert f"Approvers for clients: {alice}" in html
    assert "For you" not in html
    assert group_of(html, "For someone else") == [str(item_of(run, ref).pk) for ref in ("tell", "also")]
    assert "Approvers for clients" not in page(client, alice)


def test_whom_the_policy_for_clients_names_is_whom_to_ask(client, token, alice, bob):
    carol = make_user("carol")
    named = Policy.objects.get(capability="", audience="clients")
    named.people.add(carol)
    html = page(client, bob)
    assert f"Approvers for clients: {carol}." in html
    assert str(alice) not in html
    assert "Nothing waits that you can see" in html
    assert "Nothing waits for you" in page(client, carol)


def test_without_anybody_who_may_approve_an_admin_is_named(client, token, bob):
    User.objects.exclude(pk=bob.pk).update(is_active=False)
    assert "Nobody may approve for clients in the teams you see" in page(client, bob)
