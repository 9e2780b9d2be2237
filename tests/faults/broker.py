"""Stands in for the broker within one process: keeps what was rung, and hands it out as often as a test says."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection
from django.utils.module_loading import import_string

Message = tuple[str, tuple[int, ...]]


class Broker:
    def __init__(self, monkeypatch: Any) -> None:
        from runs import bell

        self.waiting: deque[Message] = deque()
        # How often each message that is rung from now on arrives.
        self.copies = 1
        self.busy = 0
        self.lock = threading.Lock()
        self.raised: list[BaseException] = []
        monkeypatch.setattr(bell, "_send", lambda task, ids, queue=None: self.waiting.extend([(task, ids)] * self.copies))

    def deliver(self, *, workers: int = 1) -> None:
        """Until nothing is left, also of what is rung meanwhile; what a worker raised is in `raised`."""
        if workers == 1:
            while self.waiting:
                self._handle(self.waiting.popleft())
            return
        with ThreadPoolExecutor(workers) as pool:
            for _ in range(workers):
                pool.submit(self.work)

    def work(self) -> None:
        """One worker, on a connection of its own."""
        try:
            while message := self._next():
                self._handle(message)
                with self.lock:
                    self.busy -= 1
        finally:
            connection.close()

    def _next(self) -> Message | None:
        while True:
            with self.lock:
                if self.waiting:
                    self.busy += 1
                    return self.waiting.popleft()
                if not self.busy:
                    return None
            threading.Event().wait(0.002)

    def _handle(self, message: Message) -> None:
        task, ids = message
        try:
            import_string(task)(*ids)
        except Exception as exc:
            self.raised.append(exc)
