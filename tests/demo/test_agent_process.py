"""The demo's agent is a process of its own; it never outlives the story that started it."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STORY = """
import sys, time, types, django
django.setup()
from sagaboard.demo import play
with play.agent(types.SimpleNamespace(url=sys.argv[1], cast=types.SimpleNamespace(agent="t"))) as agent:
    print(agent.process.pid, flush=True)
    time.sleep(60)
"""


def is_there(pid):
    """Whether it runs; one that nobody waits for any more may lie there as a zombie."""
    try:
        with Path(f"/proc/{pid}/stat").open() as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_agent_ends_with_a_story_that_is_ended_from_outside():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the agent's call and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "sagaboard.settings"}
        with subprocess.Popen([sys.executable, "-c", STORY, url], stdout=subprocess.PIPE, text=True, env=environment) as story:
            agent = int(story.stdout.readline())
            held, _ = silent.accept()  # while it is open the agent waits
            story.send_signal(signal.SIGTERM)
            story.wait(30)
        until = time.monotonic() + 30
        while is_there(agent) and time.monotonic() < until:
            time.sleep(0.05)
        held.close()
        assert not is_there(agent)
