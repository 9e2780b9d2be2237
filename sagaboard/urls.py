"""Where every page and endpoint lives."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from corrections.urls import audiences, templates
from runs.api import api
from sagaboard import health, people

handler500 = "sagaboard.web.broken"
urlpatterns = [
    path("", include("runs.urls")),
    path("outbox/", include("outbox.urls")),
    path("people/", people.people, name="people"),
    path("people/<int:person_id>/", people.person, name="person"),
    path("policies/", include("outbox.policy_urls")),
    path("corrections/", include("corrections.urls")),
    path("audiences/", include((audiences, "audiences"))),
    path("templates/", include((templates, "templates"))),
    path("api/v1/", api.urls),
    path("login/", auth.LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("healthz", health.alive, name="healthz"),
    path("readyz", health.ready, name="readyz"),
    path("workz", health.works, name="workz"),
    path("metrics", health.metrics, name="metrics"),
    path("admin/", admin.site.urls),
]
