"""Django's system checks: what the registry's lint finds is said at start-up too."""

from __future__ import annotations

from typing import Any

from django.core.checks import Warning as CheckWarning
from django.core.checks import register


@register()
def registry_is_sound(app_configs: Any, **kwargs: Any) -> list[CheckWarning]:
    from runs import registry

    return [CheckWarning(f"{finding.capability}: {finding.says}", id=f"runs.{finding.code}") for finding in registry.lint_code()]
