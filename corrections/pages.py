"""What the list and the editor show."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlencode

from django.db.models import Q
from django.utils import timezone

from corrections import drafting, places, services, wording
from corrections.drafting import each_seen_when_utc
from corrections.models import Correction, CorrectionQuerySet, read_owners
from corrections.states import CorrectionState
from runs import news
from runs.capability import Place
from runs.models import LogEntry
from sagaboard.accounts.models import User
from sagaboard.web import count_together

# What a correction rests on, and how the log says it.
WORDS = {
    "step.done": ("done", ""),
    "step.sent": ("sent", ""),
    "undo.verified": ("undone", "undo"),
    "undo.skipped": ("found gone", "undo"),
    "undo.failed": ("undo failed", "bad"),
    "undo.drifted": ("drifted", "bad"),
    "step.settled": ("settled", "undo"),
    "correction.drafted": ("drafted", ""),
    "correction.edited": ("edited", ""),
    "correction.sent": ("delivered", "undo"),
    "correction.failed": ("not delivered", "bad"),
    "correction.dismissed": ("dismissed", "held"),
}
PAGE = 30
# More that wait are not read line by line.
AT_MOST = 200
# Somebody who saved so recently is still at it.
EDITING = dt.timedelta(seconds=60)
LABELS = {
    "seen": "What they may have seen",
    "reverted_to": "Reverted to",
    "what_to_do": "What they need to do",
    "back_when": "When it will come back",
}


# What the list can be narrowed to: its label and icon.
STATES = {
    "mine": ("Yours to send", "edit"),
    "open": ("Not told yet", "eye"),
    "not_delivered": ("Not delivered", "stuck"),
    "sent": ("Sent", "sent"),
    "dismissed": ("Dismissed", "skipped"),
}


@dataclasses.dataclass(frozen=True)
class Filters:
    """What the list is narrowed to, and the number before which its second part begins. A wrong value narrows nothing."""

    q: str = ""
    state: str = ""
    before: int = 0

    @classmethod
    def read(cls, given: dict[str, str]) -> Filters:
        text, state, before = (given.get(name, "").replace("\x00", "").strip()[:200] for name in ("q", "state", "before"))
        return cls(text, state if state in STATES else "", int(before) if before.isdecimal() and len(before) < 19 else 0)

    def narrow(self, corrections: CorrectionQuerySet, user: User) -> CorrectionQuerySet:
        narrowed = of_state(self.state, corrections, user)
        return narrowed.matching(self.q) if self.q else narrowed

    @property
    def query(self) -> str:
        """The same as the end of an address; "" for none."""
        return urlencode({name: value for name, value in (("state", self.state), ("q", self.q)) if value})

    @property
    def kept(self) -> str:
        """What stays when the state is changed."""
        return urlencode({"q": self.q}) if self.q else ""


def of_state(state: str, corrections: CorrectionQuerySet, user: User) -> CorrectionQuerySet:
    """Those of these that a name in STATES stands for; all for ""."""
    if state == "mine":
        return corrections.waiting_for(user)
    if state == "open":
        return corrections.open()
    return corrections.filter(state=state) if state else corrections


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the list; `ownerless` is loud."""

    correction: Correction
    ownerless: bool
    mine: bool

    @property
    def is_back(self) -> bool:
        """What it told of holds again, and this person can say so."""
        return self.mine and self.correction.state == CorrectionState.SENT


@dataclasses.dataclass(frozen=True)
class Shelf:
    """The list: what somebody still has to be told first, those who can see it still on top."""

    waiting: list[Row]
    over: list[Row]
    # The number of the last one shown, where there are more of those that are over.
    older: int | None
    counts: Counter[str]
    filters: Filters
    # The moment it was made, as `runs.news` names it.
    at: str

    @property
    def seen(self) -> str:
        rows = [(row.correction.pk, row.correction.state, row.correction.revision, row.ownerless) for row in [*self.waiting, *self.over]]
        return _digest([rows, sorted(self.counts.items())])

    @property
    def chips(self) -> list[tuple[str, str, str, int]]:
        named = [(state, label, icon, self.counts[state]) for state, (label, icon) in STATES.items()]
        return [("", "All", "", self.counts[""]), *named]

    @property
    def ownerless(self) -> int:
        return sum(row.ownerless for row in self.waiting)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the log that the note rests on."""

    entry: LogEntry
    word: str
    css: str
    says: str


@dataclasses.dataclass(frozen=True)
class Change:
    """What a person made of a field that the log had filled in."""

    label: str
    was: str
    now: str


@dataclasses.dataclass(frozen=True)
class Editor:
    """One correction as one person sees it."""

    correction: Correction
    may_send: bool
    is_ownerless: bool
    to_whom: str
    checks: list[wording.Check]
    lines: list[list[wording.Part]]
    # When it could be seen, for each signal.
    at: list[str]
    entries: list[Entry]
    changes: list[Change]
    # Where else it may go, where it could not be delivered.
    elsewhere: list[Place]
    # The signal's own words, where it is posted below them, and who else sees it there.
    above: str
    readers: str
    # Somebody else, who saved a moment ago.
    also_editing: str
    # The message that it is back, where that can be sent.
    back: list[list[wording.Part]]
    following: list[Correction]
    # The moment it was made, as `runs.news` names it.
    moment: str

    @property
    def is_editable(self) -> bool:
        return self.may_send and self.correction.is_editable

    @property
    def can_go(self) -> bool:
        return all(check.met for check in self.checks)

    @property
    def link(self) -> str:
        """Where it was delivered, if the target gave a web address."""
        link = str((self.correction.delivered or {}).get("link", ""))
        return link if link.startswith(("https://", "http://")) else ""

    @property
    def seen(self) -> str:
        c = self.correction
        return _digest([c.state, c.revision, c.attempt, c.error, c.replies, c.back_run_id, c.goes_at, len(self.following)])


def shelf_of(user: User, filters: Filters | None = None) -> Shelf:
    """What this person may see, as far as `filters` let through; of what is over, a page."""
    filters, at = filters or Filters(), news.mark()
    visible = Correction.objects.visible_to(user)
    asked = filters.narrow(visible, user).select_related("run__owner")
    needing = (asked.open() | asked.back_unsaid())[: 0 if filters.before else AT_MOST]
    waiting = sorted(needing, key=lambda one: (not one.is_open, one.shown_until is not None, -one.drafted_at.timestamp()))
    rest = asked.closed().exclude(pk__in=visible.back_unsaid().values("pk")).order_by("-pk")
    over = list((rest.filter(pk__lt=filters.before) if filters.before else rest)[: PAGE + 1])
    mine = set(Correction.objects.sendable_by(user).filter(pk__in=[one.pk for one in waiting]).values_list("pk", flat=True))
    read_owners([*waiting, *over[:PAGE]])
    return Shelf(
        waiting=[_row(one, mine) for one in waiting],
        over=[_row(one, mine) for one in over[:PAGE]],
        older=over[PAGE - 1].pk if len(over) > PAGE else None,
        counts=count_together((state, of_state(state, visible, user)) for state in ["", *STATES]),
        filters=filters,
        at=at,
    )


def _row(correction: Correction, mine: set[int]) -> Row:
    return Row(correction, correction.is_open and wording.is_ownerless(correction), correction.pk in mine)


def editor_of(correction: Correction, user: User, moment: str = "") -> Editor:
    """What the editor shows of a correction this person may see, that was read after `moment` where one is named."""
    may = services.may_send(user, correction)
    return Editor(
        correction=correction,
        may_send=may,
        is_ownerless=wording.is_ownerless(correction),
        to_whom=addressee(correction),
        checks=wording.checks(correction),
        lines=wording.message(correction),
        at=each_seen_when_utc(correction),
        entries=list(_entries(correction)),
        changes=list(_changes(correction)),
        elsewhere=places.left(correction) if may and correction.is_editable else [],
        above=places.above(correction),
        readers=correction.readers or ("nobody else: it is a note to one person" if correction.place_kind == "note" else "not known"),
        also_editing=_also_editing(correction, user),
        back=wording.message(drafting.back_of(correction, correction.run)) if may and correction.can_say_back else [],
        following=list(correction.followed_by.all()),
        moment=moment or news.mark(),
    )


def _changes(correction: Correction) -> Iterator[Change]:
    for name, label in LABELS.items():
        was, now = str(correction.drafted.get(name, "")), str(getattr(correction, name))
        if name in correction.drafted and was.strip() != now.strip():
            yield Change(label, was, now)


def _also_editing(correction: Correction, user: User) -> str:
    saved = correction.edited_at
    if saved is None or not correction.is_editable or correction.edited_by == str(user) or timezone.now() - saved > EDITING:
        return ""
    return correction.edited_by


def addressee(correction: Correction) -> str:
    """Who gets it: the owner of the audience for a note, else the place it is posted to."""
    owned = correction.owned
    if correction.state in (CorrectionState.SENT, CorrectionState.SENDING) and correction.recipient:
        return correction.recipient
    if correction.place_kind == "note":
        return str(owned.owner) if owned else f"nobody: no one owns “{correction.audience}”"
    return correction.place_label


def _entries(correction: Correction) -> Iterator[Entry]:
    about = Q(step__in=correction.steps.all()) | Q(event__startswith="correction.", data__correction=correction.pk)
    for entry in correction.run.entries.filter(about, event__in=WORDS).select_related("step").order_by("seq"):
        word, css = ("sent off", "") if entry.data.get("sending") else WORDS[entry.event]
        yield Entry(entry, word, css, _says(entry))


def _says(entry: LogEntry) -> str:
    """The fact of the entry that the note takes up."""
    if entry.event in ("step.done", "step.sent"):
        return "could be seen from here"
    data = entry.data
    said = data.get("evidence") or data.get("why") or data.get("reason") or data.get("how") or data.get("place") or ""
    return str(said)


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
