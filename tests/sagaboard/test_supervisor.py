"""The supervisor with real processes: small ones where order and restarts are at stake, then all of sagaboard."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from celery import Celery

from sagaboard import embedded
from sagaboard.children import Backoff
from sagaboard.env import BASE
from sagaboard.processes import CannotStart, Process
from sagaboard.stack import Stack, is_healthy
from sagaboard.supervisor import Supervisor
from tests.sagaboard.small import processes_on, python, reachable_folder, until

QUICK = Backoff(first=0.05, most=0.4, well_after=60)
# It says when it begins and when it is asked to end; ready as soon as it has begun.
TELL = """
import pathlib, signal, sys
diary, name, patience = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
def tell(what):
    with diary.open("a") as file: print(what, name, file=file)
signal.signal(signal.SIGTERM, signal.SIG_IGN if patience else lambda *_: (tell("stop"), sys.exit()))
tell("start")
print("hello from", name, flush=True)
while True: signal.pause()
"""


@pytest.fixture
def state():
    with reachable_folder() as folder:
        yield folder / "state"


@pytest.fixture
def diary(tmp_path):
    path = tmp_path / "diary"
    path.touch()
    return path


def teller(diary, name, *patience, **more):
    return python(name, TELL, diary, name, *patience, ready=lambda: f"start {name}\n" in diary.read_text(), **more)


def supervisor(state, stages, **more):
    more = {"stream": io.StringIO(), "backoff": QUICK, "web": False} | more
    return Supervisor(state, stages=lambda: stages, **more)


def command(*args, **environ):
    """`manage.py up` as a person starts it."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "up", *map(str, args)],
        cwd=BASE,
        env={key: value for key, value in os.environ.items() if key not in {"DATABASE_URL", "REDIS_URL"}} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def small_stack(state, port):
    argv = [sys.executable, "-m", "tests.sagaboard.small", str(state), str(port)]
    return subprocess.Popen(argv, cwd=BASE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=in_the_foreground)


def in_the_foreground():
    """What a shell starts in the background ignores SIGINT, and so would all that these tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def said_until(popen, sentence):
    """Its lines up to the one with the sentence; all of them if it never comes."""
    lines = []
    for line in popen.stdout:
        lines.append(line)
        if sentence in line:
            break
    return "".join(lines)


def free_port():
    # At random, since other tests look at the same time.
    return next(filter(embedded.is_free, random.sample(range(18100, 19900), 100)))


def test_each_stage_waits_for_the_one_before_and_the_end_is_in_reverse(state, diary):
    stages = [[teller(diary, "first")], [teller(diary, "second")], [teller(diary, "third")]]
    with supervisor(state, stages):
        assert diary.read_text().split("\n")[:3] == ["start first", "start second", "start third"]
    assert diary.read_text().split("\n")[3:6] == ["stop third", "stop second", "stop first"]


def test_a_command_that_runs_once_must_end_well_before_the_next_begins(state, diary):
    once = python("migrate", "import sys; open(sys.argv[1], 'a').write('migrated\\n')", diary, once=True)
    with supervisor(state, [[once], [teller(diary, "after")]]) as running:
        assert diary.read_text() == "migrated\nstart after\n"
        assert list(running.pids) == ["after"]


def test_what_fails_before_it_is_ready_is_named_and_nothing_is_left_running(state, diary):
    stages = [[teller(diary, "server")], [python("migrate", "raise SystemExit(3)", once=True)], [teller(diary, "web")]]
    with pytest.raises(CannotStart, match="migrate ended with status 3 before it was ready"):
        supervisor(state, stages).start()
    assert diary.read_text() == "start server\nstop server\n"


def test_what_is_never_ready_is_given_up(state):
    stuck = python("stuck", "import time; time.sleep(60)", ready=lambda: False, start_timeout=0.5)
    with pytest.raises(CannotStart, match=r"stuck was not ready after 0\.5 s"):
        supervisor(state, [[stuck]]).start()


def test_a_missing_program_is_named(state):
    with pytest.raises(CannotStart, match="no/such/program can't be run"):
        supervisor(state, [[Process(name="it", argv=["/no/such/program"])]]).start()


def test_what_dies_is_started_again_and_the_others_are_left_alone(state, diary):
    with supervisor(state, [[teller(diary, "one"), teller(diary, "two")]]) as running:
        before = running.pids
        os.kill(before["one"], signal.SIGKILL)
        assert until(lambda: diary.read_text().count("start one") == 2)
        assert until(lambda: running.pids.get("one", before["one"]) != before["one"])
        assert running.pids["two"] == before["two"]


def test_the_tries_of_what_keeps_dying_get_rarer(state, tmp_path):
    stamp = "import sys, time; open(sys.argv[1], 'a').write(f'{time.time()}\\n'); time.sleep(0.05)"
    stamps = tmp_path / "stamps"
    keeps_dying = python("flaky", stamp, stamps, ready=stamps.exists)
    with supervisor(state, [[keeps_dying]], backoff=Backoff(first=0.1, most=0.8)):
        assert until(lambda: len(stamps.read_text().split()) >= 5)
    times = [float(word) for word in stamps.read_text().split()]
    gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert gaps[0] < gaps[2] < gaps[3]
    assert gaps[3] > 0.8


def test_the_waiting_time_has_a_limit():
    assert [Backoff(first=1, most=10).delay(failures) for failures in (0, 1, 3, 4, 10_000)] == [1, 2, 8, 10, 10]


def test_each_line_begins_with_the_name_of_who_said_it(state, diary):
    stream = io.StringIO()
    with supervisor(state, [[teller(diary, "a"), teller(diary, "longer")]], stream=stream):
        assert until(lambda: stream.getvalue().count("hello") == 2)
    assert re.search(r"^a      \| hello from a$", stream.getvalue(), re.MULTILINE)
    assert re.search(r"^longer \| hello from longer$", stream.getvalue(), re.MULTILINE)
    assert "\033" not in stream.getvalue()


def test_on_a_terminal_the_names_have_colours(state, diary):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with supervisor(state, [[teller(diary, "a")]], stream=stream):
        assert until(lambda: "\033[36ma  |\033[0m hello from a" in stream.getvalue())


def test_what_does_not_stop_in_time_is_killed_before_the_next_is_asked(state, diary):
    stages = [[teller(diary, "server")], [teller(diary, "stubborn", "ignores", stop_timeout=0.5)]]
    with supervisor(state, stages):
        began = time.monotonic()
    assert 0.5 <= time.monotonic() - began < 5
    assert diary.read_text().endswith("stop server\n")


def test_asked_again_it_hurries(state, diary):
    running = supervisor(state, [[teller(diary, "stubborn", "ignores", stop_timeout=60)]])
    running.start()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began = time.monotonic()
    running.stop()
    assert 0.5 < time.monotonic() - began < 5


def test_those_of_one_role_stop_together(state, diary):
    stubborn = {"role": "worker", "stop_timeout": 3}
    stages = [[teller(diary, "w1", "ignores", **stubborn), teller(diary, "w2", "ignores", **stubborn)]]
    with supervisor(state, stages):
        began = time.monotonic()
    assert time.monotonic() - began < 5.5


def test_nothing_that_a_child_has_started_survives_it(state, diary):
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', {str(state)!r}]).wait()"
    with supervisor(state, [[python("parent", code, ready=lambda: len(processes_on(state)) == 2)]]) as running:
        left = set(processes_on(state))
        os.kill(running.pids["parent"], signal.SIGKILL)
        assert until(lambda: not left & set(processes_on(state)))


def test_all_goes_on_while_the_main_thread_does_something_else(state, diary):
    running = supervisor(state, [[teller(diary, "one")]])
    running.start()
    try:
        os.kill(running.pids["one"], signal.SIGKILL)
        assert until(lambda: diary.read_text().count("start one") == 2)
    finally:
        running.stop()
    assert running.pids == {}


def test_a_second_start_on_the_folder_is_refused_and_the_first_goes_on(state, diary):
    with supervisor(state, [[teller(diary, "one")]]) as running:
        with pytest.raises(CannotStart, match=f"in use by process {os.getpid()}"):
            supervisor(state, [[teller(diary, "two")]]).start()
        assert "two" not in diary.read_text()
        os.kill(running.pids["one"], 0)


def test_a_port_that_is_taken_is_told_before_anything_starts(state):
    with embedded.socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=f"Port {port} is taken.*--port"):
            Supervisor(state, port=port).start()
    assert not (state / "postgres").exists()


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ({}, ["postgres", "valkey"]),
        ({"DATABASE_URL": "postgresql://elsewhere/x"}, ["valkey"]),
        ({"REDIS_URL": "redis://elsewhere"}, ["postgres"]),
        ({"DATABASE_URL": "postgresql://elsewhere/x", "REDIS_URL": "redis://elsewhere"}, []),
    ],
)
def test_what_the_environment_does_not_name_is_embedded(state, monkeypatch, given, own):
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, given[name]) if name in given else monkeypatch.delenv(name, raising=False)
    embedded.state_folder.make(state)
    servers, (migrate,), application = Stack(state, port=free_port()).stages()
    assert [process.name for process in servers] == own
    assert [process.name for process in application] == ["worker-steps", "worker-walks", "beat", "web"]
    urls = json.loads((state / "urls.json").read_text())
    assert urls | given == urls
    assert all(process.env | urls == process.env for process in (migrate, *application))


def test_a_killed_postgresql_comes_back_on_its_port_with_its_rows(state):
    embedded.state_folder.make(state)
    server = embedded.postgres(state)
    with supervisor(state, [[server.process]]) as running:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        killed = running.pids["postgres"]
        os.kill(killed, signal.SIGKILL)
        assert until(lambda: running.pids.get("postgres", killed) != killed)
        assert until(lambda: answers(server.url)) == 42


def answers(url):
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            return connection.execute("SELECT answer FROM kept").fetchone()[0]
    except psycopg.OperationalError:
        return None


def make_busy(state, port):
    """A task and a request have begun that won't end by themselves."""
    task, request = state / "task-begun", state / "request-begun"
    broker = json.loads((state / "valkey.json").read_text())
    with Celery(broker=f"redis://:{broker['password']}@127.0.0.1:{broker['port']}/0", set_as_current=False) as sender:
        sender.send_task("tests.sagaboard.small.doze", [str(task)])
    with embedded.socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET /doze?{request} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        assert until(lambda: task.exists() and request.exists())


def test_killed_with_9_it_leaves_no_process_behind(state):
    """Neither PostgreSQL with its many, nor Valkey, nor gunicorn's busy worker, nor Celery's busy pool."""
    port = free_port()
    stack = small_stack(state, port)
    assert "sagaboard is up" in (said := said_until(stack, "sagaboard is up")), said
    make_busy(state, port)
    assert len(processes_on(state)) >= 12
    stack.kill()
    stack.communicate()
    assert until(lambda: not processes_on(state), seconds=10), processes_on(state)


@pytest.mark.parametrize("program", ["celery", "gunicorn"])
def test_a_killed_child_takes_its_busy_children_along_and_comes_back(state, program):
    port = free_port()
    stack = small_stack(state, port)
    assert "sagaboard is up" in said_until(stack, "sagaboard is up")
    make_busy(state, port)
    main, others = session_of(program, state, stack)
    assert others
    os.kill(main, signal.SIGKILL)
    assert until(lambda: not {main, *others} & set(processes_on(state)), seconds=10)
    assert until(lambda: session_of(program, state, stack)[0])
    assert until(lambda: is_healthy(port))
    stack.kill()
    stack.communicate()


def session_of(program, state, stack):
    """The child that runs the program, and what it has started."""
    found = [pid for pid, what in processes_on(state).items() if f"-m {program} " in what]
    main = next((pid for pid in found if parent_of(pid) == stack.pid), None)
    return main, [pid for pid in found if pid != main]


def parent_of(pid):
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_in_order(state, number):
    stack = small_stack(state, free_port())
    assert "sagaboard is up" in said_until(stack, "sagaboard is up")
    stack.send_signal(number)
    rest, _ = stack.communicate(timeout=60)
    assert stack.returncode == 0, rest
    assert "database system is shut down" in rest
    assert processes_on(state) == {}


def test_a_signal_before_it_is_up_stops_what_has_begun(state):
    stack = small_stack(state, free_port())
    assert "ready to accept connections" in said_until(stack, "ready to accept connections")
    stack.terminate()
    rest, _ = stack.communicate(timeout=60)
    assert "database system is shut down" in rest
    assert processes_on(state) == {}


def test_up_answers(state):
    """All of sagaboard, as `manage.py up` starts it on an empty folder."""
    port = free_port()
    up = command("--port", port, SAGABOARD_STATE=str(state))
    try:
        assert f"sagaboard is up: http://127.0.0.1:{port} (" in (said := said_until(up, "sagaboard is up")), said
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            assert answer.status == 200
        urls = json.loads((state / "urls.json").read_text())
        assert sorted(urls) == ["DATABASE_URL", "REDIS_URL"]
        assert (state / "urls.json").stat().st_mode & 0o777 == 0o600
        second = command("--port", port, SAGABOARD_STATE=str(state))
        assert f"in use by process {up.pid}" in second.communicate(timeout=30)[0]
        assert second.returncode == 1
        up.send_signal(signal.SIGTERM)
        rest, _ = up.communicate(timeout=60)
        assert up.returncode == 0, rest
    finally:
        up.kill()
        up.wait()
    assert processes_on(state) == {}
    assert not (state / "urls.json").exists()
