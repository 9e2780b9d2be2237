"""The words for where things stand, their named sets, and the moves that are allowed. No logic, so anything may import it."""

from django.db import models


class Kind(models.TextChoices):
    """How far a call can be taken back; later members are stricter."""

    REVERSIBLE = "reversible", "reversible"
    COMPENSATABLE = "compensatable", "compensatable"
    IRREVERSIBLE = "irreversible", "irreversible"


class Audience(models.TextChoices):
    """Who reads an effect; later members reach further."""

    MACHINES = "machines", "machines"
    PEOPLE = "people", "people"
    CLIENTS = "clients", "clients"


KIND_ORDER = list(Kind)
AUDIENCE_ORDER = list(Audience)


class StepState(models.TextChoices):
    PLANNED = "planned", "Planned"
    SKIPPED = "skipped", "Skipped"
    REQUESTED = "requested", "Requested"
    ON_HOLD = "on_hold", "On hold"
    QUEUED = "queued", "Held"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    SENT = "sent", "Sent"
    NOTHING_TO_UNDO = "nothing_to_undo", "Nothing to undo"
    FAILED = "failed", "Failed"
    UNKNOWN = "unknown", "Unknown"
    CLOSED = "closed", "Closed"
    UNDOING = "undoing", "Undoing"
    UNDONE = "undone", "Undone"
    UNDO_FAILED = "undo_failed", "Stuck"
    DRIFTED = "drifted", "Drifted"
    SETTLED = "settled", "Settled"
    LEFT_STANDING = "left_standing", "Left standing"


S = StepState
STEP_MOVES: dict[str, frozenset[str]] = {
    S.PLANNED: frozenset({S.REQUESTED, S.QUEUED, S.ON_HOLD, S.SKIPPED}),
    S.SKIPPED: frozenset(),
    S.REQUESTED: frozenset({S.RUNNING, S.CLOSED}),
    S.ON_HOLD: frozenset({S.REQUESTED, S.QUEUED, S.CLOSED}),
    S.QUEUED: frozenset({S.RUNNING, S.CLOSED}),
    S.RUNNING: frozenset({S.DONE, S.SENT, S.NOTHING_TO_UNDO, S.FAILED, S.UNKNOWN, S.REQUESTED, S.QUEUED}),
    # Asked for again under its ref, with corrected arguments; sent after all, says a person.
    S.FAILED: frozenset({S.REQUESTED, S.QUEUED, S.ON_HOLD, S.CLOSED, S.SENT}),
    # Back to where a worker takes it, once it is certain that nothing happened.
    S.UNKNOWN: frozenset({S.REQUESTED, S.QUEUED, S.DONE, S.SENT, S.FAILED, S.NOTHING_TO_UNDO, S.SETTLED, S.LEFT_STANDING}),
    S.DONE: frozenset({S.UNDOING, S.UNDONE, S.DRIFTED, S.UNDO_FAILED, S.LEFT_STANDING, S.SETTLED}),
    S.SENT: frozenset({S.UNDOING, S.UNDONE, S.DRIFTED, S.UNDO_FAILED, S.LEFT_STANDING, S.SETTLED}),
    S.UNDOING: frozenset({S.UNDOING, S.UNDONE, S.UNDO_FAILED, S.DRIFTED, S.SETTLED, S.LEFT_STANDING}),
    S.UNDO_FAILED: frozenset({S.UNDOING, S.UNDONE, S.UNDO_FAILED, S.DRIFTED, S.SETTLED, S.LEFT_STANDING}),
    S.DRIFTED: frozenset({S.UNDOING, S.UNDONE, S.UNDO_FAILED, S.DRIFTED, S.SETTLED, S.LEFT_STANDING}),
    S.LEFT_STANDING: frozenset({S.UNDOING, S.UNDONE, S.UNDO_FAILED, S.DRIFTED}),
    S.NOTHING_TO_UNDO: frozenset(),
    # What a late answer brings is written past this table, by record.late_effect alone.
    S.UNDONE: frozenset(),
    S.SETTLED: frozenset(),
    # A gate that a reviewer sent back is asked for anew.
    S.CLOSED: frozenset({S.QUEUED, S.ON_HOLD}),
}
# Something is, or may be, in the world because of this step.
IN_EFFECT = frozenset({S.RUNNING, S.DONE, S.SENT, S.UNKNOWN, S.UNDOING, S.UNDO_FAILED, S.DRIFTED})
# Asked for and not ended: a worker, a person or the run's release is next.
PENDING = frozenset({S.REQUESTED, S.ON_HOLD, S.QUEUED, S.RUNNING, S.UNKNOWN})
# The walk back still has to deal with it.
TO_UNDO = frozenset({S.RUNNING, S.DONE, S.UNKNOWN, S.UNDOING, S.UNDO_FAILED, S.DRIFTED})
WAITS_FOR_WORKER = frozenset({S.REQUESTED, S.RUNNING, S.UNKNOWN, S.UNDOING})
HAS_ENDED_WELL = frozenset({S.DONE, S.SENT, S.NOTHING_TO_UNDO, S.SKIPPED})


class RunState(models.TextChoices):
    OPEN = "open", "Running"
    CHECKING = "checking", "Checking"
    RELEASING = "releasing", "Releasing"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    COMPENSATING = "compensating", "Compensating"
    COMPENSATED = "compensated", "Compensated"
    STUCK = "stuck", "Stuck"
    LEFT_STANDING = "left_standing", "Left standing"


R = RunState
RUN_MOVES: dict[str, frozenset[str]] = {
    # A step asked for after `finish` sets the checks back: checking -> open.
    R.OPEN: frozenset({R.CHECKING, R.RELEASING, R.SUCCEEDED, R.FAILED}),
    R.CHECKING: frozenset({R.OPEN, R.RELEASING, R.SUCCEEDED, R.FAILED}),
    R.RELEASING: frozenset({R.SUCCEEDED, R.FAILED, R.STUCK}),
    R.FAILED: frozenset({R.COMPENSATING, R.LEFT_STANDING}),
    R.COMPENSATING: frozenset({R.COMPENSATED, R.STUCK, R.FAILED}),
    R.STUCK: frozenset({R.COMPENSATING, R.RELEASING, R.LEFT_STANDING}),
    # Compensating by a person; stuck where a late effect was found.
    R.SUCCEEDED: frozenset({R.COMPENSATING, R.STUCK}),
    R.LEFT_STANDING: frozenset({R.COMPENSATING, R.STUCK}),
    R.COMPENSATED: frozenset({R.COMPENSATING, R.STUCK}),
}
GOING_FORWARD = frozenset({R.OPEN, R.CHECKING, R.RELEASING})
ENDED = frozenset({R.SUCCEEDED, R.COMPENSATED, R.LEFT_STANDING})
UNFINISHED = frozenset(R) - ENDED


class CheckState(models.TextChoices):
    PENDING = "pending", "pending"
    SUCCESS = "success", "success"
    FAILURE = "failure", "failure"


class OffPlan(models.TextChoices):
    """What becomes of a call that the plan does not hold; earlier members are tighter."""

    REFUSE = "refuse", "refuse"
    HOLD = "hold", "hold for a person"
    ALLOW = "allow", "allow"


class OnFailure(models.TextChoices):
    ASK = "ask", "page on-call, who presses Compensate"
    COMPENSATE = "compensate", "undo at once"


class Overlap(models.TextChoices):
    """What becomes of a call that touches what another unfinished run has changed."""

    REFUSE = "refuse", "refuse"
    HOLD = "hold", "hold for a person"
    WARN = "warn", "go on, and say so"
