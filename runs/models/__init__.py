"""The rows: runs, their steps and log, the registry, and the rules tokens bring."""

from runs.models.capability import CapabilityRecord, OutsideTool
from runs.models.log import LogEntry, StoredPayload
from runs.models.rules import Alert, IdempotencyKey, Rules, System, TargetPause, TokenRules
from runs.models.run import Check, Claim, Page, Run, shown_to
from runs.models.step import Step

__all__ = [
    "Alert",
    "CapabilityRecord",
    "Check",
    "Claim",
    "IdempotencyKey",
    "LogEntry",
    "OutsideTool",
    "Page",
    "Rules",
    "Run",
    "Step",
    "StoredPayload",
    "System",
    "TargetPause",
    "TokenRules",
    "shown_to",
]
