"""After it went out: a second one, the news that it is back, the answers, and a run that is over only when all were told."""

import json
import re

import pytest
from django.core import mail
from django.utils import timezone

from corrections import delivery, replies, reports, services
from corrections.exceptions import NotSendable
from corrections.models import Correction, Report
from corrections.states import CorrectionState
from runs import report
from runs import services as runs
from runs.engine.deliver import pages_due
from runs.models import Page, Run
from runs.run_list import Wanted, board
from sagaboard.web import counts_for
from tests.corrections.scenes import SHOWN, draft_of, make_retry, make_undone, own_audience
from tests.factories import make_run
from tests.helpers import reread
from tests.tools import ShowThing, world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def draft(token):
    own_audience()
    return draft_of(make_undone(token=token))


@pytest.fixture
def sent(draft):
    return send(draft)


def send(draft):
    services.send(draft, by=draft.run.owner, revision=reread(draft).revision)
    delivery.deliver(draft.run_id, draft.pk)
    return reread(draft)


def test_a_retry_that_is_opened_is_when_it_will_come_back(draft):
    make_retry(draft.run, succeed=False)
    assert (reread(draft).back_when, reread(draft).revision) == ("after CI passes on the retry", 2)


def test_a_retry_that_fails_brings_nothing_back(draft):
    first = make_retry(draft.run, succeed=False)
    runs.fail_run(first, token=draft.run.token, reason="CI died again")
    assert (reread(draft).back_when, reread(draft).revision) == ("unknown, the owner will update", 3)
    # A retry of the retry may.
    again = make_run(token=draft.run.token, plan=SHOWN[:1], retry_of=first.pk)
    assert reread(draft).back_when == "after CI passes on the retry"
    services.edit(draft, by=draft.run.owner, revision=4, back_when="on Thursday")
    runs.fail_run(again, token=draft.run.token, reason="CI died once more")
    assert reread(draft).back_when == "on Thursday"


def test_a_draft_that_is_not_sent_when_the_retry_holds_says_that_it_is_back(draft):
    again = make_retry(draft.run)
    assert reread(draft).back_when == f"it is back, by run {again.number}"


def test_when_the_retry_holds_its_readers_are_told_in_one_click_in_the_same_place(sent, client):
    owner = sent.run.owner
    client.force_login(owner)
    assert "Tell them that it is back" not in client.get(sent.get_absolute_url()).content.decode()
    again = make_retry(sent.run)
    assert Page.objects.filter(person=owner, subject__contains="it is back").exists()
    assert counts_for(owner, {})["corrections"].number == 1
    assert "Back: tell them" in client.get("/corrections/").content.decode()
    html = client.get(sent.get_absolute_url()).content.decode()
    assert "Tell them that it is back" in html
    assert f"by run {again.number}" in re.sub(r"<[^>]+>", "", html)
    news = Correction.objects.get(pk=client.post(f"{sent.get_absolute_url()}back/").url.strip("/").rpartition("/")[2])
    delivery.deliver(sent.run_id, news.pk)
    assert (reread(news).state, news.place_key, news.follows) == (CorrectionState.SENT, sent.place_key, sent)
    assert world.calls("correct")[1].startswith(f"[It is back - run {sent.run_id}]")
    assert counts_for(owner, {})["corrections"].number == 0
    assert "Back:" not in client.get("/corrections/").content.decode()
    assert client.post(f"{sent.get_absolute_url()}back/").status_code == 409
    assert len(world.calls("correct")) == 2


def test_whoever_may_only_read_sees_that_nobody_was_told_it_is_back(sent, client, bob):
    make_retry(sent.run)
    client.force_login(bob)
    assert "Back: not told" in client.get("/corrections/").content.decode()


def test_a_retry_that_fails_is_no_news(sent):
    make_retry(sent.run, succeed=False)
    with pytest.raises(NotSendable, match="Nothing says that it is back"):
        services.say_back(sent, by=sent.run.owner)


def test_another_is_a_second_message_and_the_first_stays_as_it_was(sent, client):
    client.force_login(sent.run.owner)
    second = Correction.objects.get(pk=client.post(f"{sent.get_absolute_url()}another/").url.strip("/").rpartition("/")[2])
    services.edit(second, by=sent.run.owner, revision=1, what_to_do="Reopen the bugs.")
    assert send(second).state == CorrectionState.SENT
    first, last = world.calls("correct")
    assert (first, "Reopen the bugs." in last) == (sent.text, True)


def test_answers_are_counted_where_the_place_can_tell(sent, monkeypatch):
    assert (sent.replies, sent.replies_due_at) == (None, None)
    monkeypatch.setattr(ShowThing, "replies", lambda self, call, message, posted: 3)
    Correction.objects.filter(pk=sent.pk).update(replies_due_at=timezone.now())
    replies.count(sent.pk)
    assert reread(sent).replies == 3
    assert reread(sent).replies_due_at > timezone.now()


def test_a_run_is_not_over_while_somebody_believes_what_they_saw(draft, client):
    owner = draft.run.owner
    client.force_login(owner)
    assert [line.label for line in board(owner, Wanted(), timezone.now()).needs] == ["Compensated, 1 to tell"]
    assert report.as_data(draft.run)["finished"] is False
    assert "Compensated, 1 to tell" in client.get(f"/runs/{draft.run_id}/").content.decode()
    sent = send(draft)
    found = board(owner, Wanted(), timezone.now())
    assert [line.label for line in found.finished] == [""]
    assert found.needs == []
    told = report.as_data(Run.objects.get(pk=draft.run_id))
    assert told["finished"] is True
    assert told["told"][0]["text"] == sent.text
    assert told["told"][0]["told_after_seconds"] == round(sent.believed_for.total_seconds(), 3)


def test_the_report_is_mailed_when_the_run_ends_and_when_the_last_was_told(draft):
    def mailed():
        for owed in Report.objects.filter(mailed_at=None):
            reports.mail(owed.run_id, owed.pk)
            reports.mail(owed.run_id, owed.pk)
        pages_due()
        found = [one for one in mail.outbox if one.subject.startswith("Report")]
        mail.outbox.clear()
        return found

    (first,) = mailed()
    assert (first.subject, first.to) == (f"Report of run {draft.run_id}: compensated, 1 still to be told", [draft.run.owner.email])
    assert "not told yet" in first.body
    send(draft)
    (last,) = mailed()
    assert last.subject == f"Report of run {draft.run_id}: compensated"
    for needed in ["What happened to each step", "after it could first be seen", "chain whole"]:
        assert needed in last.body, needed
    assert mailed() == []


def test_the_report_is_a_page_markdown_and_data(draft, client):
    client.force_login(draft.run.owner)
    assert "not told yet" in client.get(f"/runs/{draft.run_id}/report/").content.decode()
    services.dismiss(draft, by=draft.run.owner, reason="nobody was in")
    html = client.get(f"/runs/{draft.run_id}/report/").content.decode()
    assert "nobody was told" in html
    assert "People could see one effect, for " in html
    assert "Nobody was told." in html
    assert "nobody was in" in html
    assert "said that nobody needs to be told" in html
    assert "nobody was in" in (text := client.get(f"/runs/{draft.run_id}/report.md").content.decode())
    assert "People could see one effect, for " in text
    found = json.loads(client.get(f"/runs/{draft.run_id}/report.json").content)
    assert found["told"][0]["why"] == "nobody was in"
    assert found["steps"][1]["visible_seconds"] > 0
    assert found["steps"][1]["undo_verified_at"]
