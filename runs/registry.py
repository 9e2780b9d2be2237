"""Finds the capability classes, keeps their rows in step with the code, and says what is missing."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from runs.capability import Capability, Reading
from runs.models import CapabilityRecord, OutsideTool
from runs.states import AUDIENCE_ORDER, KIND_ORDER, Audience, Kind

AnyCapability = Capability[Any]


@lru_cache(maxsize=1)
def classes() -> dict[str, type[AnyCapability]]:
    """Every capability the code defines, by name. Found as Django finds admin modules, and in SAGABOARD_CAPABILITIES."""
    autodiscover_modules("capabilities")
    for module in settings.SAGABOARD_CAPABILITIES:
        importlib.import_module(module)
    found: dict[str, type[AnyCapability]] = {}
    for cls in _subclasses(Capability):
        if cls.name and not inspect.isabstract(cls) and _is_registered(cls):
            if cls.name in found:
                raise ImportError(f"Two capabilities are called {cls.name}: {found[cls.name].__module__} and {cls.__module__}.")
            found[cls.name] = cls
            # Its source is read now, while it is the one that was imported.
            cls.version()
    return found


def forget() -> None:
    """Looks for the classes anew at the next question; for tests that define some."""
    classes.cache_clear()


def find(name: str) -> AnyCapability | None:
    """The capability called `name`, or None if no code defines it (any more)."""
    cls = classes().get(name)
    return cls() if cls else None


@dataclasses.dataclass(frozen=True)
class Effective:
    """How one call is treated: the strictest of code, row, arguments and proof, and why."""

    kind: Kind
    audience: Audience
    read_by: str
    why: str = ""


def effective(capability: AnyCapability, record: CapabilityRecord, args: Any, *, proof: bool | None = None) -> Effective:
    """The kind and audience of this call. A compensatable undo that was never proven counts as irreversible."""
    reading = capability.classify(args) if args is not None else Reading()
    kinds = [capability.kind, reading.kind, Kind(record.stricter_kind) if record.stricter_kind else None]
    kind = max((k for k in kinds if k), key=KIND_ORDER.index)
    audience = max((a for a in (capability.audience, reading.audience) if a), key=AUDIENCE_ORDER.index)
    why = ""
    if not capability.leaves_effect:
        kind = Kind.REVERSIBLE
    elif kind != Kind.IRREVERSIBLE and not capability.has("undo"):
        kind, why = Kind.IRREVERSIBLE, "no undo is written"
    elif _needs_proof(proof) and kind == Kind.COMPENSATABLE and not record.is_proven:
        kind, why = Kind.IRREVERSIBLE, "its undo was never proven" if not record.proven_version else "its proof is older than its code"
    return Effective(kind, audience, reading.read_by or capability.read_by, why)


def _needs_proof(proof: bool | None) -> bool:
    return bool(settings.PROOF_REQUIRED) if proof is None else proof


def sync() -> list[str]:
    """Writes what the code says to the rows; returns the names that changed. What people govern stays."""
    changed = []
    with transaction.atomic():
        for name, cls in classes().items():
            fields = _from_code(cls)
            record, created = CapabilityRecord.objects.get_or_create(name=name, defaults=fields)
            different = [field for field, value in fields.items() if getattr(record, field) != value]
            if created or different:
                changed.append(name)
            if different:
                CapabilityRecord.objects.filter(pk=record.pk).update(**{field: fields[field] for field in different})
        gone = CapabilityRecord.objects.present().exclude(name__in=classes())
        changed += list(gone.values_list("name", flat=True))
        gone.update(missing_since=timezone.now())
    return changed


def sync_after_migrate(**kwargs: Any) -> None:
    sync()


@dataclasses.dataclass(frozen=True)
class Finding:
    capability: str
    code: str
    says: str


def lint_code() -> list[Finding]:
    """What is missing in the code of each capability."""
    return [Finding(name, code, says) for name, cls in sorted(classes().items()) for code, says in _lint_class(cls)]


def lint() -> list[Finding]:
    """`lint_code`, and what all rows add."""
    return lint_rows(CapabilityRecord.objects.order_by("name"), OutsideTool.objects.order_by("name"))


def lint_rows(records: Iterable[CapabilityRecord], outside: Iterable[OutsideTool]) -> list[Finding]:
    """`lint_code`, and what these rows add: drills that never ran or are older than the code, and code that is gone."""
    return [
        *lint_code(),
        *map(_blank, (tool for tool in outside if not tool.undo)),
        *(found for one in records if (found := _unproven(one))),
    ]


def _unproven(record: CapabilityRecord) -> Finding | None:
    if record.missing_since is not None:
        return Finding(record.name, "W13", "no code defines it any more; runs that used it can't be undone")
    if not record.leaves_effect or not record.has_undo or record.is_proven:
        return None
    if not record.proven_version:
        return Finding(record.name, "W11", f"its undo was never proven; run: manage.py drill {record.name}")
    return Finding(record.name, "W12", f"its undo was proven for older code; run: manage.py drill {record.name}")


def _blank(tool: OutsideTool) -> Finding:
    return Finding(tool.name, "W14", f"NO UNDO WRITTEN: {tool.reached_by} reaches it past sagaboard")


def _lint_class(cls: type[AnyCapability]) -> Iterator[tuple[str, str]]:
    if not cls.leaves_effect:
        if not cls.no_effect_reason:
            yield "W01", "leaves_effect = False wants no_effect_reason: say why nothing is left"
        return
    if cls.has("undo") and not cls.has("verify_undone"):
        yield "W02", "an undo without verify_undone: nobody would know that it worked"
    if not cls.has("undo") and cls.kind != Kind.IRREVERSIBLE:
        yield "W03", "NO UNDO WRITTEN: it is treated as irreversible"
    if not cls.has("probe"):
        yield "W04", "no probe: after a crash a person has to look"
    if not cls.has("verify_done") and cls.has("undo"):
        yield "W05", "no verify_done: an undo could go over somebody else's change"
    if cls.kind == Kind.IRREVERSIBLE and not cls.has("render"):
        yield "W06", "irreversible without render: nobody could see what would be sent"
    if cls.audience != Audience.MACHINES:
        missing = [word for word in ("human_signal", "what_to_do") if not getattr(cls, word)]
        missing += [word for word in ("correct", "place") if not cls.has(word)]
        if missing:
            yield "W07", f"people read it, and it lacks {', '.join(missing)}"


def _from_code(cls: type[AnyCapability]) -> dict[str, Any]:
    return {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "kind": str(cls.kind),
        "audience": str(cls.audience),
        "version": cls.version(),
        "schema": cls.schema(),
        "lives_in": cls.lives_in,
        "read_by": cls.read_by,
        "undo_cost": cls.undo_cost,
        "undone_when": cls.undone_when,
        "has_undo": cls.has("undo"),
        "leaves_effect": cls.leaves_effect,
        "missing_since": None,
    }


def _is_registered(cls: type[AnyCapability]) -> bool:
    """A class left over from a module that the settings no longer name is not part of this installation."""
    module = cls.__module__
    return module in settings.SAGABOARD_CAPABILITIES or module.rpartition(".")[2] == "capabilities"


def _subclasses(cls: type[AnyCapability]) -> Iterator[type[AnyCapability]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
