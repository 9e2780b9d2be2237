"""The demo's agent, a process of its own so that it can be killed: `python -m sagaboard.demo.agent URL [--run N] …`.

It reads its token from SAGABOARD_TOKEN, says on its output, a JSON object a line, what it does, and knows nothing
that the record of its run does not know.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

import httpx

JSON = dict[str, Any]
PLAN: list[JSON] = [
    {"ref": "branch", "capability": "create_branch", "args": {"branch": "feature/billing-field"}},
    {"ref": "migration", "capability": "run_migration", "args": {"revision": "0142_invoice_billing_field"}},
    {"ref": "flag", "capability": "set_flag", "args": {"flag": "billing_panel_v1", "segment": "qa-cohort", "value": True}},
    {"ref": "ticket", "capability": "transition_ticket", "args": {"issue": "BILL-318", "to": "In Review"}},
    {"ref": "ci", "capability": "run_ci", "args": {"ref": "feature/billing-field"}},
    {"ref": "summary", "capability": "post_summary"},
    {"ref": "partner", "capability": "notify_partner"},
]
# What the agent only knows once it is there; the plan leaves it open.
LATER: dict[str, JSON] = {
    "summary": {"channel": "#billing-dev", "text": "Invoices have the billing field; the panel is on for QA."},
    "partner": {"subject": "Billing field on invoices", "message": "Your sandbox gets invoices with a billing field from today."},
}
WHY = {
    "ticket": "All checks pass and the panel is live for QA. Moving the ticket so that review can start.",
    "summary": "The team should know that the field is there.",
    "partner": "Northpay reads our invoices and wants to test with the new field.",
}


def main() -> None:
    options = _options()
    api = Api(options.url, os.environ["SAGABOARD_TOKEN"])
    if options.run is None:
        record = api.call("POST", "/runs", {"title": options.title, "owner": "ana", "ticket": "BILL-318", "plan": PLAN})
        tell(opened=record["run"], warnings=record["warnings"])
    else:
        record = api.call("POST", f"/runs/{options.run}/resume")
        tell(resumed=record["run"], remaining=record["remaining"])
    if options.improvise:
        improvise(api, record)
    work(api, record, options.stop_before)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sagaboard.demo.agent")
    parser.add_argument("url")
    parser.add_argument("--title", default="Add billing field to invoices")
    parser.add_argument("--run", type=int, help="take this run over instead of opening one")
    parser.add_argument("--improvise", action="store_true", help="first ask for the branch under another name, as agents do")
    parser.add_argument("--stop-before", default="", help="go silent before the step with this ref")
    return parser.parse_args()


class Api:
    """sagaboard's API with this agent's token; an answer outside 2xx comes back as it is."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=60"}
        self.client = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=90, trust_env=False)

    def call(self, method: str, path: str, body: JSON | None = None) -> JSON:
        answer = self.client.request(method, path, json=body)
        return {"status": answer.status_code, **answer.json()}


def work(api: Api, record: JSON, stop_before: str) -> None:
    """Asks for what remains, in order; stops at the first step that fails."""
    for step in record["steps"]:
        if step["ref"] == stop_before:
            _go_silent(step["ref"])
        if step["ref"] in record["remaining"] and not ask(api, record["run"], step):
            _go_silent(step["ref"])
    answer = api.call("POST", f"/runs/{record['run']}/finish")
    tell(finished=answer.get("state"), status=answer["status"], detail=answer.get("detail"))


def ask(api: Api, run: int, step: JSON) -> bool:
    """One call, waited for; true if it is done or held for its turn."""
    ref = step["ref"]
    body = {"ref": ref, "capability": step["capability"], "args": {**step["args"], **LATER.get(ref, {})}, "why": WHY.get(ref, "")}
    answer = api.call("POST", f"/runs/{run}/steps", body)
    while answer.get("state") in ("requested", "running", "unknown"):
        answer = api.call("GET", f"/runs/{run}/steps/{answer['number']}")
    tell(
        step=ref,
        status=answer["status"],
        state=answer.get("state"),
        effect=answer.get("effect"),
        error=answer.get("error") or answer.get("detail"),
    )
    return answer.get("state") in ("done", "nothing_to_undo", "queued", "sent")


def improvise(api: Api, record: JSON) -> None:
    """The retry that agents improvise after a crash: the same thing, once more, under a new name."""
    body = {"capability": "create_branch", "args": {"branch": "feature/billing-field-2"}}
    answer = api.call("POST", f"/runs/{record['run']}/steps", body)
    tell(improvised=answer["status"], effect=answer.get("effect"), detail=answer.get("detail"))


def _go_silent(ref: str) -> None:
    """From here the agent hangs, as one does whose process is about to be killed."""
    tell(silent=ref)
    while True:
        time.sleep(60)


def tell(**what: Any) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
