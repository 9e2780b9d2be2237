"""What pages cost: queries, by count, over every page there is, in a store where a query a row would show."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from corrections.models import Audience, Correction
from outbox.models import Item
from runs.models import Run
from tests.checker import forged
from tests.factories import make_user
from tests.routes import ROWS, path_of, routes
from tests.store import Size, fill

pytestmark = pytest.mark.django_db
AT_MOST = 15
# Of the routes that answer a GET: what else of them is a page of its own.
MORE = {
    "runs/": ["?state=needs", "?state=visible&q=field", "?state=running&owner=store-reader", "?before=1000050", "?q=nothing+at+all"],
    "runs/<int:number>/compensate/": ["?look=later"],
    "runs/<int:number>/live/": ["?seq=0"],
    "runs/<int:number>/log/": ["?step=3", "?before=40"],
    "go/": ["?q=BILL-12", "?q=d41d8cd98f00"],
    "outbox/": ["?decided", "?q=client&audience=clients&soon=1"],
    "outbox/live/": ["?seen=old&item={item}&card=old"],
    "outbox/bulk/": ["?{items}"],
    "outbox/<int:item_id>/": ["?confirm=approve", "?confirm=reject", "?confirm=edit", "?confirm=drop", "?done=1"],
    "corrections/": ["?state=mine", "?q=field&state=open", "?before=1000"],
    "capabilities/": ["?q=thing&state=due"],
    "corrections/live/": ["?seen=old", "?id={correction}&seen=old"],
    "corrections/<int:correction_id>/": ["?confirm=send", "?confirm=dismiss"],
}


@pytest.fixture
def store():
    """Runs in all states, one of 30 steps, 20 items that wait, corrections, audiences and their owners, and who may see them all."""
    with connection.cursor() as cursor:
        found = fill(cursor, Size(runs=400, entries=50, waiting=20, long=30))
    for number in range(12):
        Audience.objects.create(name=f"cohort {number}", owner=make_user(f"owner{number}", team=found.team))
    for run in Run.objects.all():
        forged(run, "rows of a store, made without an engine")
    return found


def signed_in(person):
    client = Client()
    client.force_login(person)
    return client


def addresses(store, *kinds, runs):
    """Every address of these kinds that may answer a GET with a page; those of runs once for each of `runs`."""
    ids = {"item": store.item, "correction": store.correction, "step": 3, "person": store.person.pk}
    items = "&".join(f"item={pk}" for pk in Item.objects.filter(state="awaiting").values_list("pk", flat=True))
    for route in (route for route in routes() if (row := ROWS.get(route)) and row.kind in kinds):
        for run in runs if ROWS[route].kind == "run" else runs[:1]:
            for more in ["", *MORE.get(route, [])]:
                yield path_of(route, {**ids, "run": run}) + more.format(item=store.item, items=items, correction=store.correction)


def queries_of(client, address):
    """How many the page asked, session and person included; None for what is no page for this person."""
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(address)
        if answer.streaming:
            b"".join(answer)
    return len(asked) if answer.status_code == 200 else None


def test_no_page_asks_more_than_fifteen_queries(store):
    assert Correction.objects.count() > 20
    moving = undone_now(store)
    every = [store.long, store.waiting, store.stuck, store.done, moving]
    readers = {
        store.person: addresses(store, "own", "run", "item", "correction", runs=every),
        make_user("root", is_superuser=True, team=store.team): addresses(store, "own", "govern", runs=[store.failed]),
        make_user("onlooker", team=store.team): addresses(store, "run", "item", "correction", runs=[moving]),
    }
    # What a process reads once, as the numbers of content types, is read.
    queries_of(signed_in(store.person), "/runs/")
    found = {f"{address} for {person}": queries_of(signed_in(person), address) for person, theirs in readers.items() for address in theirs}
    pages = {address: number for address, number in found.items() if number is not None}
    assert len(pages) > 100
    assert [f"{number}: {address}" for address, number in pages.items() if number > AT_MOST] == []


def undone_now(store):
    """A run whose walk back is under way: its page also says who will be told, and how long it usually takes."""
    run = Run.objects.get(pk=store.failed)
    run.steps.filter(number=2).update(state="undoing", lease_until=timezone.now(), undo_started_at=timezone.now())
    Run.objects.filter(pk=run.pk).update(state="compensating", compensating_since=timezone.now())
    return run.pk


# What a page may read row by row grows with what is unfinished, not with what ever was.
HISTORY = {"runs_step", "runs_logentry", "outbox_item"}


PAGES = [
    *("me/", "runs/", "runs/?state=needs", "runs/?state=visible", "runs/?q=field+77", "runs/{waiting}/", "runs/{long}/"),
    *("runs/{failed}/compensate/?look=later", "outbox/", "outbox/?q=client", "outbox/{item}/", "corrections/"),
]


def test_no_page_reads_all_that_ever_was():
    """In a store in which nearly everything is over."""
    with connection.cursor() as cursor:
        store = fill(cursor, Size(runs=2_000, entries=2, waiting=30, long=30))
    for run in Run.objects.all():
        forged(run, "rows of a store, made without an engine")
    client = signed_in(store.person)
    client.get("/runs/")
    found = []
    for path in PAGES:
        with CaptureQueriesContext(connection) as asked:
            assert client.get("/" + path.format(**vars(store))).status_code == 200
        found += [f"/{path} reads the whole of {table}" for query in asked.captured_queries for table in whole_tables(query["sql"])]
    assert found == []


def whole_tables(sql):
    """The tables of the history that this query reads from end to end to find some of their rows."""
    if not sql.lstrip(" (").startswith(("SELECT", "WITH")):
        return
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".replace("%", "%%"))
        nodes = [cursor.fetchone()[0][0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        was_read = node["Actual Loops"] and node["Node Type"] == "Seq Scan" and node["Relation Name"] in HISTORY
        if was_read and "Rows Removed by Filter" in node:
            yield f"{node['Relation Name']}: {sql}"


@pytest.mark.parametrize("path", ["runs/{run}/", "runs/", "outbox/", "outbox/{item}/", "corrections/", "corrections/{correction}/"])
def test_an_open_page_to_which_nothing_happened_costs_one_query_and_renders_nothing(store, path):
    client = signed_in(store.person)
    page = client.get("/" + path.format(run=store.waiting, item=store.item, correction=store.correction)).content.decode()
    poll = re.search(r'<div[^>]*data-poll[^>]*hx-get="([^"]*)"', page)[1].replace("&amp;", "&")
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(poll, headers={"HX-Request": "true"})
    assert (answer.status_code, answer.content, answer.templates) == (204, b"", [])
    tables = [re.search(r'FROM "(\w+)"', query["sql"])[1] for query in asked.captured_queries]
    assert tables == ["django_session", "accounts_user", "runs_logentry"]
