"""Reads the environment for the settings; a wrong value raises at start, naming the variable."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

BASE = Path(__file__).resolve().parent.parent


def state_folder() -> Path:
    """Where embedded servers, the secret key and the demo keep their data: `SAGABOARD_STATE`.

    By default `.state` in the checkout; as root below var/lib, since PostgreSQL runs as another user who must get there.
    """
    if named := os.environ.get("SAGABOARD_STATE"):
        return Path(named).absolute()
    return Path("/var/lib/sagaboard") if os.geteuid() == 0 else BASE / ".state"


def flag(name: str, *, default: bool = False) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value in {"", "0", "no", "false", "off"}:
        return default if value == "" else False
    if value in {"1", "yes", "true", "on"}:
        return True
    raise ImproperlyConfigured(f"{name}={value!r}: say 1 or 0.")


def number(name: str, default: float) -> float:
    value = os.environ.get(name)
    try:
        return default if value is None else float(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r}: give a number.") from None


def words(name: str, default: list[str]) -> list[str]:
    value = os.environ.get(name)
    return default if value is None else [word.strip() for word in value.split(",") if word.strip()]


def document(name: str) -> dict[str, Any]:
    """A JSON object from the variable itself, or from the file that it names."""
    value = os.environ.get(name, "")
    if not value:
        return {}
    try:
        found = json.loads(value if value.lstrip().startswith("{") else Path(value).read_text())
    except (OSError, ValueError) as exc:
        raise ImproperlyConfigured(f"{name}: neither a JSON object nor a file that holds one ({exc}).") from None
    if not isinstance(found, dict):
        raise ImproperlyConfigured(f"{name}: want a JSON object.")
    return found


def webhooks(name: str) -> dict[str, dict[str, str]]:
    """Addresses to call, by name, each with the secret that signs the calls."""
    found = document(name)
    for hook, options in found.items():
        try:
            key = base64.b64decode(options["secret"].removeprefix("whsec_"))
            usable = options["url"].startswith(("https://", "http://")) and len(key) >= 24
        except (KeyError, TypeError, AttributeError, ValueError):
            usable = False
        if not usable or len(hook) > 80:
            raise ImproperlyConfigured(f"{name}: “{hook}” wants a url and a secret, whsec_ and at least 24 bytes in Base64.")
    return found


def running_urls() -> dict[str, str]:
    """The addresses of the embedded servers that `manage.py up` started on this state folder, if it runs."""
    try:
        return dict(json.loads((state_folder() / "urls.json").read_text()))
    except (OSError, ValueError):
        return {}


def database(url: str, *, role: str | None) -> dict[str, Any]:
    """Django's database settings from `postgresql://user:password@host:port/name?option=…`."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(f"DATABASE_URL: want postgresql://…, not {parts.scheme}://…")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    options.setdefault("connect_timeout", "10")
    options.setdefault("application_name", "sagaboard")
    # Executions of one statement after which the connection keeps it prepared.
    options["prepare_threshold"] = 3
    server = ["-c idle_in_transaction_session_timeout=30s", "-c lock_timeout=10s", "-c timezone=UTC"]
    # PostgreSQL plans for a disk that seeks: it would rather read the whole of a table than a thousand rows by their index, and
    # compile what is over before that pays.
    server += ["-c random_page_cost=1.1", "-c jit=off"]
    if role:
        server.append(f"-c role={role}")
    options["options"] = " ".join([options.get("options", ""), *server]).strip()
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
