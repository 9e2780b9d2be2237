"""How quickly people decide, and how much one person decides in an hour: many small requests are clicked away unread."""

from __future__ import annotations

import dataclasses
import datetime as dt

from django.db import connection

from outbox.models import ItemQuerySet

DAYS = 30
QUERY = """
WITH own AS (
  SELECT d.by_id, d.at, d.at - i.awaiting_since AS took
  FROM outbox_decision d JOIN ({items}) i ON i.id = d.item_id
  WHERE d.by_id IS NOT NULL AND d.at > now() - make_interval(days => %s) AND d.at >= i.awaiting_since
)
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY took),
       (SELECT max(number) FROM (SELECT count(*) AS number FROM own GROUP BY by_id, date_trunc('hour', at)) AS hours)
FROM own
"""


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of the last 30 days: decisions, the median time from asking to deciding, and the most by one person in an hour."""

    decisions: int
    median: dt.timedelta | None
    busiest_hour: int

    @property
    def days(self) -> int:
        return DAYS


def of_items(items: ItemQuerySet) -> Figures:
    """The figures over these items, which are those that the reader may see."""
    sql, values = items.order_by().values("id", "awaiting_since").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(QUERY.format(items=sql), [*values, DAYS])
        count, median, busiest = cursor.fetchone()
    return Figures(count, median, busiest or 0)
