"""The only news that travels upward. Sent with `send`, inside the sender's transaction: a receiver that fails undoes it all."""

from django.dispatch import Signal

# `run`: it was opened, with its plan.
run_opened = Signal()
# `run`, `step`: an irreversible call waits; `payload` is what it would send.
step_queued = Signal()
# `run`, `step`: a worker is about to send; a receiver that can't agree raises NotReleasable. Returns the approved payload.
step_sending = Signal()
# `run`, `step`: a queued call left the queue: sent, failed for good, or closed.
step_sent = Signal()
step_closed = Signal()
# `run`, `step`, `how`: an effect people could see is `undone`, found `gone`, `settled`, `left_standing`, or its undo `stuck`.
effect_ended = Signal()
# `run`: every check is green and every step done; what waits may now be decided and sent.
run_released = Signal()
# `run`: it failed; nothing that waits may go out any more.
run_failed = Signal()
# `run`: it reached an end (succeeded, compensated, left standing).
run_ended = Signal()
# The sweep is at work: what the apps above have due.
sweeping = Signal()
