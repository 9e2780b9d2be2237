"""Below /outbox/."""

from django.urls import path

from outbox import views

app_name = "outbox"
urlpatterns = [
    path("", views.queue, name="queue"),
    path("live/", views.live, name="live"),
    path("bulk/", views.bulk, name="bulk"),
    path("<int:item_id>/", views.card, name="item"),
    path("<int:item_id>/evidence/", views.evidence, name="evidence"),
    path("<int:item_id>/approve/", views.approve, name="approve"),
    path("<int:item_id>/edit/", views.edit, name="edit"),
    path("<int:item_id>/show-all/", views.show_all, name="show_all"),
    path("<int:item_id>/versions/<int:number>/", views.version, name="version"),
    path("<int:item_id>/reject/", views.reject, name="reject"),
    path("<int:item_id>/ask-again/", views.ask_again, name="ask_again"),
    path("<int:item_id>/drop/", views.drop, name="drop"),
]
