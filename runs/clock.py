"""The database's clock. Every lease, deadline and stamp is decided by it, never by a worker's."""

from __future__ import annotations

from django.db.models import DateTimeField, Func


class Clock(Func):
    """The time now, also within a long transaction."""

    function = "clock_timestamp"
    template = "%(function)s()"
    output_field = DateTimeField()
