"""Who let an item out and what they saw: decisions beside the payload, the policy and the log as they were."""

from __future__ import annotations

import dataclasses
import datetime as dt

from outbox.models import Decision, Item, PolicyVersion, Served, Version
from outbox.payloads import Sheet, sheet
from runs import logwords


@dataclasses.dataclass(frozen=True)
class Proof:
    """One decision, and what stood before the eyes of whoever made it."""

    decision: Decision
    # The version of that digest; None only for a digest that no version has.
    version: Version | None
    sheet: Sheet | None
    # What the policy said then, by the name of each of its fields.
    rules: list[tuple[str, str]]
    # When a long payload was shown to them whole; shorter ones stand on the card as they are.
    served_at: dt.datetime | None


def proofs_of(item: Item) -> list[Proof]:
    """In the order in which people decided."""
    decisions, versions = list(item.decisions.all()), {version.digest: version for version in item.versions.all()}
    policies = {policy.number: policy for policy in PolicyVersion.objects.filter(policy=item.policy_id or 0)}
    served = {(one.version_id, one.person_id): one.at for one in Served.objects.filter(version__item=item)}
    return [_proof(one, versions.get(one.digest), policies, served) for one in decisions]


def _proof(
    decision: Decision, version: Version | None, policies: dict[int, PolicyVersion], served: dict[tuple[int, int], dt.datetime]
) -> Proof:
    number = decision.policy_version.rpartition("@")[2]
    policy = policies.get(int(number)) if number.isdecimal() else None
    rules = [(name.replace("_", " "), _said(value)) for name, value in policy.rules.items()] if policy else []
    at = served.get((version.pk, decision.by_id)) if version and decision.by_id else None
    return Proof(decision, version, sheet(version.payload()) if version else None, rules, at)


def _said(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return {True: "yes", False: "no", "": "every"}.get(value, str(value)) if isinstance(value, bool | str) else str(value)


def entries_of(item: Item) -> list[logwords.Line]:
    """What the log says of it, oldest first."""
    return [logwords.line(entry) for entry in item.step.log().order_by("seq").select_related("step")]
