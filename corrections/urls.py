app_name = "corrections"
urlpatterns: list = []
