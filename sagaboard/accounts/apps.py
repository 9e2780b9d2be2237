from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "sagaboard.accounts"
    label = "accounts"
    verbose_name = "People, teams and tokens"
