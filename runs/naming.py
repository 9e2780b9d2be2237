"""What a step is called where people read it: from its capability's templates and what the log knows of the call."""

from __future__ import annotations

import re
from typing import Any

from runs import registry
from runs.models import Step
from sagaboard.templatetags.words import shown

SLOT = re.compile(r"\{[^{}]*\}")
# The argument that says in which of several systems of its kind an effect lives.
TARGETS = ("target", "repo", "database")


def title_of(step: Step) -> str:
    """In plain words what the call does: `set flag for qa-cohort`."""
    capability = registry.find(step.capability)
    template = capability.title if capability is not None else ""
    return filled(template, step) or step.capability.replace("_", " ")


def identifier_of(step: Step) -> str:
    """What exactly it acts on: a branch, a version, a flag and its segment; "" where nothing says."""
    capability = registry.find(step.capability)
    return filled(capability.identifier, step) if capability is not None else ""


def short_name(step: Step) -> str:
    """One word for lists: the plan's ref, if a person chose it."""
    return shown(step.ref) if step.ref and not step.ref.startswith("step-") else title_of(step)


def place_of(step: Step) -> str:
    """Which of several systems of its kind the effect lives in; "" where there is one."""
    capability = registry.find(step.capability)
    fields = capability.Args.model_fields if capability is not None else {}
    for name in TARGETS:
        found = step.args.get(name) or (fields[name].default if name in fields else None)
        if isinstance(found, str) and found:
            return shown(found)
    return ""


def seen_of(step: Step) -> str:
    """What sagaboard itself saw when a person settled the step, in words."""
    return shown(step.seen_at_settling.removeprefix("verify_undone: ").removeprefix("probe: "))


def was_gone(step: Step) -> bool:
    """Whether sagaboard, too, saw it gone then."""
    return step.seen_at_settling.endswith(": gone")


def filled(template: str, step: Step) -> str:
    """`template` over what the log knows of the call; what it does not know reads “…”."""
    capability = registry.find(step.capability)
    if capability is None or not template:
        return ""
    return SLOT.sub("…", shown(capability.fill(template, known_of(step))))


def known_of(step: Step) -> dict[str, Any]:
    capability = registry.find(step.capability)
    fields = capability.Args.model_fields if capability is not None else {}
    defaults = {name: field.default for name, field in fields.items() if not field.is_required()}
    prepared, effect = step.what_undo_needs()
    return {**defaults, **prepared, **effect, **step.args}
