"""An agent's side of the API, for tests: JSON in, JSON out, by Django's client."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from runs.engine import invoke
from runs.models import Step


class Agent:
    def __init__(self, token: Any) -> None:
        self.token = token
        self.client = Client(enforce_csrf_checks=True)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer, with `.data` where it is JSON. A `bytes` body goes out as it is."""
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        sent = {"authorization": f"Bearer {self.token.text}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = self.client.generic(method, f"/api/v1{path}", raw, content_type="application/json", headers=sent)
        if answer.headers.get("Content-Type", "").startswith("application") and not answer.streaming:
            answer.data = json.loads(answer.content, parse_constant=_refuse)
        return answer

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, b"", **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PUT", path, body, **headers)


def _refuse(name: str) -> None:
    raise AssertionError(f"an answer holds {name}, which is not JSON")


def work(run: int) -> None:
    """What workers would do: every requested step of the run, once."""
    for step in Step.objects.filter(run=run, state__in=["requested", "queued"]).order_by("number"):
        invoke.invoke(run, step.pk)
