"""The rows: runs, their steps and log, the registry, and the rules tokens bring."""

from runs.models.capability import CapabilityRecord, OutsideTool
from runs.models.log import LogEntry, StoredPayload
from runs.models.rules import IdempotencyKey, Rules, System, TokenRules
from runs.models.run import Check, Claim, Page, Run
from runs.models.step import Step

__all__ = [
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
    "TokenRules",
]
