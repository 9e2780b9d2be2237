"""What agents, checkers and people can do to runs. Each is one transaction: lock, read again, check, change, log, enqueue."""

from runs.services.asking import Asked, request_step, skip_step
from runs.services.ending import fail_run, finish_run, report_check
from runs.services.holding import let_through, refuse_held
from runs.services.opening import declared, heartbeat, open_run, resume_run
from runs.services.people import (
    compensate_run,
    confirm_green,
    leave_standing,
    pause_run,
    settle_step,
    step_back,
    stop_run,
    take_run,
)
from runs.services.sending import drop_send, retry_sending

__all__ = [
    "Asked",
    "compensate_run",
    "confirm_green",
    "declared",
    "drop_send",
    "fail_run",
    "finish_run",
    "heartbeat",
    "leave_standing",
    "let_through",
    "open_run",
    "pause_run",
    "refuse_held",
    "report_check",
    "request_step",
    "resume_run",
    "retry_sending",
    "settle_step",
    "skip_step",
    "step_back",
    "stop_run",
    "take_run",
]
