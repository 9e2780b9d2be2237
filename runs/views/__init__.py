"""The run pages. Each view: who may, which row, one service, one answer."""

from runs.views.lists import go, home, index
from runs.views.own import audit, me
from runs.views.records import log_lines, log_page, report, report_text
from runs.views.run import confirm, leave, live, pause, retry_sending, run_page, stop, take
from runs.views.steps import let_through, settle, step_page
from runs.views.tools import capabilities, capability
from runs.views.undo import compensate

__all__ = [
    "audit",
    "capabilities",
    "capability",
    "compensate",
    "confirm",
    "go",
    "home",
    "index",
    "leave",
    "let_through",
    "live",
    "log_lines",
    "log_page",
    "me",
    "pause",
    "report",
    "report_text",
    "retry_sending",
    "run_page",
    "settle",
    "step_page",
    "stop",
    "take",
]
