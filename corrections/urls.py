"""Below /corrections/."""

from django.urls import path

from corrections import views

app_name = "corrections"
urlpatterns = [
    path("", views.shelf, name="list"),
    path("live/", views.live, name="live"),
    path("<int:correction_id>/", views.editor, name="correction"),
    path("<int:correction_id>/preview/", views.preview, name="preview"),
    path("<int:correction_id>/send/", views.send, name="send"),
    path("<int:correction_id>/dismiss/", views.dismiss, name="dismiss"),
    path("<int:correction_id>/hold/", views.hold, name="hold"),
]
