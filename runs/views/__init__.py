"""The run pages. Each view: who may, which row, one service, one answer."""

from runs.views.lists import go, home, index
from runs.views.own import audit, audit_csv, audit_lines, me
from runs.views.records import log_lines, log_page, plan_page, report, report_data, report_text
from runs.views.run import confirm, drop, leave, live, pause, refuse, retry_sending, run_page, step_back, stop, take
from runs.views.steps import let_through, settle, step_page, steps_page
from runs.views.tools import capabilities, capability, disable, drill, drill_due, drilled, enable
from runs.views.undo import compensate

__all__ = [
    "audit",
    "audit_csv",
    "audit_lines",
    "capabilities",
    "capability",
    "compensate",
    "confirm",
    "disable",
    "drill",
    "drill_due",
    "drilled",
    "drop",
    "enable",
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
    "plan_page",
    "refuse",
    "report",
    "report_data",
    "report_text",
    "retry_sending",
    "run_page",
    "settle",
    "step_back",
    "step_page",
    "steps_page",
    "stop",
    "take",
]
