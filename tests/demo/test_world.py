"""The demo world: its ledger is the truth about effects, survives kill -9, and it fails in the ways it is told to."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from sagaboard.demo.client import World, start_world
from sagaboard.demo.targets import targets
from tests.runs.connectors.processes import is_running, wait_until


@pytest.fixture
def shelf(world, world_state):
    token = (world_state / "tokens" / "shelf").read_text()
    with httpx.Client(base_url=world.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=5) as client:
        yield client


def put(client, name="lamp", key="k1", prefix="/shelf", **headers):
    return client.put(f"{prefix}/items/{name}", json={"lit": True}, headers={"Idempotency-Key": key, **headers})


def test_the_opening_scene_is_the_storys(world):
    reading = world.reading()
    assert [s["constraints"][0]["values"] for s in reading["flag"]["strategies"]] == [["dogfood"]]
    assert reading["flag"]["enabled"]
    assert reading["ticket"] == {"status": "In Progress", "comments": []}
    assert reading["portal"] == reading["partner"] == []
    assert reading["chat"] == {"channel": [], "notes": []}
    assert world.ledger() == []


def test_a_call_stands_in_the_ledger_with_its_key_digest_times_and_effect(world, shelf):
    put(shelf)
    shelf.get("/shelf/items/lamp")
    written, looked = world.ledger("shelf")
    assert (written["call"], written["key"], written["status"], written["effect"]) == ("PUT /shelf/items/lamp", "k1", 201, True)
    assert written["body"] == '{"lit":true}'
    assert len(written["digest"]) == 64
    assert written["started"] <= written["ended"]
    assert not looked["effect"]
    assert world.ledger("shelf", since=written["id"]) == [looked]


def test_the_ledger_and_the_world_survive_kill_9(tmp_path):
    process, url = start_world(tmp_path)
    token = (tmp_path / "tokens" / "shelf").read_text()
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k1"}
    httpx.put(f"{url}/shelf/items/lamp", json=1, headers=headers, trust_env=False)
    World(url).fault("shelf", method="GET", status=500, times=2)
    before, port = World(url).ledger(), int(url.rsplit(":", 1)[1])
    end(process)
    process, url = start_world(tmp_path, port)
    assert World(url).ledger() == before
    assert httpx.get(f"{url}/shelf/items/lamp", headers=headers, trust_env=False).status_code == 500
    assert (tmp_path / "tokens" / "shelf").read_text() == token
    end(process)


def end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_call_that_the_world_was_killed_in_stands_in_the_ledger_without_an_end(tmp_path):
    process, url = start_world(tmp_path)
    World(url).fault("shelf", delay_before=30)
    caller = threading.Thread(target=lambda: pytest.raises(httpx.TransportError, httpx.put, f"{url}/shelf/items/lamp", trust_env=False))
    caller.start()
    wait_until(lambda: World(url).ledger("shelf"))
    end(process)
    caller.join()
    process, url = start_world(tmp_path)
    (entry,) = World(url).ledger("shelf")
    assert entry["ended"] is None
    assert not entry["effect"]
    end(process)


def test_the_world_ends_with_whoever_started_it(tmp_path):
    script = (
        f"import time; from pathlib import Path; from sagaboard.demo.client import start_world; p, u = start_world(Path({str(tmp_path)!r}))"
    )
    script += "; print(p.pid, flush=True); time.sleep(60)"
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    world_pid = int(starter.stdout.readline())
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not is_running(world_pid))


def test_a_second_start_on_a_taken_port_says_so(world, tmp_path):
    with pytest.raises(RuntimeError, match="didn't start"):
        start_world(tmp_path, int(world.url.rsplit(":", 1)[1]))


def test_a_lie_answers_as_if_and_does_nothing(world, shelf):
    world.fault("shelf", effect=False)
    assert put(shelf).status_code == 201
    assert shelf.get("/shelf/items/lamp").status_code == 404
    assert not world.effects()


def test_a_lied_transition_doesnt_call_the_portal_either(world, settings):
    ticket = settings.SAGABOARD_TARGETS["tickets"]
    world.fault("tickets", effect=False)
    assert transition(ticket, "21").status_code == 204
    assert world.reading()["ticket"]["status"] == "In Progress"
    assert not world.ledger("portal")


def transition(target, number):
    auth = (target["account"], Path(target["token_file"]).read_text())
    body = {"transition": {"id": number}}
    return httpx.post(f"{target['base_url']}/rest/api/3/issue/BILL-318/transitions", json=body, auth=auth, trust_env=False)


def test_a_transition_is_valid_only_from_its_status_and_calls_the_portal_once(world, settings):
    ticket = settings.SAGABOARD_TARGETS["tickets"]
    assert transition(ticket, "31").status_code == 400
    assert transition(ticket, "21").status_code == 204
    assert transition(ticket, "21").status_code == 400
    assert [e["call"] for e in world.ledger("portal")] == ["POST /portal/hooks/jira"]


@pytest.mark.parametrize(("effect", "count"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("answer", ["drop", "cut"])
def test_an_answer_can_be_lost_after_the_effect_and_before_it(world, shelf, answer, effect, count):
    world.fault("shelf", answer=answer, effect=effect)
    with pytest.raises(httpx.TransportError):
        put(shelf)
    assert len(world.effects("shelf")) == count
    assert len(world.ledger("shelf")) == 1


def test_a_call_can_be_taken_and_never_answered(world, shelf):
    world.fault("shelf", answer="hang", hang_for=0.4)
    with pytest.raises(httpx.TimeoutException):
        shelf.put("/shelf/items/lamp", json=1, timeout=0.1)
    assert len(world.effects("shelf")) == 1


def test_an_effect_can_come_after_its_caller_has_given_up(world, shelf):
    world.fault("shelf", delay_before=0.3)
    with pytest.raises(httpx.TimeoutException):
        shelf.put("/shelf/items/lamp", json=1, timeout=0.1)
    assert not world.effects("shelf")
    wait_until(lambda: world.effects("shelf"))


def test_a_delay_after_the_effect_holds_only_the_answer(world, shelf):
    world.fault("shelf", delay_after=0.3)
    with pytest.raises(httpx.TimeoutException):
        shelf.put("/shelf/items/lamp", json=1, timeout=0.1)
    assert len(world.effects("shelf")) == 1


def test_another_status_comes_with_its_headers_and_as_often_as_it_is_told(world, shelf):
    world.fault("shelf", status=429, effect=False, headers={"Retry-After": "30"}, times=2)
    answers = [put(shelf) for _ in range(3)]
    assert [a.status_code for a in answers] == [429, 429, 201]
    assert answers[0].headers["Retry-After"] == "30"


def test_a_fault_is_for_what_it_names(world, shelf):
    world.fault("shelf", method="PUT", path="/items/lamp", status=500, times=0)
    assert put(shelf, "chair").status_code == 201
    assert put(shelf, prefix="/shelf-plain").status_code == 201
    assert [put(shelf).status_code for _ in range(3)] == [500, 500, 500]
    world.clear_faults()
    assert put(shelf).status_code == 200


def test_faults_and_changes_that_make_no_sense_are_refused(world):
    for call in (lambda: world.fault(answer="shout"), lambda: world.fault(speed=3), lambda: world.change("weather", rain=True)):
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            call()


def test_each_system_refuses_a_wrong_token_as_the_real_one_does(world):
    answers = {
        name: httpx.request(method, f"{world.url}{path}", headers={"Authorization": "Bearer nope"}, trust_env=False)
        for name, method, path in [
            ("flags", "GET", "/unleash/api/admin/projects/default/features/billing_panel_v1/environments/development"),
            ("tickets", "GET", "/jira/rest/api/3/issue/BILL-318"),
            ("chat", "POST", "/slack/api/auth.test"),
            ("partner", "POST", "/partner/v2/notices"),
            ("shelf", "GET", "/shelf/items"),
        ]
    }
    assert answers["chat"].json() == {"ok": False, "error": "invalid_auth"}
    assert {name: a.status_code for name, a in answers.items() if name != "chat"} == dict.fromkeys(
        ["flags", "tickets", "partner", "shelf"], 401
    )


@pytest.mark.parametrize(("prefix", "count", "look_up"), [("/shelf", 1, 200), ("/shelf-plain", 2, 200), ("/shelf-blind", 2, 501)])
def test_a_shelf_honours_a_key_or_not_and_can_be_asked_or_not(world, shelf, prefix, count, look_up):
    for _ in range(2):
        assert shelf.post(f"{prefix}/sends", json={"to": "x"}, headers={"Idempotency-Key": "k1"}).status_code in (200, 201)
    assert len(world.effects(prefix[1:])) == count
    assert shelf.get(f"{prefix}/sends?key=k1").status_code == look_up


def test_of_many_calls_with_one_key_at_once_one_has_an_effect(world, shelf):
    with_key = {"Idempotency-Key": "k1"}
    threads = [threading.Thread(target=lambda: shelf.post("/shelf/sends", json={}, headers=with_key)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.ledger("shelf")) == 20
    assert len(world.effects("shelf")) == 1


def test_an_item_is_taken_away_only_by_who_knows_its_key(world, shelf):
    put(shelf, key="k1")
    assert put(shelf, key="k2", **{"If-None-Match": "*"}).status_code == 412
    assert shelf.delete("/shelf/items/lamp", headers={"If-Match": "k2"}).status_code == 412
    world.change("shelf", name="lamp", value="theirs")
    assert shelf.delete("/shelf/items/lamp", headers={"If-Match": "k1"}).status_code == 412
    assert shelf.delete("/shelf/items/lamp", headers={"If-Match": "somebody else"}).status_code == 204
    assert shelf.delete("/shelf/items/lamp", headers={"If-Match": "k1"}).status_code == 404


def test_what_somebody_else_does_is_never_counted_as_a_call_of_ours(world):
    world.change("tickets", status="Done")
    assert world.ledger("tickets") == []
    assert [e["system"] for e in world.ledger()] == ["somebody else", "portal"]
    assert [e["system"] for e in world.effects()] == ["portal"]


def test_a_flags_environment_goes_off_with_its_last_strategy_as_in_unleash(world, settings):
    flags = settings.SAGABOARD_TARGETS["flags"]
    at = f"{flags['base_url']}/api/admin/projects/default/features/billing_panel_v1/environments/development"
    headers = {"Authorization": Path(flags["token_file"]).read_text()}
    with httpx.Client(headers=headers, trust_env=False) as client:
        (strategy,) = client.get(at).json()["strategies"]
        assert client.delete(f"{at}/strategies/{strategy['id']}").status_code == 200
        assert client.delete(f"{at}/strategies/{strategy['id']}").status_code == 404
        assert client.get(at).json() == {"name": "billing_panel_v1", "environment": "development", "enabled": False, "strategies": []}
        client.post(f"{at}/on")
        assert client.get(at).json()["strategies"][0]["constraints"] == []


def test_pages_show_what_happened_with_all_text_escaped(world, settings):
    transition(settings.SAGABOARD_TARGETS["tickets"], "21")
    root = world.change("chat", say="<script>alert(1)</script>")["ts"]
    world.change("chat", say="A reply", thread=root)
    portal, channel, index = (httpx.get(f"{world.url}{path}", trust_env=False) for path in ("/portal", "/channel", "/"))
    assert "BILL-318" in portal.text
    assert "In Review" in portal.text
    assert "<script>" not in channel.text
    assert "&lt;script&gt;" in channel.text
    assert channel.text.index("A reply") > channel.text.index("class=thread")
    assert "on for dogfood" in index.text
    for page in (portal, channel, index):
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "text/css" in httpx.get(f"{world.url}/world.css", trust_env=False).headers["Content-Type"]


def test_a_page_elsewhere_can_neither_reach_the_worlds_doors_nor_read_it_by_another_name(world):
    assert httpx.post(f"{world.url}/_world/reset", json={}, trust_env=False).status_code == 403
    assert httpx.get(f"{world.url}/_world/reading", headers={"Host": "rebound.example"}, trust_env=False).status_code == 421


def test_tokens_are_readable_by_their_owner_alone_and_targets_name_only_files(world, world_state):
    for path in (world_state / "tokens").iterdir():
        assert path.stat().st_mode & 0o077 == 0
        assert path.read_text() not in repr(targets(world.url, world_state / "tokens"))
