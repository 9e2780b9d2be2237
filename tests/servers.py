"""A pytest plugin, loaded first: real PostgreSQL and Valkey for the session, unless DATABASE_URL and REDIS_URL name others."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def begin() -> None:
    os.environ["SAGABOARD_AS_OWNER"] = "1"
    os.environ.setdefault("SAGABOARD_CAPABILITIES", CAPABILITIES)
    os.environ.setdefault("SAGABOARD_EMAIL_BACKEND", "django.core.mail.backends.locmem.EmailBackend")
    # Sync Playwright keeps an event loop running in this thread, which Django would take for async code.
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    if "DATABASE_URL" in os.environ and "REDIS_URL" in os.environ:
        os.environ["SAGABOARD_STATE"] = str(_folder())
        os.environ["REDIS_URL"] = _own_database(os.environ["REDIS_URL"])
        return
    from sagaboard import embedded

    state = _folder()
    os.environ["SAGABOARD_STATE"] = str(state)
    servers = embedded.start(state / "servers")
    os.environ["DATABASE_URL"], os.environ["REDIS_URL"] = servers.database_url, servers.redis_url
    atexit.register(servers.stop)


def _own_database(url: str) -> str:
    """Tests that run side by side share one broker, and each has its own database of it, as each has one of PostgreSQL."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return url if not worker else f"{url.rpartition('/')[0]}/{1 + int(worker.removeprefix('gw'))}"


def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: a quarter of the time all of them would wait together, for leases to end and for servers to start."""
    return min(4, len(os.sched_getaffinity(0)) + 1)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sagaboard-tests-"))
    folder.chmod(0o711)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


CONNECTORS = ("git", "migration", "unleash", "jira", "ci", "slack", "partner", "mail")
CAPABILITIES = ",".join([*(f"runs.connectors.{name}" for name in CONNECTORS), "tests.tools"])
begin()
