"""The list of corrections narrowed by its address: what it shows, what it counts, what it follows."""

import datetime as dt
import re

import pytest
from django.utils import timezone

from corrections import pages, services
from corrections.models import Correction
from corrections.pages import Filters, shelf_of
from corrections.states import CorrectionState
from tests.corrections.scenes import SHOWN_TWICE, draft_of, make_undone, own_audience
from tests.factories import make_team, make_token, make_user
from tests.helpers import reread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def reader(team):
    """Somebody of the team who sends nothing."""
    return make_user("rita", team=team)


@pytest.fixture
def three(team):
    """A draft, one held back and one dismissed, each of another owner's run; and one of another team."""
    own_audience()
    found = []
    for name, plan in (("ana", None), ("ben", SHOWN_TWICE), ("cleo", None)):
        token = make_token(team=team, person=make_user(name, first_name=name.capitalize(), last_name="Vega", team=team))
        found.append(draft_of(make_undone(token=token, plan=plan)))
    services.hold_back(found[1], by=found[1].run.owner)
    services.dismiss(found[2], by=found[2].run.owner, reason="Nobody was in.")
    make_undone(token=make_token(team=make_team("elsewhere")))
    return found


def shown(client, query=""):
    page = client.get(f"/corrections/{query}").content.decode()
    return [int(pk) for pk in re.findall(r'class="ttl wrap" href="/corrections/(\d+)/"', page)]


def test_filters_live_in_the_address(client, reader, three):
    draft, held, over = three
    client.force_login(reader)
    assert set(shown(client)) == {draft.pk, held.pk, over.pk}
    assert shown(client, "?q=ana") == [draft.pk]
    assert shown(client, f"?q={held.run_id}") == [held.pk]
    assert shown(client, "?q=banner") == [held.pk]
    assert set(shown(client, "?state=open")) == {draft.pk, held.pk}
    assert shown(client, "?state=dismissed") == [over.pk]
    assert shown(client, "?state=dismissed&q=ana") == []
    assert shown(client, "?state=mine") == []
    assert set(shown(client, "?state=' OR 1&q=%00&before=x")) == {draft.pk, held.pk, over.pk}
    client.force_login(draft.run.owner)
    assert shown(client, "?state=mine") == [draft.pk]


def test_each_filter_says_how_many_there_are_of_those_that_one_sees(reader, three):
    assert +shelf_of(reader, Filters(q="ana")).counts == {"": 3, "open": 2, "dismissed": 1}
    assert shelf_of(three[0].run.owner).counts["mine"] == 1


def test_nothing_that_matches_is_said_with_a_way_back_to_all(client, reader, three):
    client.force_login(reader)
    page = client.get("/corrections/?q=nothing+like+it").content.decode()
    assert "None of these." in page
    assert 'value="nothing like it"' in page
    assert '<a href="/corrections/">Show all</a>' in page
    assert "Nobody is left misled" not in page
    assert 'href="?state=open&amp;q=nothing+like+it"' in page


def test_an_open_list_keeps_to_its_filter(client, reader, three):
    client.force_login(reader)
    page = client.get("/corrections/?state=dismissed").content.decode()
    poll = re.search(r'hx-get="(/corrections/live/[^"]*)"', page)[1].replace("&amp;", "&")
    assert "state=dismissed" in poll
    services.dismiss(reread(three[0]), by=three[0].run.owner, reason="Nobody was in.")
    news = client.get(poll).content.decode()
    assert f'href="/corrections/{three[0].pk}/"' in news
    assert f'href="/corrections/{three[1].pk}/"' not in news
    assert "Dismissed <small>2</small>" in news
    assert "state=dismissed" in re.search(r'hx-get="(/corrections/live/[^"]*)"', news)[1]


def test_older_ones_are_a_link(client, reader, three, monkeypatch):
    monkeypatch.setattr(pages, "PAGE", 1)
    for one in three[:2]:
        services.dismiss(reread(one), by=one.run.owner, reason="Nobody was in.")
    client.force_login(reader)
    newest = max(one.pk for one in three)
    page = client.get("/corrections/?state=dismissed").content.decode()
    assert f"/corrections/?before={newest}&amp;state=dismissed" in page
    assert shown(client) == [newest]
    assert shown(client, f"?before={newest}&state=dismissed") == [newest - 1]
    assert "Not told yet <span>" not in client.get(f"/corrections/?before={newest}").content.decode()


def test_when_it_goes_out_is_said(client, reader, three):
    draft, held, over = three
    Correction.objects.filter(pk=draft.pk).update(goes_at=timezone.now() + dt.timedelta(minutes=9, seconds=30))
    client.force_login(reader)
    page = client.get("/corrections/").content.decode()
    assert re.search(r'by itself in <time datetime="[^"]+" data-until="[^"]+">9 min \d\d s</time>', page)
    assert ">by a person<" in page
    assert ">never<" in page
    assert reread(held).state == CorrectionState.HELD_BACK and reread(over).state == CorrectionState.DISMISSED
