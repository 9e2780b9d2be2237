"""Below /policies/."""

from django.urls import path

from outbox import policy_views

app_name = "policies"
urlpatterns = [
    path("", policy_views.policies, name="list"),
    path("new/", policy_views.add, name="add"),
    path("<int:policy_id>/", policy_views.policy, name="policy"),
]
