"""The embedded servers, for real: every test lays out a folder of its own."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
import redis

from sagaboard import binaries, embedded, secrets_file
from sagaboard.env import BASE
from sagaboard.processes import CannotStart
from tests.sagaboard.small import processes_on, reachable_folder, until


@pytest.fixture
def state():
    with reachable_folder() as folder:
        yield folder / "state"


@pytest.fixture(scope="module")
def shared_state():
    with reachable_folder() as folder:
        yield folder / "state"


@pytest.fixture(scope="module")
def servers(shared_state):
    """For tests that change nothing."""
    running = embedded.start(shared_state)
    yield running
    running.stop()


def query(url, statement):
    with psycopg.connect(url, connect_timeout=5) as connection:
        return connection.execute(statement).fetchone()[0]


def test_a_cold_start_gives_a_database_and_a_broker(servers):
    assert query(servers.database_url, "SELECT current_database() || ' of ' || current_user") == "sagaboard of sagaboard"
    assert redis.Redis.from_url(servers.redis_url).ping()


def test_neither_answers_without_the_password(servers):
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        query(servers.database_url.replace("sagaboard:", "sagaboard:not-"), "SELECT 1")
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=redis.Redis.from_url(servers.redis_url).get_connection_kwargs()["port"]).ping()


def test_both_listen_on_loopback_only(servers):
    assert query(servers.database_url, "SHOW listen_addresses") == "127.0.0.1"
    assert query(servers.database_url, "SHOW unix_socket_directories") == ""
    assert redis.Redis.from_url(servers.redis_url).config_get("bind") == {"bind": "127.0.0.1"}


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes", "data_checksums"])
def test_durability_is_not_traded(servers, setting):
    assert query(servers.database_url, f"SHOW {setting}") == "on"


def test_what_valkey_was_given_is_kept(servers):
    settings = redis.Redis.from_url(servers.redis_url, decode_responses=True).config_get("append*", "maxmemory-policy")
    assert (settings["appendonly"], settings["maxmemory-policy"]) == ("yes", "noeviction")


def test_the_servers_never_run_as_root(servers):
    assert 0 not in {Path(f"/proc/{popen.pid}").stat().st_uid for popen in servers.processes.values()}


def test_only_their_owner_can_read_what_holds_a_password(shared_state, servers):
    state = shared_state
    secrets_file.secret_key(state)
    secrets = [servers.database_url.split(":")[2].split("@")[0], servers.redis_url.split(":")[2].split("@")[0]]
    private = [path for path in state.iterdir() if path.is_file() and any(secret in path.read_text() for secret in secrets)]
    assert {path.name for path in private} == {"postgres.json", "valkey.json", "valkey.conf"}
    modes = {path.stat().st_mode & 0o777 for path in (*private, state / "secret_key")}
    assert modes == {0o600}


def test_a_second_start_finds_rows_port_and_password_again(state):
    first = embedded.start(state)
    with psycopg.connect(first.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    redis.Redis.from_url(first.redis_url).set("kept", "yes")
    first.stop()
    second = embedded.start(state)
    try:
        assert (second.database_url, second.redis_url) == (first.database_url, first.redis_url)
        assert query(second.database_url, "SELECT answer FROM kept") == 42
        assert redis.Redis.from_url(second.redis_url).get("kept") == b"yes"
    finally:
        second.stop()


def test_stopped_means_that_nothing_runs(state):
    servers = embedded.start(state)
    servers.stop()
    assert processes_on(state) == {}
    assert [popen.returncode for popen in servers.processes.values()] == [0, 0]


def test_a_folder_in_use_is_refused_and_it_says_by_whom(shared_state, servers):
    with pytest.raises(CannotStart, match=f"{shared_state} is in use by process {os.getpid()}, started"):
        embedded.start(shared_state)


def test_data_of_another_major_are_refused_with_what_to_do(state):
    embedded.start(state).stop()
    (state / "postgres" / "PG_VERSION").write_text("9\n")
    with pytest.raises(CannotStart) as refusal:
        embedded.start(state)
    said = str(refusal.value)
    assert "was written by PostgreSQL 9, and" in said
    assert "SAGABOARD_PG_BIN=" in said
    assert "pg_dump" in said


def test_an_interrupted_initdb_is_begun_anew(state):
    embedded.state_folder.make(state)
    (state / "postgres.draft").mkdir()
    (state / "postgres.draft" / "PG_VERSION").write_text("18")
    (state / "postgres.password").write_text("of the interrupted one")
    embedded.start(state).stop()
    assert not (state / "postgres.draft").exists()
    assert not (state / "postgres.password").exists()


def test_a_lost_password_is_told_and_nothing_is_overwritten(state):
    embedded.start(state).stop()
    (state / "postgres.json").unlink()
    with pytest.raises(CannotStart, match=r"postgres\.json is missing"):
        embedded.start(state)
    assert (state / "postgres" / "PG_VERSION").exists()


def test_what_a_killed_starter_left_running_is_ended_first(state):
    code = "import os, sys, pathlib; from sagaboard import embedded, processes; processes._prctl = None\n"
    code += "print(embedded.start(pathlib.Path(sys.argv[1])).database_url, flush=True); os.kill(os.getpid(), 9)"
    left = subprocess.run([sys.executable, "-c", code, state], cwd=BASE, capture_output=True, text=True, check=False)
    assert processes_on(state) != {}, left.stderr
    servers = embedded.start(state)
    servers.stop()
    assert servers.database_url == left.stdout.strip()
    assert processes_on(state) == {}


def test_the_servers_end_with_whoever_started_them(state):
    code = "import os, sys, pathlib; from sagaboard import embedded\n"
    code += "embedded.start(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, state], cwd=BASE, check=False)
    assert until(lambda: not processes_on(state))
    assert "database system is shut down" in (state / "postgres.log").read_text()


def test_a_port_that_somebody_took_is_replaced_by_another(state):
    first = embedded.start(state)
    first.stop()
    port = int(first.database_url.split(":")[3].split("/")[0])
    with embedded.socket.create_server(("127.0.0.1", port)):
        second = embedded.start(state)
    second.stop()
    assert second.database_url != first.database_url


def test_without_programs_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(binaries, "POSTGRES_WHEELS", {})
    monkeypatch.setattr(binaries, "VALKEY_WHEELS", {})
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotStart, match=r"No PostgreSQL was found.*apt-get install postgresql.*SAGABOARD_PG_BIN.*DATABASE_URL"):
        binaries.postgres()
    with pytest.raises(CannotStart, match=r"No Valkey or Redis was found.*redis-server.*SAGABOARD_REDIS_BIN.*REDIS_URL"):
        binaries.valkey()


@pytest.mark.parametrize(("variable", "find"), [("SAGABOARD_PG_BIN", binaries.postgres), ("SAGABOARD_REDIS_BIN", binaries.valkey)])
def test_the_named_programs_are_taken_or_missed_by_name(monkeypatch, tmp_path, variable, find):
    usual = find()
    monkeypatch.setenv(variable, str(usual.path.parent))
    assert find() == binaries.Program(usual.path)
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(CannotStart, match=variable):
        find()


@pytest.mark.parametrize("find", [binaries.postgres, binaries.valkey])
def test_the_copy_of_a_wheel_runs_from_the_state_folder(state, find):
    embedded.state_folder.make(state)
    copied = binaries._copied(find(), state)
    assert copied.is_relative_to(state)
    assert binaries.version(copied, embedded.run_as())


def test_the_second_copy_does_not_remove_the_first(state):
    embedded.state_folder.make(state)
    copies = [binaries._copied(find(), state) for find in (binaries.postgres, binaries.valkey, binaries.postgres)]
    assert all(copy.exists() for copy in copies)


def test_a_folder_that_the_servers_cannot_enter_is_refused_only_to_root(state):
    state.parent.chmod(0o700)
    as_root = os.geteuid() == 0
    expected = pytest.raises(CannotStart, match=f"can't get into {state}.*SAGABOARD_STATE") if as_root else nullcontext()
    with expected:
        embedded.start(state).stop()


def test_the_servers_get_into_a_folder_that_was_made_under_a_strict_umask(state):
    before = os.umask(0o077)
    try:
        embedded.start(state / "below").stop()
    finally:
        os.umask(before)
    assert (state / "below" / "postgres" / "PG_VERSION").exists()


def test_the_secret_key_is_the_one_of_the_process_that_was_quicker(state, monkeypatch):
    embedded.state_folder.make(state)

    def overtaken(length):
        (state / "secret_key").write_text("theirs")
        return "ours"

    monkeypatch.setattr(secrets_file.secrets, "token_urlsafe", overtaken)
    assert secrets_file.secret_key(state) == "theirs"


def test_the_secret_key_stays(state):
    assert len(secrets_file.secret_key(state)) > 50
    assert secrets_file.secret_key(state) == secrets_file.secret_key(state)
