"""The moment from which a correction is sent, by a person or by itself."""

from __future__ import annotations

from corrections import wording
from corrections.models import Correction
from corrections.states import CorrectionState
from runs import bell
from runs.models import Run


def go(run: Run, correction: Correction, *, by: str, actor: str) -> None:
    """From here it is sent, exactly as it reads now."""
    correction.text, correction.sent_by, correction.error, correction.due_at = wording.render_text(correction), by, "", run.now
    correction.goes_at = None
    correction.move(CorrectionState.SENDING, "text", "sent_by", "error", "due_at", "goes_at", "recipient", "address", "in_doubt")
    run.append("correction.edited", actor=actor, correction=correction.pk, sending=True, text=correction.text)
    bell.ring("corrections.tasks.deliver_correction", run.pk, correction.pk)
