"""What can be made to go wrong with a call, and for which.

A fault is JSON: `system`, `method`, `path` (a prefix) say which calls it is for; `times` how often (1; 0: always). Then:
`delay_before` and `delay_after` the effect, in seconds; `effect` false: answered as if done, and nothing was (a lie);
`answer`: `drop` (the connection is closed unanswered), `cut` (closed in the middle of the answer) or `hang` (held open,
unanswered, for `hang_for` seconds); `status`, `headers` and `data` of another answer than the real one.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from sagaboard.demo.world.store import JSON, Store
from sagaboard.demo.world.web import Reply, Request

ANSWERS = ("real", "drop", "cut", "hang")


@dataclasses.dataclass(frozen=True)
class Fault:
    system: str = ""
    method: str = ""
    path: str = ""
    times: int = 1
    delay_before: float = 0.0
    delay_after: float = 0.0
    effect: bool = True
    answer: str = "real"
    hang_for: float = 60.0
    status: int = 0
    headers: JSON = dataclasses.field(default_factory=dict)
    data: Any = None

    def fits(self, request: Request) -> bool:
        return self.system in ("", request.system) and self.method in ("", request.method) and request.path.startswith(self.path)

    def reply(self, real: Reply) -> Reply:
        """What is answered instead of `real`."""
        if not self.status:
            return real
        data = self.data if self.data is not None else {"message": f"{self.status}, by a fault of the demo world"}
        return Reply(self.status, data, headers={**real.headers, **self.headers})


NONE = Fault()


def add(store: Store, body: JSON) -> int:
    """The number of a new fault; ValueError or TypeError if `body` is none."""
    fault = Fault(**body)
    if fault.answer not in ANSWERS:
        raise ValueError(f"answer is one of {', '.join(ANSWERS)}")
    return store.add_fault(body, fault.times or None)


def take(store: Store, request: Request) -> Fault:
    """The first fault that is for `request`, used up once; `NONE` if there is none."""
    for number, body in store.faults():
        fault = Fault(**body)
        if fault.fits(request) and store.use_fault(number):
            return fault
    return NONE


def wait(seconds: float) -> None:
    if seconds:
        time.sleep(seconds)
