"""run_ci by a command and by a URL: green, red, too slow, and nothing left running when its worker is gone."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from runs.connectors.ci import RunCI
from runs.exceptions import NoEffect

from .calls import call_of
from .processes import is_running, wait_until

CI = RunCI()


def by_command(settings, script, **options):
    settings.SAGABOARD_TARGETS = {"ci": {"system": "ci", "command": [sys.executable, "-c", script], **options}}


def run(ref="feature/x", **given):
    return CI.do(call_of(CI, ref=ref, **given))


def test_a_green_pipeline_gives_its_result(settings):
    by_command(settings, "print('12 tests passed')", url="https://ci.example/5521")
    assert run() == {"result": "green", "ref": "feature/x", "pipeline": "ci", "url": "https://ci.example/5521", "said": "12 tests passed"}


def test_a_red_pipeline_is_a_failed_step_with_the_last_lines(settings):
    by_command(settings, "print('noise\\n' * 50 + 'FAILED test_invoice\\n---', flush=True); import sys; sys.exit('1 failed, 11 passed')")
    with pytest.raises(NoEffect, match=r"CI is red \(exit code 1\)\. .*FAILED test_invoice / 1 failed, 11 passed"):
        run()


def test_the_command_gets_the_arguments_and_none_of_the_workers_secrets(settings, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    by_command(
        settings,
        "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if k[:3] == 'CI_' or k == 'SECRET_KEY'}))",
        env={"CI_MODE": "fast"},
    )
    seen = json.loads(run(pipeline="quick")["said"])
    assert seen == {"CI_REF": "feature/x", "CI_PIPELINE": "quick", "CI_KEY": "key-1", "CI_MODE": "fast"}


def test_an_endless_output_is_read_only_at_its_end(settings):
    by_command(settings, "print('x' * 3_000_000); print('the end'); raise SystemExit(1)")
    with pytest.raises(NoEffect) as caught:
        run()
    assert len(caught.value.reason) < 600
    assert caught.value.reason.endswith("the end")


def test_a_command_that_isnt_there_is_a_refusal(settings):
    settings.SAGABOARD_TARGETS = {"ci": {"system": "ci", "command": ["/nowhere/ci"]}}
    with pytest.raises(NoEffect, match="No such file or directory: '/nowhere/ci'"):
        run()


def test_shell_characters_in_a_ref_are_refused_and_nothing_is_a_shell():
    for ref in ("x; rm -rf /", "$(id)", "-x", "a b", ""):
        with pytest.raises(ValueError, match="ref"):
            call_of(CI, ref=ref)


SLEEPS_WITH_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({path!r}, "w").write(f"{{__import__('os').getpid()}} {{child.pid}}")
time.sleep(60)
"""


def pids(path):
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def test_a_pipeline_that_takes_too_long_is_stopped_with_all_that_it_started(settings, tmp_path):
    path = tmp_path / "pids"
    by_command(settings, SLEEPS_WITH_A_CHILD.format(path=str(path)))
    with pytest.raises(NoEffect, match="took longer than 2 s"):
        run(timeout=2)
    wait_until(lambda: not any(map(is_running, pids(path))))


WORKER = """
from django.conf import settings
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "sagaboard.settings"
from runs.capability import Call
from runs.connectors.ci import RunCI
settings.SAGABOARD_TARGETS = {{"ci": {{"system": "ci", "command": [sys.executable, "-c", {script!r}]}}}}
RunCI().do(Call(args=RunCI.Args(ref="x"), key="k", timeout=60))
"""


def test_a_pipeline_dies_with_its_worker_even_by_kill_9(tmp_path):
    path = tmp_path / "pids"
    worker = subprocess.Popen([sys.executable, "-c", WORKER.format(script=SLEEPS_WITH_A_CHILD.format(path=str(path)))])
    started = pids(path)
    assert all(map(is_running, started))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    wait_until(lambda: not any(map(is_running, started)))


class Runner(BaseHTTPRequestHandler):
    """A CI that is asked to start a pipeline and says each of `states` in turn."""

    states: list
    asked: list

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer({"id": 5521, "url": "https://ci.example/5521"})

    def do_GET(self):
        assert self.path == "/pipelines/5521"
        self.answer({"status": self.states.pop(0) if len(self.states) > 1 else self.states[0], "message": "test_invoice"})

    def answer(self, data):
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def runner(settings):
    handler = type("OneRunner", (Runner,), {"states": [], "asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    settings.SAGABOARD_TARGETS = {
        "ci": {"system": "ci", "base_url": base, "start": "/pipelines", "status": "/pipelines/{id}", "poll": 0.02}
    }
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pipeline_behind_a_url_is_started_once_and_waited_for(runner):
    runner.states += ["pending", "running", "success"]
    assert run() == {"result": "green", "ref": "feature/x", "pipeline": "5521", "url": "https://ci.example/5521", "said": ""}
    assert runner.asked == [{"ref": "feature/x", "pipeline": "", "key": "key-1"}]


def test_a_red_pipeline_behind_a_url_is_a_failed_step(runner):
    runner.states += ["running", "failed"]
    with pytest.raises(NoEffect, match=r"CI is red \(failed\)\. test_invoice https://ci.example/5521"):
        run()


def test_a_pipeline_behind_a_url_is_not_awaited_for_ever(runner):
    runner.states += ["running"]
    with pytest.raises(NoEffect, match="took longer|gave no result"):
        run(timeout=0.5)


def test_a_dead_ci_is_a_refusal(settings):
    settings.SAGABOARD_TARGETS = {"ci": {"system": "ci", "base_url": "http://127.0.0.1:9", "start": "/p", "status": "/p/{id}"}}
    with pytest.raises(NoEffect, match="Nothing answers at"):
        run()
