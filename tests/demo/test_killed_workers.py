"""The story with a worker killed in the middle, once in every step and every undo: the end is the same, and nothing is doubled."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from django.db import connection

from runs import registry
from sagaboard.demo import cast, evidence, play, scene
from tests.factories import prove
from tests.site import Site

pytestmark = pytest.mark.django_db(transaction=True)
BOUNDS = {"SAGABOARD_CALL_TIMEOUT_AT_MOST": "5"}
# Where the effect exists and its record does not: the worst moment.
STEPS_OF_RED = ["create_branch", "run_migration", "set_flag"]
STEPS_OF_GREEN = ["transition_ticket", "post_summary", "notify_partner"]
UNDOS = ["create_branch", "run_migration", "set_flag"]
CASES = [
    *((play.red, evidence.wrong_in_red, f"do.after@{name}") for name in STEPS_OF_RED),
    # A red CI ends in a refusal, so there is no moment after it; it is killed before.
    (play.red, evidence.wrong_in_red, "do.before@run_ci"),
    *((play.green, evidence.wrong_in_green, f"do.after@{name}") for name in STEPS_OF_GREEN),
    *((play.red, evidence.wrong_in_red, f"{point}@{name}") for name in UNDOS for point in ("undo.before", "undo.after")),
    (play.red, evidence.wrong_in_red, "correct.after"),
]


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker):
    folder = Path(tempfile.mkdtemp(prefix="sagaboard-story-"))
    folder.chmod(0o711)
    built = scene.build(folder, connection.owner_url, prefix="killed_")
    site = Site(folder / "site", bounds=BOUNDS, more_targets=built.targets())
    try:
        yield site.start(), built
    finally:
        site.stop()
        built.drop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stage(built, transactional_db, settings):
    site, scene_of_story = built
    settings.SAGABOARD_TARGETS = site.targets
    registry.sync()
    site.disarm()
    prove("run_migration", "set_flag")
    said: list[str] = []
    stage = play.Stage(site.url, site.world, scene_of_story, cast.assemble(), said.append)
    stage.site = site
    return stage


def name_of(value):
    return value if isinstance(value, str) else getattr(value, "__name__", "")


@pytest.mark.parametrize(("story", "wrong", "point"), CASES, ids=name_of)
def test_a_worker_killed_in_the_story_changes_nothing_of_its_end(stage, story, wrong, point):
    stage.site.arm(point)
    document = evidence.of(story(stage))
    assert stage.site.fired() == [point]
    assert list(wrong(document)) == []
    assert document["doubled"] == 0


def test_the_judge_sees_what_went_wrong(stage):
    """Taken out of the story, what must hold is missed: the judge is no formality."""
    document = evidence.of(play.green(stage))
    assert list(evidence.wrong_in_green(document)) == []
    assert list(evidence.wrong_in_red(document))
    document["doubled"] = 1
    assert list(evidence.wrong_in_green(document)) == ["1 effects are doubled"]
