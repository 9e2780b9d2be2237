"""Below /corrections/."""

from django.urls import path

from corrections import settings_views, views

app_name = "corrections"
urlpatterns = [
    path("", views.shelf, name="list"),
    path("live/", views.live, name="live"),
    path("<int:correction_id>/", views.editor, name="correction"),
    path("<int:correction_id>/preview/", views.preview, name="preview"),
    path("<int:correction_id>/send/", views.send, name="send"),
    path("<int:correction_id>/dismiss/", views.dismiss, name="dismiss"),
    path("<int:correction_id>/hold/", views.hold, name="hold"),
    path("<int:correction_id>/save/", views.autosave, name="save"),
    path("<int:correction_id>/elsewhere/", views.elsewhere, name="elsewhere"),
    path("<int:correction_id>/another/", views.another, name="another"),
    path("<int:correction_id>/back/", views.back, name="back"),
]

# Below /audiences/ and /templates/.
audiences = [
    path("", settings_views.audiences, name="list"),
    path("new/", settings_views.audience, name="new"),
    path("<int:audience_id>/", settings_views.audience, name="audience"),
]
templates = [
    path("", settings_views.templates, name="list"),
    path("<str:kind>/<str:place_kind>/", settings_views.template, name="template"),
    path("<str:kind>/<str:place_kind>/preview/", settings_views.template_preview, name="preview"),
]
