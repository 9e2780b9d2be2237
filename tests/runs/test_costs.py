"""What a step costs in commits and round trips, which no machine's speed changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs import freezing, services
from runs.engine import compensate, invoke
from runs.models import Step
from tests.factories import make_run
from tests.helpers import commits

pytestmark = pytest.mark.django_db(transaction=True)


def plan(capability: str) -> list[dict[str, Any]]:
    return [{"ref": name, "capability": capability, "args": {"name": name}} for name in ("one", "two", "three")]


@pytest.mark.parametrize(("capability", "commits_of_do", "most"), [("read_thing", 2, (6, 10)), ("put_thing", 3, (6, 16))])
def test_a_step_is_three_commits_or_four_with_prepare(token, capability, commits_of_do, most):
    run = make_run(token=token, plan=plan(capability))
    with CaptureQueriesContext(connection) as asked:
        for call in plan(capability):
            services.request_step(run, token=token, **call)
    steps = list(Step.objects.filter(run=run).as_planned())
    freezing.is_frozen()  # a new connection asks once whose history it sees
    with CaptureQueriesContext(connection) as done:
        for step in steps:
            invoke.invoke(run.pk, step.pk)
    assert [commits(asked), commits(done)] == [3, 3 * commits_of_do]
    assert len(asked) / 3 <= most[0]
    assert len(done) / 3 <= most[1]


def test_an_undo_is_two_commits(token):
    run = make_run(token=token, plan=plan("put_thing"))
    for call in plan("put_thing"):
        step = services.request_step(run, token=token, **call).step
        invoke.invoke(run.pk, step.pk)
    services.fail_run(run, token=token, reason="CI died")
    services.compensate_run(run, actor="person:Alice")
    with CaptureQueriesContext(connection) as undone:
        compensate.compensate(run.pk)
    run.refresh_from_db()
    assert run.state == "compensated"
    # Besides the undos: the claim of the walk, and its end.
    assert commits(undone) == 2 * 3 + 2
    assert len(undone) / 3 <= 19
