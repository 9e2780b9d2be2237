"""Django's system checks: what the registry's lint finds is said at start-up too."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import Error, register
from django.core.checks import Warning as CheckWarning


@register()
def registry_is_sound(app_configs: Any, **kwargs: Any) -> list[CheckWarning]:
    from runs import registry

    return [CheckWarning(f"{finding.capability}: {finding.says}", id=f"runs.{finding.code}") for finding in registry.lint_code()]


@register()
def services_can_be_paged(app_configs: Any, **kwargs: Any) -> list[Error]:
    if not settings.PAGE_SERVICES or find_spec("apprise"):
        return []
    says = "SAGABOARD_PAGE_SERVICES names services to page, and apprise is not installed."
    return [Error(says, hint='Install the extra: pip install "sagaboard[services]".', id="runs.E01")]
