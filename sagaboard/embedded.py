"""PostgreSQL and Valkey of our own: laid out in the state folder, listening on loopback only, behind passwords.

Their ports and passwords are kept in the folder, so that whoever was connected finds them again after a restart.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from sagaboard import binaries, connections
from sagaboard import state as state_folder
from sagaboard.processes import Account, CannotStart, Process, die_with_parent, end_together, identity, is_ready, launch
from sagaboard.secrets_file import write_private

OWNER = DATABASE = "sagaboard"
# Below the ports that the system hands to outgoing connections: from those a client that keeps knocking while the
# server is away can take the server's own port, and even be connected to itself.
PORTS = range(20000, 32000)
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # A log that forgets what it has promised is none: these are not for sale, also not in a file of the data folder.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}

VALKEY_SETTINGS = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir "{folder}"
pidfile "{folder}/pid"
loglevel warning
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
set-proc-title no
always-show-logo no
"""


@dataclass(frozen=True)
class Server:
    """A server that is laid out: how to run it and where it will answer."""

    process: Process
    url: str = field(repr=False)


@dataclass
class Servers:
    """Both servers, running."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    processes: dict[str, subprocess.Popen[bytes]]
    _running: list[tuple[Process, subprocess.Popen[bytes]]] = field(repr=False)
    _lock: IO[str] = field(repr=False)

    def stop(self) -> None:
        """Valkey, then PostgreSQL; the folder is free for another start."""
        for running in reversed(self._running):
            end_together([running])
        self._lock.close()


def start(state: Path) -> Servers:
    """Both servers answer; their output goes to `<state>/<name>.log`. Supervision is the supervisor's.

    They end with the thread that called this, at the latest.
    """
    lock = state_folder.hold(state)
    running: list[tuple[Process, subprocess.Popen[bytes]]] = []
    try:
        servers = [postgres(state), valkey(state)]
        for server in servers:
            popen = _launch_with_log(server.process, state)
            running.append((server.process, popen))
        _await(running, state)
    except BaseException:
        end_together(running)
        lock.close()
        raise
    return Servers(servers[0].url, servers[1].url, {process.name: popen for process, popen in running}, running, lock)


def postgres(state: Path) -> Server:
    """PostgreSQL with a database for us, which is made where it is missing; needs the lock on the folder."""
    account = run_as()
    _check_entry(account, state)
    program = binaries.runnable(binaries.postgres(), account, state)
    data = state / "postgres"
    if data.exists():
        _check_data(data, program, account)
        _end_leftover(data / "postmaster.pid", data, signal.SIGINT)
    port, password = _access(state, "postgres", data)
    if not data.exists():
        _initialise(program, data, password, account)
    url = f"postgresql://{OWNER}:{password}@127.0.0.1:{port}"
    settings = {"port": str(port), "max_connections": str(max(200, connections.needed() + 10)), **POSTGRES_SETTINGS}
    process = Process(
        name="postgres",
        argv=[program, "-D", data, *(word for key, value in settings.items() for word in ("-c", f"{key}={value}"))],
        env=ENVIRONMENT,
        account=account,
        ready=partial(_has_database, url),
        start_timeout=600,  # After a crash it replays its journal first.
        stop_signal=signal.SIGINT,  # "fast": SIGTERM would wait for every client to leave
        stop_timeout=60,
        orphan_signal=signal.SIGINT,
    )
    return Server(process, f"{url}/{DATABASE}")


def valkey(state: Path) -> Server:
    """Valkey or Redis, which keeps what it was given in an append-only file; needs the lock on the folder."""
    account = run_as()
    _check_entry(account, state)
    program = binaries.runnable(binaries.valkey(), account, state)
    folder, settings = state / "valkey", state / "valkey.conf"
    if not folder.exists():
        _make_for(account, folder)
    _end_leftover(folder / "pid", settings, signal.SIGTERM)
    port, password = _access(state, "valkey")
    write_private(settings, VALKEY_SETTINGS.format(port=port, password=password, folder=folder), owner=account)
    process = Process(
        name="valkey",
        argv=[program, settings],
        env=ENVIRONMENT,
        account=account,
        ready=partial(_pongs, port, password),
        start_timeout=300,
        stop_timeout=30,
        orphan_signal=signal.SIGTERM,
    )
    return Server(process, f"redis://:{password}@127.0.0.1:{port}/0")


def run_as() -> Account | None:
    """As whom the servers run: nobody, or whom SAGABOARD_RUN_AS names, since PostgreSQL refuses root; else ourselves."""
    if os.geteuid() != 0:
        return None
    name = os.environ.get("SAGABOARD_RUN_AS", "nobody")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise CannotStart(f"SAGABOARD_RUN_AS={name}: there is no such user.") from None
    return Account(name, found.pw_uid, found.pw_gid)


def _access(state: Path, name: str, data: Path | None = None) -> tuple[int, str]:
    """Port and password, the same as last time; another port only if somebody has taken ours."""
    path = state / f"{name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if data and data.exists() and not kept:
        raise CannotStart(f"{path} is missing, and with it the password of {data}: put it back, or move {data} away.")
    access = {"port": kept.get("port", 0), "password": kept.get("password") or secrets.token_urlsafe(24)}
    if not is_free(access["port"]):
        access["port"] = next(filter(is_free, random.sample(PORTS, len(PORTS))))
    if access != kept:
        write_private(path, json.dumps(access))
    return access["port"], access["password"]


def is_free(port: int) -> bool:
    """Whether a server could listen there; port 0 is no answer to the question where."""
    with socket.socket() as probe:
        # As the servers do: connections that have ended lately don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return port != 0


def _initialise(postgres_program: Path, data: Path, password: str, account: Account | None) -> None:
    """A new cluster, under another name until it is whole: an interrupted initdb never looks finished."""
    draft, password_file = data.with_name("postgres.draft"), data.with_name("postgres.password")
    shutil.rmtree(draft, ignore_errors=True)
    _make_for(account, draft)
    write_private(password_file, password, owner=account)
    options = ["--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", "--data-checksums", "--no-instructions"]
    try:
        initdb = postgres_program.with_name("initdb")
        _run([initdb, "-D", draft, "-U", OWNER, f"--pwfile={password_file}", *options], account)
    finally:
        password_file.unlink()
    draft.rename(data)


def _make_for(account: Account | None, folder: Path) -> None:
    """An empty folder that belongs to the account."""
    folder.mkdir(mode=0o700)
    if account:
        os.chown(folder, account.uid, account.gid)


def _check_entry(account: Account | None, state: Path) -> None:
    """CannotStart, before anything is copied or made, where the account can't get into the state folder."""
    if not account:
        return
    try:
        _run(["/bin/sh", "-c", 'cd -- "$1"', "sh", state], account)
    except CannotStart:
        raise CannotStart(
            f"As root the servers run as {account.name}, who can't get into {state}: name another state folder "
            "in SAGABOARD_STATE, or another user in SAGABOARD_RUN_AS."
        ) from None


def _run(argv: Sequence[str | Path], account: Account | None) -> None:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd="/",
        env=ENVIRONMENT,
        check=False,
        preexec_fn=partial(die_with_parent, os.getpid()),
        **identity(account),
    )
    if done.returncode:
        raise CannotStart(f"{Path(argv[0]).name} failed: {(done.stderr or done.stdout).strip()}")


def _check_data(data: Path, program: Path, account: Account | None) -> None:
    """The data are ours to open, and of the program's major version."""
    owner = data.stat().st_uid
    if owner != (account.uid if account else os.geteuid()):
        raise CannotStart(
            f"{data} belongs to user {owner}, and PostgreSQL would run as {account.name if account else os.geteuid()}: "
            "start it as before (SAGABOARD_RUN_AS names the user where you are root), or name another SAGABOARD_STATE."
        )
    try:
        theirs = int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        raise CannotStart(f"{data} is there, but holds no data of PostgreSQL: move it away.") from None
    if theirs != (ours := binaries.major(program, account)):
        raise CannotStart(_other_major(data, theirs, program, ours))


def _other_major(data: Path, theirs: int, program: Path, ours: int) -> str:
    old = binaries.of_major(theirs)
    place = str(old) if old else f"the bin folder of a PostgreSQL {theirs} (none was found on this machine)"
    return (
        f"{data} was written by PostgreSQL {theirs}, and {program} is PostgreSQL {ours}, which can't read it.\n"
        f"  To stay with the old one:  export SAGABOARD_PG_BIN={place}\n"
        f"  To move to the new one:    start with the old one, save with its pg_dump\n"
        f"      pg_dump --no-owner --file sagaboard.sql DATABASE_URL     (the URL is in {data.parent}/urls.json)\n"
        f"    stop, move {data} away, start with the new one, and load sagaboard.sql with psql into an empty database."
    )


def _has_database(server_url: str) -> bool:
    """The server answers, and our database is there."""
    try:
        with psycopg.connect(f"{server_url}/postgres", connect_timeout=2, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except psycopg.OperationalError as exc:
        if "password authentication failed" in str(exc):
            raise CannotStart("PostgreSQL runs, but its password is not the one in postgres.json.") from None
        return False
    return True


def _pongs(port: int, password: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\nQUIT\r\n".encode())
            return b"+PONG" in connection.makefile("rb").read()
    except OSError:
        return False


def _end_leftover(pidfile: Path, mark: Path, sig: signal.Signals) -> None:
    """End what an earlier supervisor, killed, has left running: known by its pid and by `mark` in its command line."""
    try:
        pid = int(pidfile.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    deadline = time.monotonic() + 60
    while str(mark) in _command_line(pid):
        if time.monotonic() > deadline:
            raise CannotStart(f"Process {pid} of an earlier start still runs on {mark} and does not end.")
        with suppress(ProcessLookupError):
            os.kill(pid, sig)
        time.sleep(0.1)


def _command_line(pid: int) -> str:
    proc = Path("/proc")
    try:
        if proc.is_dir():
            return (proc / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ")
        return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _launch_with_log(process: Process, state: Path) -> subprocess.Popen[bytes]:
    with (state / f"{process.name}.log").open("wb") as log:
        return launch(process, log)


def _await(running: list[tuple[Process, subprocess.Popen[bytes]]], state: Path) -> None:
    since = time.monotonic()
    for process, popen in running:
        try:
            while not is_ready(process, popen, since):
                time.sleep(0.02)
        except CannotStart as exc:
            said = (state / f"{process.name}.log").read_text(errors="replace").strip()
            raise CannotStart(f"{exc} It said:\n{said}") from None
