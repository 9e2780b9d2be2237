"""Who did what: narrowed by address, a page at a time, taken away as a file, and for one call all of it in one page."""

from __future__ import annotations

import csv
import io
import json

import pytest

from outbox.models import Item
from outbox.services import approve
from runs import audit, services
from runs.audit import GOVERNING
from runs.models import CapabilityRecord
from runs.services.governing import disable
from tests.factories import make_team, make_user
from tests.outbox.scenes import deliver, item_of, make_released
from tests.runs.pages.helpers import failed_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def auditor(team):
    return make_user("audrey", roles=("auditor",), team=team)


def acts(client, **asked):
    page = client.get("/audit/", asked)
    assert page.status_code == 200
    return [act.event for act in page.context["page"].acts]


def test_acts_are_found_by_who_what_on_what_and_when(client, auditor, alice, team):
    run = failed_run(team)
    services.take_run(run, by=alice)
    client.force_login(auditor)
    assert acts(client, who="alice") == ["run.taken"]
    assert acts(client, event="run.opened") == ["run.opened"]
    assert set(acts(client, on="show_thing")) == {"step.requested"}
    assert acts(client, who="alice", until="2001-01-01") == []
    assert acts(client, who="alice", since="2001-01-01", run=str(run.pk)) == ["run.taken"]
    assert acts(client, who="alice", since="nonsense", event="no such act") == ["run.taken"]
    assert acts(client, who="alice", since="0001-01-01", until="9999-12-31") == ["run.taken"]
    assert acts(client, run=str(run.pk + 1)) == []


def test_older_acts_are_a_link_that_keeps_what_was_asked(client, auditor, alice, team, monkeypatch):
    monkeypatch.setattr(audit, "PAGE", 1)
    run = failed_run(team)
    services.take_run(run, by=alice)
    services.step_back(run, by=alice)
    client.force_login(auditor)
    page = client.get("/audit/", {"who": "Alice"}).content.decode()
    assert "&amp;who=Alice" in page
    assert "?before=" in page


def taken_away(client, name, **asked):
    return b"".join(client.get(f"/audit.{name}", asked).streaming_content).decode()


def test_an_auditor_takes_them_away_as_they_were_narrowed(client, auditor, alice, team):
    services.take_run(failed_run(team), by=alice)
    client.force_login(auditor)
    rows = list(csv.DictReader(io.StringIO(taken_away(client, "csv", who="alice"))))
    assert [(row["who"], row["event"]) for row in rows] == [("person:Alice Ahn", "run.taken")]
    lines = [json.loads(line) for line in taken_away(client, "jsonl", who="alice").splitlines()]
    assert [(line["who"], line["event"], line["hash"]) for line in lines] == [("person:Alice Ahn", "run.taken", rows[0]["hash"])]


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_without_an_auditors_right_there_is_no_file(client, alice, team, name):
    failed_run(team)
    client.force_login(alice)
    assert client.get(f"/audit.{name}").status_code == 403
    assert "As CSV" not in client.get("/audit/").content.decode()


@pytest.mark.parametrize("lead", ["=", "+", "-", "@", "\t"])
def test_what_others_wrote_is_no_formula_in_a_spreadsheet(client, auditor, alice, team, lead):
    run = failed_run(team)
    services.leave_standing(run, by=alice, reason=f"{lead}HYPERLINK(1)")
    client.force_login(auditor)
    rows = list(csv.reader(io.StringIO(taken_away(client, "csv"))))
    cells = [cell for row in rows for cell in row]
    assert any("HYPERLINK" in cell for cell in cells)
    assert [cell for cell in cells if cell.startswith(lead)] == []


def test_what_was_done_to_what_governs_is_among_them_for_auditors(client, auditor, alice, team, monkeypatch):
    run = failed_run(team)
    services.take_run(run, by=alice)
    record = CapabilityRecord.objects.get(name="show_thing")
    disable(record, by=make_user("grace", roles=("admin",), team=team), reason="it leaks")
    services.step_back(run, by=alice)
    client.force_login(auditor)
    assert acts(client)[:3] == ["run.taken", GOVERNING, "run.taken"]
    assert acts(client).count(GOVERNING) == 1
    assert acts(client, kind=GOVERNING) == acts(client, who="grace") == acts(client, who="grace", on="show_thing") == [GOVERNING]
    assert acts(client, who="grace", event="run.taken") == acts(client, who="grace", until="2001-01-01") == []
    row = list(csv.DictReader(io.StringIO(taken_away(client, "csv", who="grace"))))[0]
    assert (row["event"], row["detail"]) == (GOVERNING, "disabled: it leaks")
    assert "show_thing" in row["on"]
    monkeypatch.setattr(audit, "PAGE", 1)
    seen, before = [], ""
    while before is not None:
        page = client.get("/audit/", {"before": before})
        seen += [act.event for act in page.context["page"].acts]
        before = page.context["page"].older
    assert seen.count(GOVERNING) == 1
    monkeypatch.setattr(audit, "GOVERNED", 0)
    assert "Narrow by day" in client.get("/audit/", {"kind": GOVERNING}).content.decode()
    client.force_login(alice)
    assert GOVERNING not in acts(client)


def test_an_act_says_from_where_it_came(client, auditor, alice, team):
    run = failed_run(team)
    client.force_login(alice)
    client.post(f"/runs/{run.pk}/take/", REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.9\x1b[2J")
    client.force_login(auditor)
    page = client.get("/audit/", {"who": "alice"})
    assert page.context["page"].acts[0].whence == "page 192.0.2.7, says it asks for 203.0.113.9[2J"
    row = list(csv.DictReader(io.StringIO(taken_away(client, "csv", who="alice"))))[0]
    assert row["from"].startswith("page 192.0.2.7")


def test_who_let_it_out_and_what_they_saw_is_one_page(client, auditor, alice, token, team):
    run = make_released(token=token)
    for ref in ("tell", "also"):
        item = item_of(run, ref)
        approve(item, digest=item.digest, by=alice)
    deliver(run)
    item = Item.objects.get(pk=item_of(run, "tell").pk)
    client.force_login(auditor)
    page = client.get(f"/outbox/{item.pk}/evidence/").content.decode()
    for needed in (
        "Alice Ahn: ",
        item.digest,
        "reviewer",
        "Exactly this will be sent",
        "ready",
        "on the card, as it stands here",
        "entry ",
    ):
        assert needed in page, needed
    assert f"/outbox/{item.pk}/evidence/" in client.get("/audit/").content.decode()
    client.force_login(make_user("stranger", team=make_team()))
    assert client.get(f"/outbox/{item.pk}/evidence/").status_code == 404
