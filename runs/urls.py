"""Addresses of the run pages, grouped by what they are about."""

from django.urls import include, path

from runs import views

app_name = "runs"

run = [
    path("", views.run_page, name="run"),
    path("live/", views.live, name="live"),
    path("compensate/", views.compensate, name="compensate"),
    path("take/", views.take, name="take"),
    path("step-back/", views.step_back, name="step-back"),
    path("leave/", views.leave, name="leave"),
    path("pause/", views.pause, name="pause"),
    path("stop/", views.stop, name="stop"),
    path("retry-sending/", views.retry_sending, name="retry-sending"),
    path("confirm/", views.confirm, name="confirm"),
    path("steps/", views.steps_page, name="steps"),
    path("steps/<int:step>/", views.step_page, name="step"),
    path("steps/<int:step>/settle/", views.settle, name="settle"),
    path("steps/<int:step>/let-through/", views.let_through, name="let-through"),
    path("steps/<int:step>/refuse/", views.refuse, name="refuse"),
    path("steps/<int:step>/drop/", views.drop, name="drop"),
    path("plan/", views.plan_page, name="plan"),
    path("log/", views.log_page, name="log"),
    path("log.jsonl", views.log_lines, name="log-lines"),
    path("report/", views.report, name="report"),
    path("report.md", views.report_text, name="report-text"),
    path("report.json", views.report_data, name="report-data"),
]

urlpatterns = [
    path("", views.home, name="home"),
    path("runs/", views.index, name="index"),
    path("runs/<int:number>/", include(run)),
    path("capabilities/", views.capabilities, name="capabilities"),
    path("capabilities/<str:name>/", views.capability, name="capability"),
    path("capabilities/<str:name>/disable/", views.disable, name="disable"),
    path("capabilities/<str:name>/enable/", views.enable, name="enable"),
    path("capabilities/<str:name>/drill/", views.drill, name="drill"),
    path("capabilities/<str:name>/drills/<int:number>/", views.drilled, name="drilled"),
    path("drills/", views.drill_due, name="drill-due"),
    path("go/", views.go, name="go"),
    path("me/", views.me, name="me"),
    path("audit/", views.audit, name="audit"),
    path("audit.csv", views.audit_csv, name="audit-csv"),
    path("audit.jsonl", views.audit_lines, name="audit-lines"),
]
