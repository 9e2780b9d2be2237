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
        os.environ.setdefault("SAGABOARD_STATE", str(_folder()))
        return
    from sagaboard import embedded

    state = _folder()
    os.environ["SAGABOARD_STATE"] = str(state)
    servers = embedded.start(state / "servers")
    os.environ["DATABASE_URL"], os.environ["REDIS_URL"] = servers.database_url, servers.redis_url
    atexit.register(servers.stop)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sagaboard-tests-"))
    folder.chmod(0o711)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


CONNECTORS = ("git", "migration", "unleash", "jira", "ci", "slack", "partner")
CAPABILITIES = ",".join([*(f"runs.connectors.{name}" for name in CONNECTORS), "tests.tools"])
begin()
