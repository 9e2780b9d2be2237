"""The picture of a run's exposure: one lane for each effect that people could see, as numbers that the template draws."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable

from django.utils import timezone
from django.utils.text import Truncator

from runs.blast_radius import Row, Table
from runs.facts import Facts
from sagaboard.templatetags.words import duration, sentence

MOST_LANES = 12
LANE, FIRST, BAR = 46, 48, 12
TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 2 * 86400, 7 * 86400, 30 * 86400]
MOST_TICKS = 6
# Characters of a lane's label; the table has it whole.
LABEL = 60


@dataclasses.dataclass(frozen=True)
class Bar:
    """`x`, `width` and `end` are percentages of the lane; `cap` is what stands at the end: "open", "end" or nothing."""

    css: str
    x: str
    width: str
    end: str
    cap: str
    title: str


@dataclasses.dataclass(frozen=True)
class Lane:
    y: int
    label: str
    right: str
    tone: str
    bars: list[Bar]

    @property
    def text_y(self) -> int:
        return self.y - 7

    @property
    def label_y(self) -> int:
        """The top of the label's own frame, which keeps it off what stands at the right."""
        return self.y - 22

    @property
    def cap_y(self) -> int:
        return self.y - 4


@dataclasses.dataclass(frozen=True)
class Mark:
    css: str
    tone: str
    x: str
    y: int
    label: str
    anchor: str
    dx: int

    @property
    def line_to(self) -> int:
        return self.y + 2


@dataclasses.dataclass(frozen=True)
class Tick:
    x: str
    label: str
    anchor: str


@dataclasses.dataclass(frozen=True)
class Bubble:
    x: str
    y: int
    says: str


@dataclasses.dataclass(frozen=True)
class Picture:
    height: int
    ticks: list[Tick]
    lanes: list[Lane]
    marks: list[Mark]
    bubbles: list[Bubble]
    more: int
    says: str


@dataclasses.dataclass(frozen=True)
class Axis:
    start: dt.datetime
    seconds: float

    def at(self, moment: dt.datetime) -> float:
        return min(max((moment - self.start).total_seconds() / self.seconds * 100, 0.0), 100.0)

    def percent(self, moment: dt.datetime) -> str:
        return f"{self.at(moment):.2f}%"


def of(facts: Facts, table: Table) -> Picture:
    """The whole story in one drawing, and in one sentence for those who don't see it."""
    run = facts.run
    last = run.ended_at or facts.now
    for entry in facts.marks:
        last = max(last, entry.at)
    axis = Axis(run.opened_at, max((last - run.opened_at).total_seconds() * 1.12, 10.0))
    seen = sorted(
        (row for row in table.rows if not row.exposure.is_machines and row.exposure.started),
        key=lambda row: -row.exposure.seconds(facts.now),
    )
    lanes = [_seen(place, row, axis, facts.now) for place, row in enumerate(seen[:MOST_LANES])]
    for made in (_machines(table, axis, facts, len(lanes)), _held(facts, table, axis, len(lanes) + 1)):
        if made is not None:
            lanes.append(dataclasses.replace(made, y=FIRST + LANE * len(lanes)))
    bottom = FIRST + LANE * max(len(lanes) - 1, 0) + BAR
    marks = _marks(facts, axis, bottom)
    told = [bubble for place, row in enumerate(seen[:MOST_LANES]) for bubble in _bubbles(place, row, axis)]
    height = bottom + 22 + 14 * max(len(marks), 1)
    return Picture(height, _ticks(axis), lanes, marks, told, max(len(seen) - MOST_LANES, 0), _says(seen, facts))


def _seen(place: int, row: Row, axis: Axis, now: dt.datetime) -> Lane:
    exposure = row.exposure
    start, end = exposure.started or now, exposure.ended or now
    said = ("at most " if exposure.at_most else "") + duration(exposure.seconds(now))
    cap = "end" if exposure.ended else "open"
    bar = Bar("b-seen", axis.percent(start), f"{max(axis.at(end) - axis.at(start), 0.3):.2f}%", axis.percent(end), cap, _from_to(row))
    return Lane(
        FIRST + LANE * place,
        f"{row.step.number} · {Truncator(row.title).chars(LABEL)}",
        said,
        "t-undo" if exposure.ended else "t-seen",
        [bar],
    )


def _bubbles(place: int, row: Row, axis: Axis) -> list[Bubble]:
    """Where its readers were told, on its own lane."""
    times = [one.told_at for one in row.told if one.told_at]
    return [Bubble(axis.percent(at), FIRST + LANE * place - 3, f"Correction delivered {_hms(at)}") for at in times]


def _machines(table: Table, axis: Axis, facts: Facts, place: int) -> Lane | None:
    rows = [row for row in table.rows if row.exposure.is_machines and row.exposure.started and row.step.leaves_effect]
    if not rows:
        return None
    start = min(row.exposure.started or facts.now for row in rows)
    ended = all(row.exposure.ended for row in rows)
    end = max(row.exposure.ended or facts.now for row in rows) if ended else facts.now
    cap = "end" if ended else ""
    bar = Bar(
        "b-mach", axis.percent(start), f"{max(axis.at(end) - axis.at(start), 0.3):.2f}%", axis.percent(end), cap, "Read by machines only"
    )
    return Lane(0, f"{_numbers(rows)} · {Truncator(_names(rows)).chars(LABEL)}", "machines only", "t-mute", [bar])


def _held(facts: Facts, table: Table, axis: Axis, place: int) -> Lane | None:
    rows = [row for row in table.rows if row.exposure.waits and row.step.requested_at]
    if not rows:
        return None
    start = min(row.step.requested_at or facts.now for row in rows)
    ends = [row.step.ended_at for row in rows if row.step.ended_at]
    end = max(ends) if len(ends) == len(rows) else facts.now
    bar = Bar("b-held", axis.percent(start), f"{max(axis.at(end) - axis.at(start), 0.3):.2f}%", axis.percent(end), "", "Held, not visible")
    word = "Withdrawn from the outbox" if facts.withdrawn else "Held in the outbox"
    return Lane(0, f"{_numbers(rows)} · {word}", "not visible", "t-mute", [bar])


def _marks(facts: Facts, axis: Axis, bottom: int) -> list[Mark]:
    found = []
    failed, pressed = facts.mark("run.failed"), facts.mark("run.compensating")
    if failed is not None:
        found.append(("mk-bad", "t-bad", failed.at, f"run failed {_hms(failed.at)}"))
    if pressed is not None:
        found.append(("mk-undo", "t-undo", pressed.at, f"compensate {_hms(pressed.at)}"))
    if not facts.run.has_ended:
        found.append(("mk-now", "t-mute", facts.now, f"now {_hms(facts.now)}"))
    return [_mark(css, tone, axis.at(at), bottom + 33 + 14 * place, label) for place, (css, tone, at, label) in enumerate(found)]


def _mark(css: str, tone: str, x: float, y: int, label: str) -> Mark:
    left = x > 35
    return Mark(css, tone, f"{x:.2f}%", y, label, "end" if left else "start", -5 if left else 5)


def _ticks(axis: Axis) -> list[Tick]:
    step = next((size for size in TICKS if axis.seconds / size <= MOST_TICKS), TICKS[-1])
    shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%-d %b"
    found = []
    for place in range(int(axis.seconds // step) + 1):
        moment = axis.start + dt.timedelta(seconds=place * step)
        if axis.at(moment) < 97:
            found.append(Tick(axis.percent(moment), timezone.localtime(moment).strftime(shape), "middle" if place else "start"))
    return found


def _numbers(rows: Iterable[Row]) -> str:
    numbers = [str(row.step.number) for row in rows]
    return ", ".join(numbers) if len(numbers) <= 6 else f"{numbers[0]} to {numbers[-1]}"


def _names(rows: list[Row]) -> str:
    return sentence(", ".join(row.title for row in rows)).rstrip(".") if len(rows) <= 3 else f"{len(rows)} effects"


def _from_to(row: Row) -> str:
    started, ended = row.exposure.started, row.exposure.ended
    return f"Visible: {row.read_by}, from {_hms(started) if started else '?'}{f' to {_hms(ended)}' if ended else ''}"


def _hms(moment: dt.datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M:%S}"


def _says(seen: list[Row], facts: Facts) -> str:
    told = [
        f"{row.title} could be seen by {row.read_by} for {duration(row.exposure.seconds(facts.now))}"
        + (f", until {_hms(row.exposure.ended)}" if row.exposure.ended else ", and still can")
        + (f"; they were told after {duration(row.told_after)}" if row.told_after else "")
        for row in seen[:MOST_LANES]
    ]
    rest = "No person could see anything of this run." if not seen else "Everything else is read by machines only, or was not sent."
    return " ".join(f"{sentence(text)}" for text in [*told, rest])
