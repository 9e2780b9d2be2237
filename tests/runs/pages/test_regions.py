"""A region that can't be made says so in its place; the rest of the page stands, and what one can do there."""

import re

import pytest
from django.db import OperationalError

from runs.models import Page
from tests.helpers import forbidden
from tests.runs.pages.helpers import failed_run

pytestmark = pytest.mark.django_db(transaction=True)
# What makes each region, and what the others show.
MAKERS = {
    "situation": ("situation.of", "What is out there"),
    "facts": ("situation.of", "The four facts"),
    "blast-rows": ("blast_radius.table", "Blast radius"),
    "expo": ("picture.of", "Exposure"),
    "log": ("logwords.line", "Log"),
}
OTHERS = {
    "situation": "Three effects are still out there.",
    "facts": '<dl class="facts"',
    "blast-rows": "Undo works above this line",
    "expo": '<svg class="expo"',
    "log": '<ol class="log">',
}


@pytest.fixture
def run(team):
    return failed_run(team)


@pytest.fixture
def broken(monkeypatch):
    def broken(maker, exc=ValueError):
        def fails(*given):
            raise exc("nobody thought of this")

        monkeypatch.setattr(f"runs.views.shared.{maker}", fails)

    return broken


def notices(page):
    return re.findall(r"<b>([^<]+) could not be shown\.</b>", page)


@pytest.mark.parametrize("part", MAKERS)
def test_one_region_that_fails_takes_no_other_with_it(client, alice, run, broken, caplog, part):
    client.force_login(alice)
    maker, heading = MAKERS[part]
    broken(maker)
    answer = client.get(f"/runs/{run.pk}/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert heading in notices(page)
    assert f'<a href="/runs/{run.pk}/">Try again</a>' in page
    dead = {other for other in MAKERS if MAKERS[other][0] == maker} | ({"expo"} if part == "blast-rows" else set())
    assert [other for other, shows in OTHERS.items() if (shows in page) == (other in dead)] == []
    assert page.count(f'id="{part}"') == 1
    assert "Preview compensation…" in page
    assert forbidden(page) == []
    (logged, *_) = [record for record in caplog.records if record.exc_info and part in record.getMessage()]
    assert str(logged.exc_info[1]) == "nobody thought of this"
    assert re.search(r"reference (\w+)", logged.getMessage())[1] in re.findall(r"Reference <code>(\w+)</code>", page)


def test_a_region_whose_template_fails_is_no_different(client, alice, run, monkeypatch):
    Page.objects.create(run=run, person=alice, subject="it failed", body="it failed")
    monkeypatch.setattr(Page, "reader", property(lambda self: 1 / 0))
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert notices(page) == ["Paged"]
    assert [shows for shows in OTHERS.values() if shows not in page] == []


def test_an_open_page_is_told_in_its_place_and_actions_work(client, alice, run, broken):
    client.force_login(alice)
    broken("picture.of")
    here = {"HX-Request": "true", "HX-Current-URL": f"http://testserver/runs/{run.pk}/"}
    for answer in (client.get(f"/runs/{run.pk}/live/", {"seq": 0}, headers=here), client.post(f"/runs/{run.pk}/take/", headers=here)):
        page = answer.content.decode()
        assert answer.status_code == 200
        assert '<div id="expo" class="card" hx-swap-oob="true">' in page
        assert f'<a href="/runs/{run.pk}/">Try again</a>' in page
        assert notices(page) == ["Exposure"]
    assert "You are on it" in page
    broken("logwords.line")
    answer = client.get(f"/runs/{run.pk}/live/", {"seq": 0}, headers=here)
    assert (answer.status_code, 'id="says"' in answer.content.decode()) == (200, False)


def test_after_a_press_without_scripts_one_tries_again_where_one_came_from(client, bob, run, broken):
    client.force_login(bob)
    broken("picture.of")
    answer = client.post(f"/runs/{run.pk}/take/", headers={"Referer": f"http://testserver/runs/{run.pk}/"})
    assert answer.status_code == 403
    assert f'<a href="/runs/{run.pk}/">Try again</a>' in answer.content.decode()


def test_a_database_that_is_not_there_is_no_matter_of_one_region(client, alice, run, broken):
    client.force_login(alice)
    broken("picture.of", OperationalError)
    with pytest.raises(OperationalError):
        client.get(f"/runs/{run.pk}/")
