"""What the policy forbids is on no page, and what others wrote is never markup."""

import re

import pytest
from django.conf import settings

from runs import blast_radius, services
from runs.models import OutsideTool
from sagaboard.templatetags import words
from tests.factories import do, make_run, make_token
from tests.runs.pages.helpers import compensated_run, failed_run, stuck_run
from tests.runs.pages.scenes import red_run
from tests.tools import world

pytestmark = pytest.mark.django_db(transaction=True)
TEMPLATES = settings.BASE_DIR / "templates"
FORBIDDEN = {
    "a style attribute": re.compile(r"<[^>]*\sstyle\s*=", re.I),
    "a style element": re.compile(r"<style\b", re.I),
    "a handler in an attribute": re.compile(r"<[a-z][^>]*\son[a-z]+\s*=", re.I),
    "a script without src": re.compile(r"<script(?![^>]*\ssrc=)[^>]*>", re.I),
    "hx-on": re.compile(r"hx-on", re.I),
    "a js: value": re.compile(r"hx-(vals|headers)=.js:", re.I),
    "a trigger filter": re.compile(r'hx-trigger="[^"]*\['),
    "a foreign address": re.compile(r'(src|href)="(https?:)?//', re.I),
}
HOSTILE = '<script>alert(1)</script>" onmouseover="x" {{ 7 }} \u202eevil'
OF_A_RUN = (
    "",
    "compensate/",
    "compensate/?look=later",
    "leave/",
    "stop/",
    "pause/",
    "confirm/",
    "log/",
    "report/",
    "steps/1/",
    "steps/3/settle/",
)
OTHERS = "/runs/", "/runs/?q=%3Cb%3E", "/capabilities/", "/capabilities/put_thing/", "/me/", "/audit/", "/runs/404404/", "/nothing/"


def addresses(runs):
    yield from OTHERS
    for run in runs:
        for address in OF_A_RUN:
            yield f"/runs/{run.pk}/{address}"
        yield f"/runs/{run.pk}/live/?seq=0"


def pages(client, runs):
    for address in addresses(runs):
        answer = client.get(address, follow=True)
        assert answer.status_code in (200, 404), address
        yield address, answer


def test_no_page_holds_what_the_policy_forbids(client, alice, team):
    token = make_token(team=team)
    moving = make_run(token=token)
    do(moving, "one")
    runs = [failed_run(team), compensated_run(team), stuck_run(team), red_run(team), moving]
    login = client.get("/login/")
    client.force_login(alice)
    for address, answer in [("/login/", login), *pages(client, runs)]:
        page = answer.content.decode()
        for name, pattern in FORBIDDEN.items():
            assert not pattern.search(page), f"{name} on {address}: {pattern.search(page).group(0)[:200]}"
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "<script src=" in page or "<html" not in page


def test_every_icon_is_in_the_sprite():
    drawn = set(re.findall(r'<symbol id="i-([\w-]+)"', (TEMPLATES / "_sprite.html").read_text()))
    used = {shape for _, shape, _ in words.LOOKS.values()} | set(blast_radius.READERS.values())
    for template in TEMPLATES.rglob("*.html"):
        used |= set(re.findall(r"{% icon ['\"]([\w-]+)['\"] %}", template.read_text()))
    assert used <= drawn, used - drawn


def test_what_others_wrote_is_escaped_everywhere(client, alice, team):
    token = make_token(team=team)
    token.name = HOSTILE[:60]
    token.save()
    plan = [
        {"ref": "one", "capability": "put_thing", "args": {"name": HOSTILE}},
        {"ref": "b", "capability": "show_thing", "args": {"name": "b"}},
    ]
    run = make_run(token=token, ticket=HOSTILE[:80], plan=plan)
    run.title, run.agent = HOSTILE, HOSTILE[:80]
    run.save(update_fields=["title", "agent"])
    OutsideTool.objects.create(name=HOSTILE[:120], reached_by=HOSTILE[:120])
    for ref in ("one", "b"):
        do(run, ref)
    services.fail_run(run, token=token, reason=HOSTILE)
    world.before["verify_undone"] = _fails
    client.force_login(alice)
    for address, answer in pages(client, [run]):
        page = answer.content.decode()
        assert "<script>alert" not in page, address
        assert '" onmouseover="x"' not in page, address
    text = client.get(f"/runs/{run.pk}/report.md").content.decode()
    assert "<script>" not in text


def test_the_frame_works_without_scripts(client, alice, team):
    failed_run(team)
    client.force_login(alice)
    page = client.get("/runs/1/").content.decode()
    assert '<form class="jump" action="/go/"' in page
    assert re.search(r'<form method="post" action="/logout/">.*csrfmiddlewaretoken', page)
    assert 'href="#main"' in page
    assert re.search(r'hx-headers="\{&quot;X-CSRFToken&quot;: &quot;\w+&quot;\}"', page)


def _fails(call):
    raise ConnectionError(HOSTILE)
