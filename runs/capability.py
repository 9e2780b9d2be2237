"""What a tool is here: the class it subclasses, the call it is given, and what it may answer.

The pattern is the saga's (Garcia-Molina and Salem, 1987) with Richardson's kinds: compensatable, pivot, retriable.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import inspect
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, ClassVar, Generic, TypeVar

import pydantic

from runs.states import Audience, Kind

JSON = dict[str, Any]


class Args(pydantic.BaseModel):
    """The arguments of a capability. Unknown names are refused, so that a typing error never becomes a default."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=pydantic.BaseModel)


@dataclasses.dataclass(frozen=True)
class Call(Generic[A]):
    """What a capability is told about the call it serves. `key` is the same over all attempts, and differs between intents."""

    args: A
    key: str
    run: int = 0
    step: int = 0
    attempt: int = 1
    prepared: JSON = dataclasses.field(default_factory=dict)
    effect: JSON = dataclasses.field(default_factory=dict)
    # By the database's clock; None until the first attempt has started.
    started_at: dt.datetime | None = None
    # Seconds this call may take, the hard bound.
    timeout: float = 30.0
    # Arguments that are references until the call is made.
    secret: tuple[str, ...] = ()
    # The payload a person approved: what `do` of an irreversible capability sends, byte for byte.
    payload: Payload | None = None
    # A person read what somebody changed since, and chose to undo over it: `undo` then compares no more.
    over: bool = False


@dataclasses.dataclass(frozen=True)
class Payload:
    """What an irreversible call will send: `body` exactly as it goes out, and `to`, the resolved target it goes to.

    `to` holds at least `target` (the configured name), `url`, `account`, `credential` (its name, never its text) and
    `recipient`. `as_read` is how the reader will see it, as plain lines; `was` names values that this replaces.
    """

    to: JSON
    body: bytes
    content_type: str = "application/json"
    title: str = ""
    as_read: str = ""
    was: JSON = dataclasses.field(default_factory=dict)

    def digest_source(self) -> bytes:
        """The bytes a decision is bound to, together with the capability's version."""
        import rfc8785

        return rfc8785.dumps({"to": self.to, "content_type": self.content_type}) + b"\n" + self.body


@dataclasses.dataclass(frozen=True)
class Reading:
    """How far one particular call reaches; may be stricter than the class says, never looser."""

    kind: Kind | None = None
    audience: Audience | None = None
    read_by: str = ""


@dataclasses.dataclass(frozen=True)
class Message:
    """A correction, as it will be posted. `key` is the same over all attempts to send it.

    `to` is the notification address of whoever owns the audience, for places that are a note to a person. `at` is the address
    of the place that a person chose from `elsewhere`; empty where it goes to the signal's own place.
    """

    text: str
    key: str
    subject: str = ""
    to: JSON = dataclasses.field(default_factory=dict)
    at: JSON = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a correction goes: `address` is what `correct` needs, `label` what a person reads, `kind` e.g. 'ticket' or 'note'.

    Two signals with an equal `key` landed in one place, so that one message corrects both. `limit` is how many characters the
    place takes, `readers` who else sees it there, `above` the words of the signal that it stands below, `quote` what is said of
    the signal where it does not.
    """

    key: str
    label: str
    kind: str
    address: JSON = dataclasses.field(default_factory=dict)
    limit: int | None = None
    readers: str = ""
    above: str = ""
    quote: str = ""


@dataclasses.dataclass(frozen=True)
class Retry:
    attempts: int = 3
    backoff: float = 2.0


class Capability(Generic[A]):
    """A tool in the registry. Subclass it, name it, and write what undoes it; the docstring becomes the tool's description."""

    name: ClassVar[str] = ""
    kind: ClassVar[Kind] = Kind.COMPENSATABLE
    # What the pages show: in which system the effect lives, who reads it (and in words), what an undo costs, what it looks at.
    lives_in: ClassVar[str] = ""
    audience: ClassVar[Audience] = Audience.MACHINES
    read_by: ClassVar[str] = ""
    undo_cost: ClassVar[str] = ""
    undo_note: ClassVar[str] = ""
    undone_when: ClassVar[str] = ""
    # Templates over args, prepared and effect (`{flag}`): what people may have seen, and what they need to do now.
    human_signal: ClassVar[str] = ""
    what_to_do: ClassVar[str] = ""
    reverted_to: ClassVar[str] = ""
    # The title of one call, and its identifier, as templates over the arguments.
    title: ClassVar[str] = ""
    identifier: ClassVar[str] = ""

    leaves_effect: ClassVar[bool] = True
    no_effect_reason: ClassVar[str] = ""
    # Seconds. `timeout` bounds each external call; `probe_for` is how long after it the target may still be slow to show an
    # effect; `verify_for` how long an undo may take to become visible; `undo_window` how long an undo works at all.
    timeout: ClassVar[float] = 30.0
    probe_for: ClassVar[float] = 5.0
    verify_for: ClassVar[float] = 10.0
    undo_window: ClassVar[float | None] = None
    # The target gives one effect for one key however often it is asked.
    honours_key: ClassVar[bool] = False
    undo_repeatable: ClassVar[bool] = False
    retry: ClassVar[Retry] = Retry()
    queue: ClassVar[str] = "steps"
    # Which arguments make the intent; None means all of them.
    identity: ClassVar[tuple[str, ...] | None] = None
    # Arguments an agent may only refer to ("secret:NAME"); `do` and the others get the text, nothing that is stored does.
    secret: ClassVar[tuple[str, ...]] = ()
    # Raised by hand when the connector's behaviour changes without its source.
    connector_version: ClassVar[str] = "1"

    Args: ClassVar[type[pydantic.BaseModel]] = Args

    # Subclasses override what they have; the registry asks `has()` which ones are written.
    def prepare(self, call: Call[Any]) -> JSON:
        """What `undo` needs and only beforehand can be known; read-only, or allocating what may be left lying."""
        raise NotImplementedError  # pragma: no cover

    def do(self, call: Call[Any]) -> JSON:
        """The call itself; returns the effect. `NoEffect` says that nothing happened; anything else raised means unknown."""
        raise NotImplementedError  # pragma: no cover

    def undo(self, call: Call[Any]) -> None:
        """Takes the effect back, conditionally on the world being as `do` left it."""
        raise NotImplementedError  # pragma: no cover

    def verify_undone(self, call: Call[Any]) -> bool:
        """Asks the real system whether the effect is gone. Only a definite answer counts; else it raises."""
        raise NotImplementedError  # pragma: no cover

    def probe(self, call: Call[Any]) -> JSON | None:
        """The effect, found from intent and `prepared`; None when it is not there. Recognises ours, never a stranger's."""
        raise NotImplementedError  # pragma: no cover

    def verify_done(self, call: Call[Any]) -> bool:
        """Whether the world is still exactly as `do` left it."""
        raise NotImplementedError  # pragma: no cover

    def drift(self, call: Call[Any]) -> str:
        """In a sentence, what is different from how `do` left it: before, ours, now."""
        raise NotImplementedError  # pragma: no cover

    def tidy(self, call: Call[Any]) -> None:
        """Takes away what was left only so that `probe` finds the effect, which stays. Any time after the run, or never."""
        raise NotImplementedError  # pragma: no cover

    def correct(self, call: Call[Any], message: Message) -> JSON:
        """Posts `message` where the signal landed; returns where it is (`id`, `link`). The same `message.key` posts once."""
        raise NotImplementedError  # pragma: no cover

    def probe_correction(self, call: Call[Any], message: Message) -> JSON | None:
        """The posted correction, found by its key; None when it is not there."""
        raise NotImplementedError  # pragma: no cover

    def place(self, call: Call[Any]) -> Place:
        """Where a correction of this effect belongs."""
        raise NotImplementedError  # pragma: no cover

    def elsewhere(self, call: Call[Any]) -> list[Place]:
        """Where a correction may go when its own place is gone, the next best first; a person chooses. Reads nothing outside."""
        return []

    def replies(self, call: Call[Any], message: Message, posted: JSON) -> int | None:
        """How many answers the posted correction got, where the place can tell."""
        raise NotImplementedError  # pragma: no cover

    def render(self, args: Any) -> Payload:
        """What will be sent, and to whom. Pure: no clock, no network, the same for the same arguments."""
        raise NotImplementedError  # pragma: no cover

    def classify(self, args: Any) -> Reading:
        return Reading()

    def audience_name(self, args: Any) -> str:
        """The cohort, channel or client that reads this call's effect, as owners of audiences are registered; "" for machines."""
        return ""

    def touches(self, args: Any) -> list[str]:
        """Resource keys this call changes; two unfinished runs don't share one."""
        return []

    @classmethod
    def has(cls, method: str) -> bool:
        """Whether this class writes `method` itself, or inherits it from something other than `Capability`."""
        return getattr(cls, method) is not getattr(Capability, method)

    @classmethod
    def version(cls) -> str:
        """Twelve hex digits over the source of the class and its bases, and its declared connector version."""
        digest = hashlib.sha256(cls.connector_version.encode())
        for base in cls.__mro__:
            if issubclass(base, Capability) and base is not Capability:
                # mypy takes the hash of an instance for that of the class.
                digest.update(_source(base).encode())  # type: ignore[arg-type]
        return digest.hexdigest()[:12]

    @classmethod
    def schema(cls) -> JSON:
        """The JSON Schema of the arguments."""
        return cls.Args.model_json_schema()

    @classmethod
    def fill(cls, template: str, values: Mapping[str, Any]) -> str:
        """`template` with its `{slots}` filled; a slot that the log can't fill stays visible as `{slot}`."""
        return template.format_map(_Slots(values))


_reading = Lock()


@cache
def _source(cls: type) -> str:
    """Its source as first read: a file edited since is not the code that runs.

    One at a time, as Python before 3.11.5 raises SystemError where two threads parse at once (its issue 106905).
    """
    with _reading:
        return inspect.getsource(cls)


class _Slots(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
