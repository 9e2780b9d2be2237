"""One run: its page, what is live on it, and what people do there."""

import re

import pytest
from django.core import signing
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from corrections import services as corrections
from runs import services
from runs.engine import compensate
from runs.models import LogEntry, Run
from runs.states import RunState
from runs.views.shared import SALT
from tests.checker import forged
from tests.factories import ask, do, make_run, make_team, make_token, make_user
from tests.outbox.scenes import make_released
from tests.runs.pages.helpers import again, compensated_run, failed_run, state_of, stuck_run
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"headers": {"HX-Request": "true"}}


@pytest.fixture
def run(team):
    return failed_run(team)


def seq_of(run):
    return run.entries.count()


def live(client, run, seq, user=None, **extra):
    seen = signing.Signer(salt=SALT).signature(f"{run.pk}:{user.pk}") if user else ""
    return client.get(f"/runs/{run.pk}/live/", {"seq": seq, "seen": seen}, **extra)


def test_the_page_says_what_is_out_there(client, alice, run):
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Three effects are still out there." in page
    assert "<em>People can see one of them.</em>" in page
    assert "Preview compensation…" in page
    assert "Undo works above this line" in page


def test_a_foreign_run_is_not_there(client, run):
    client.force_login(make_user("eve", roles=("on-call",), team=make_team("elsewhere")))
    for address in ("", "live/?seq=0", "compensate/", "log/", "log.jsonl", "report/", "report.md", "steps/1/", "leave/", "stop/"):
        assert client.get(f"/runs/{run.pk}/{address}").status_code == 404
    for address in (
        "take/",
        "compensate/",
        "leave/",
        "stop/",
        "pause/",
        "confirm/",
        "retry-sending/",
        "steps/3/settle/",
        "steps/3/let-through/",
        "steps/3/refuse/",
        "steps/3/drop/",
        "step-back/",
    ):
        assert client.post(f"/runs/{run.pk}/{address}", {"reason": "x"}).status_code == 404
    assert seq_of(run) == again(run).entries.count()
    assert again(run).state == RunState.FAILED


def test_who_is_not_signed_in_lands_on_the_page_after_it(client, run):
    answer = client.get(f"/runs/{run.pk}/")
    assert answer.url == f"/login/?next=/runs/{run.pk}/"
    assert client.get(f"/runs/{run.pk}/live/?seq=1", **HTMX)["HX-Redirect"].startswith("/login/")


def test_without_the_right_there_is_no_button_but_names(client, alice, bob, run):
    client.force_login(bob)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "On-call for this team compensates: Alice Ahn." in page
    assert "Preview compensation" not in page
    assert client.post(f"/runs/{run.pk}/take/").status_code == 403
    assert again(run).taken_by is None


def test_taking_it_twice_is_one_name(client, alice, run):
    client.force_login(alice)
    assert client.post(f"/runs/{run.pk}/take/").url == f"/runs/{run.pk}/"
    client.post(f"/runs/{run.pk}/take/")
    assert again(run).taken_by == alice
    assert "You are</b>" not in client.get(f"/runs/{run.pk}/").content.decode()
    assert "<b>You are on it</b>" in client.get(f"/runs/{run.pk}/").content.decode()


def test_a_press_by_htmx_swaps_parts(client, alice, run):
    client.force_login(alice)
    answer = client.post(f"/runs/{run.pk}/take/", **HTMX)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "<html" not in page
    assert 'id="actions" hx-swap-oob="true"' in page
    assert "You are on it" in page


@pytest.mark.parametrize("address", ["take/", "step-back/", "retry-sending/", "steps/1/let-through/"])
def test_what_acts_wants_a_post(client, alice, run, address):
    client.force_login(alice)
    assert client.get(f"/runs/{run.pk}/{address}").status_code == 405


def test_a_refusal_stands_on_the_page(client, alice, run):
    client.force_login(alice)
    for extra in ({}, HTMX):
        answer = client.post(f"/runs/{run.pk}/retry-sending/", **extra)
        assert answer.status_code == 409
        assert "<b>Nothing was done.</b> It is failed; no send waits for a retry." in answer.content.decode()


def test_leaving_standing_wants_a_reason(client, alice, run):
    client.force_login(alice)
    assert "put panel" in client.get(f"/runs/{run.pk}/leave/").content.decode()
    answer = client.post(f"/runs/{run.pk}/leave/", {"reason": "  "})
    assert answer.status_code == 422
    assert again(run).state == RunState.FAILED
    assert client.post(f"/runs/{run.pk}/leave/", {"reason": "wanted after all"}).status_code == 302
    assert again(run).state == RunState.LEFT_STANDING
    assert "Three effects stay on purpose." in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.post(f"/runs/{run.pk}/leave/", {"reason": "again"}).status_code == 409


def test_stopping_fails_the_run_and_the_refused_second_stop_keeps_what_was_typed(client, alice, team):
    run = make_run(token=make_token(team=team))
    do(run, "one")
    client.force_login(alice)
    assert client.post(f"/runs/{run.pk}/stop/", {"reason": "wrong branch"}).status_code == 302
    assert again(run).state == RunState.FAILED
    answer = client.post(f"/runs/{run.pk}/stop/", {"reason": "once more"})
    assert answer.status_code == 409
    assert "once more</textarea>" in answer.content.decode()


def test_a_run_without_checks_waits_for_a_persons_word(client, alice, team):
    token = make_token(team=team, required_checks=[])
    run = make_run(token=token, plan=[{"ref": "one", "capability": "put_thing", "args": {"name": "one"}}])
    do(run, "one")
    services.finish_run(run, token=token)
    client.force_login(alice)
    assert "a person has to say that it is good" in client.get(f"/runs/{run.pk}/").content.decode()
    client.post(f"/runs/{run.pk}/confirm/", {"reason": "looked at the screen"})
    assert again(run).state == RunState.SUCCEEDED


def test_settling_a_stuck_step(client, alice, bob, team):
    run = stuck_run(team)
    client.force_login(bob)
    assert client.post(f"/runs/{run.pk}/steps/3/settle/", {"how": "undone_by_hand", "reason": "did it"}).status_code == 403
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Stopped at step 3: the undo can’t be verified." in page
    assert "the shelf is locked" in page
    answer = client.post(f"/runs/{run.pk}/steps/3/settle/", {"how": "undone_by_hand"})
    assert answer.status_code == 422
    assert state_of(run, "show") == "undo_failed"
    assert client.post(f"/runs/{run.pk}/steps/3/settle/", {"how": "undone_by_hand", "reason": "took it down"}).status_code == 302
    assert state_of(run, "show") == "settled"
    assert client.post(f"/runs/{run.pk}/steps/3/settle/", {"how": "undone_by_hand", "reason": "again"}).status_code == 409


def test_trying_an_undo_again(client, alice, team):
    run = stuck_run(team)
    client.force_login(alice)
    client.post(f"/runs/{run.pk}/steps/3/settle/", {"how": "again", "reason": "unlocked it"})
    assert again(run).state == RunState.COMPENSATING


def test_letting_a_held_call_through(client, alice, bob, team):
    token = make_token(team=team, off_plan="hold")
    run = make_run(token=token)
    step = ask(run, "put_thing", token=token, ref="more", args={"name": "more"}).step
    client.force_login(bob)
    assert client.post(f"/runs/{run.pk}/steps/{step.number}/let-through/").status_code == 403
    client.force_login(alice)
    assert "Let it through" in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.post(f"/runs/{run.pk}/steps/{step.number}/let-through/").status_code == 302
    step.refresh_from_db()
    assert step.state == "requested"
    assert client.post(f"/runs/{run.pk}/steps/{step.number}/let-through/", **HTMX).status_code == 409


def test_refusing_a_held_call_asks_why_and_the_agent_gets_it(client, alice, bob, team):
    token = make_token(team=team, off_plan="hold")
    run = make_run(token=token)
    step = ask(run, "put_thing", token=token, ref="more", args={"name": "more"}).step
    address = f"/runs/{run.pk}/steps/{step.number}/refuse/"
    client.force_login(bob)
    assert client.post(address, {"reason": "no"}).status_code == 403
    client.force_login(alice)
    assert address in client.get(f"/runs/{run.pk}/").content.decode()
    assert address in client.get(f"/runs/{run.pk}/steps/{step.number}/").content.decode()
    assert f"Refuse step {step.number} of run {run.number}?" in client.get(address).content.decode()
    assert client.post(address, {"reason": " "}).status_code == 422
    assert client.post(address, {"reason": "use the other one"}).status_code == 302
    step.refresh_from_db()
    assert (step.state, step.closed_why, step.error) == ("closed", "rejected", "use the other one")
    answer = client.post(address, {"reason": "use the other one"})
    assert answer.status_code == 409
    assert "It is closed now." in answer.content.decode()


def test_dropping_a_call_that_could_not_be_sent(client, alice, bob, token):
    run = make_released(token=token)
    step = run.steps.get(ref="tell")
    forged(run, "only that it could not be sent matters")
    run.steps.filter(pk=step.pk).update(state="failed", intent_seq=9)
    Run.objects.filter(pk=run.pk).update(state="stuck")
    address = f"/runs/{run.pk}/steps/{step.number}/drop/"
    client.force_login(bob)
    assert address not in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.post(address, {"reason": "no"}).status_code == 403
    client.force_login(alice)
    assert address in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.post(address, {"reason": "told them by phone"}).status_code == 302
    step.refresh_from_db()
    assert (step.closed_why, again(run).state) == ("dropped", "releasing")


def test_settling_a_call_that_could_not_be_sent(client, alice, bob, token):
    run = make_released(token=token)
    step = run.steps.get(ref="tell")
    forged(run, "only that it could not be sent matters")
    run.steps.filter(pk=step.pk).update(state="failed", error="no such client", intent_seq=9)
    Run.objects.filter(pk=run.pk).update(state="stuck")
    address = f"/runs/{run.pk}/steps/{step.number}/settle/"
    client.force_login(bob)
    assert address not in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.post(address, {"how": "happened", "reason": "no", "effect": '{"id": 1}'}).status_code == 403
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert address in page and "Say that it went out" in page and "no such client" in page
    for effect in ("", "nonsense", "{}"):
        answer = client.post(address, {"how": "happened", "reason": "they have it", "effect": effect})
        assert answer.status_code == 422
        assert 'value="they have it"' in answer.content.decode()
    assert state_of(run, "tell") == "failed"
    assert client.post(address, {"how": "happened", "reason": "they have it", "effect": '{"id": 1}'}).status_code == 302
    assert state_of(run, "tell") == "sent"
    assert "Go on sending" in client.get(f"/runs/{run.pk}/").content.decode()


def test_stepping_back_after_im_on_it(client, alice, team, run):
    client.force_login(alice)
    client.post(f"/runs/{run.pk}/take/")
    assert "step back" in client.get(f"/runs/{run.pk}/").content.decode()
    sam = make_user("sam", roles=("on-call",), team=team)
    client.force_login(sam)
    assert client.post(f"/runs/{run.pk}/step-back/").status_code == 409
    client.force_login(alice)
    answer = client.post(f"/runs/{run.pk}/step-back/", **HTMX)
    assert answer.status_code == 200
    assert "You are on it" not in answer.content.decode()
    assert again(run).taken_by is None
    assert "stepped back" in client.get(f"/runs/{run.pk}/log/").content.decode()
    assert client.post(f"/runs/{run.pk}/step-back/").status_code == 409


def test_nothing_new_costs_one_query(client, alice, run):
    client.force_login(alice)
    live(client, run, 1, alice)
    seq = seq_of(run)
    with CaptureQueriesContext(connection) as queries:
        answer = live(client, run, seq, alice)
    asked = [query["sql"] for query in queries if "django_session" not in query["sql"] and '"accounts_user"."id" = ' not in query["sql"]]
    assert answer.status_code == 204
    assert answer.templates == []
    assert len(asked) == 1
    assert "runs_logentry" in asked[0]


def test_without_the_seal_nothing_new_is_said_only_to_who_may_see_it(client, alice, run):
    client.force_login(alice)
    assert live(client, run, seq_of(run)).status_code == 204
    client.force_login(make_user("eve"))
    assert live(client, run, seq_of(run)).status_code == 404
    assert live(client, run, seq_of(run), alice).status_code == 404


def test_what_is_new_comes_out_of_band(client, alice, run):
    client.force_login(alice)
    seq = seq_of(run)
    services.take_run(run, by=alice)
    page = live(client, run, seq, alice).content.decode()
    for region in ("head", "situation", "actions", "facts", "blast-rows", "expo", "log", "nav-counts"):
        assert f'id="{region}"' in page, region
    assert page.count("hx-swap-oob") >= 9
    assert f"seq={seq + 1}&amp;" in page
    assert "every 5s" in page


def test_an_ended_run_is_not_asked_about_any_more(client, alice, team):
    run = compensated_run(team)
    client.force_login(alice)
    assert "data-poll" in live(client, run, 1, alice).content.decode(), "somebody is still misled"
    for correction in run.corrections.all():
        corrections.dismiss(correction, by=correction.run.owner, reason="Nobody was in.")
    page = live(client, run, 1, alice).content.decode()
    assert '<div id="poller"></div>' in page
    assert "Final · no longer updating" in page


@pytest.mark.parametrize("seq", ["", "x", "-1", "9" * 30, "٣"])
def test_a_seq_that_is_none_is_refused(client, alice, run, seq):
    client.force_login(alice)
    assert client.get(f"/runs/{run.pk}/live/", {"seq": seq}).status_code == 422


def test_the_number_of_queries_does_not_grow_with_the_steps(client, alice, team):
    client.force_login(alice)
    token = make_token(team=team)
    small = make_run(token=token)
    big = make_run(token=token, plan=[{"ref": f"p{n}", "capability": "put_thing", "args": {"name": f"t{n}"}} for n in range(60)])
    client.get(f"/runs/{small.pk}/")
    counts = []
    for run in (small, big):
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/runs/{run.pk}/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] <= 32, counts


def test_a_form_without_its_token_does_nothing(alice, run):
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(alice)
    answer = careful.post(f"/runs/{run.pk}/take/")
    assert answer.status_code == 403
    assert "Nothing was done" in answer.content.decode()
    assert again(run).taken_by is None


@pytest.mark.parametrize("number", ["0", "9" * 18, "9" * 19, "9" * 40])
def test_numbers_that_are_no_run(client, alice, number):
    client.force_login(alice)
    for address in ("", "live/?seq=1", "log/", "steps/1/", "compensate/"):
        assert client.get(f"/runs/{number}/{address}").status_code == 404
    assert client.get(f"/runs/?before={number}").status_code == 200


def test_the_step_page_says_what_the_call_did(client, alice, run):
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/steps/3/").content.decode()
    assert "Put panel" in page
    assert "&quot;name&quot;: &quot;panel&quot;" in page
    assert run.steps.get(number=3).key in page
    assert client.get(f"/runs/{run.pk}/steps/99/").status_code == 404


def test_log_report_and_lines(client, alice, team):
    run = compensated_run(team)
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/log/").content.decode()
    assert f"Chain whole, {run.entries.count()} entries." in page
    only = client.get(f"/runs/{run.pk}/log/?step=3").content.decode()
    assert "undo.verified" in only and "run.opened" not in only
    lines = b"".join(client.get(f"/runs/{run.pk}/log.jsonl").streaming_content).splitlines()
    assert len(lines) == run.entries.count()
    report = client.get(f"/runs/{run.pk}/report/").content.decode()
    assert "Three of three effects undone and verified" in report
    text = client.get(f"/runs/{run.pk}/report.md")
    assert text["Content-Type"].startswith("text/markdown")
    assert LogEntry.objects.filter(run=run).newest_first()[0].hash in text.content.decode()


def test_a_log_that_somebody_changed_is_loud(client, alice, run):
    import psycopg

    forged(run, "a log that was changed")
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute("UPDATE runs_logentry SET actor = 'person:nobody' WHERE run_id = %s AND seq = 3", [run.pk])
    client.force_login(alice)
    assert "Entry 3 doesn’t fit." in client.get(f"/runs/{run.pk}/log/").content.decode()


def test_signed_out_a_press_leads_to_the_login_and_is_never_swapped_in(run):
    answer = Client(enforce_csrf_checks=True).post(f"/runs/{run.pk}/take/", **HTMX)
    assert answer.status_code == 204
    assert answer["HX-Redirect"].startswith("/login/?next=")


def test_with_an_old_token_the_page_is_loaded_again(alice, run):
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(alice)
    answer = careful.post(f"/runs/{run.pk}/take/", **HTMX)
    assert (answer.status_code, answer["HX-Refresh"]) == (204, "true")


def test_undo_over_a_change_wants_a_second_press_that_shows_it(client, alice, team):
    run = failed_run(team)
    world.things["panel"]["value"] = "changed by somebody"
    services.compensate_run(run, actor="person:Alice Ahn")
    compensate.compensate(run.pk)
    client.force_login(alice)
    given = {"how": "again", "reason": "it was a mistake"}
    page = client.post(f"/runs/{run.pk}/steps/3/settle/", given).content.decode()
    assert "This will be overwritten:" in page and again(run).state == RunState.STUCK
    sure = re.search(r'name="sure" value="(\w+)"', page).group(1)
    client.post(f"/runs/{run.pk}/steps/3/settle/", {**given, "sure": sure})
    assert again(run).undo_over == [3]
    assert run.entries.filter(event="run.compensating").last().data["why"] == "it was a mistake"
    assert "had the run undone, over what somebody changed at step 3" in client.get(f"/runs/{run.pk}/report/").content.decode()


def test_who_settled_a_step_why_and_what_was_seen_stands_in_its_row(client, alice, team):
    run = stuck_run(team)
    services.settle_step(run.steps.get(number=3), by=alice, how="undone_by_hand", reason="I took\u202e it down")
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "I took⟨U+202E⟩ it down" in page and 'sagaboard saw: <bdi dir="auto">still there</bdi>' in page
    report = client.get(f"/runs/{run.pk}/report/").content.decode()
    assert "settled step 3, put panel as undone by hand; sagaboard saw: verify_undone: still there" in report


def test_what_went_out_is_in_the_report_also_after_it_was_left_standing(client, alice, team, run):
    forged(run, "as if a call below it had gone out and been left")
    run.steps.filter(ref="tell").update(
        state="left_standing", closed_why="", done_at=run.opened_at, intent_seq=9, settled_by="person:A", settled_why="it went out"
    )
    client.force_login(alice)
    report = client.get(f"/runs/{run.pk}/report/").content.decode()
    assert "1 call went out below it" in report and "nothing below it was sent" not in report


def test_a_run_that_no_check_decides_needs_someone(client, alice, team):
    run = make_run(token=make_token(team=team))
    forged(run, "only its state matters")
    Run.objects.filter(pk=run.pk).update(state="checking")
    run.checks.all().delete()
    assert run in Run.objects.needing_someone()
    run.checks.create(name="ci")
    assert run not in Run.objects.needing_someone()


def test_many_neighbours_that_say_the_same_stand_in_one_line_that_leads_to_them(client, alice, team):
    plan = [{"ref": f"s{number}", "capability": "put_thing", "args": {"name": f"s{number}"}} for number in range(12)]
    run = make_run(token=make_token(team=team), plan=[*plan, {"ref": "show", "capability": "show_thing", "args": {"name": "panel"}}])
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Steps 1 to 12" in page
    assert 'id="step-3"' not in page
    assert 'id="step-13"' in page
    rows = client.get(f"/runs/{run.pk}/steps/?from=1&to=12").content.decode()
    assert [f'id="step-{number}"' in rows for number in (1, 12, 13)] == [True, True, False]
    forged(run, "a call that failed among others that were not asked for")
    run.steps.filter(ref="s5").update(state="failed", key="k", error="no room")
    assert 'id="step-6"' in client.get(f"/runs/{run.pk}/").content.decode()
