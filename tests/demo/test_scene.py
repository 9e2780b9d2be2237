"""The demo's scene: real systems, made and reset, against which the production connectors go there and back."""

import secrets
from dataclasses import replace

import pytest

from runs.capability import Call
from runs.connectors.ci import RunCI
from runs.connectors.git import CreateBranch
from runs.connectors.migration import RunMigration
from runs.exceptions import NoEffect
from sagaboard.demo import scene as scenes
from tests.runs.connectors.pgfixtures import cluster_url, connected

__all__ = ["cluster_url"]


@pytest.fixture(scope="module")
def built(cluster_url, tmp_path_factory):
    scene = scenes.build(tmp_path_factory.mktemp("scene"), cluster_url, prefix=f"t_{secrets.token_hex(4)}_")
    yield scene
    scene.drop()


@pytest.fixture
def scene(built, settings):
    built.reset()
    settings.SAGABOARD_TARGETS = built.targets()
    return built


def call(capability, **args):
    return Call(args=capability.Args(**args), key="k", timeout=20.0)


def done(capability, **args):
    made = call(capability, **args)
    made = replace(made, prepared=capability().prepare(made))
    return replace(made, effect=capability().do(made))


def test_the_storys_first_two_steps_go_there_and_back(scene):
    before = scene.reading()
    branch, migration = done(CreateBranch, branch=scenes.BRANCH), done(RunMigration, revision="0142_invoice_billing_field")
    worst = scene.reading()
    assert worst["git"][scenes.BRANCH] == before["git"]["main"]
    assert worst["staging"]["revision"] == "0142_invoice_billing_field"
    assert worst["staging"]["hash"] != before["staging"]["hash"]
    RunMigration().undo(migration)
    CreateBranch().undo(branch)
    assert scene.reading() == before


def test_the_sandboxes_are_apart(scene):
    before = scene.reading()
    done(CreateBranch, branch="drill", repo="repo-sandbox")
    done(RunMigration, revision="head", database="staging-sandbox")
    assert scene.reading() == before
    assert [name for name, target in scene.targets().items() if target.get("sandbox")] == ["repo-sandbox", "staging-sandbox"]


def test_reset_makes_everything_as_it_was_whatever_happened(scene):
    before = scene.reading()
    done(CreateBranch, branch=scenes.BRANCH)
    done(RunMigration, revision="head")
    scene.push("main")
    scene.delete("docs/rounding")
    with scene.staging() as connection:
        connection.exec_driver_sql("DROP TABLE invoice_lines CASCADE")
    assert scene.reading() != before
    scene.reset()
    assert scene.reading() == before


def test_building_again_leaves_what_is_there(scene, cluster_url):
    done(CreateBranch, branch=scenes.BRANCH)
    before = scene.reading()
    again = scenes.build(scene.folder.parent, cluster_url, prefix=scene.prefix)
    assert again == scene and again.reading() == before


def test_a_database_that_the_demo_did_not_make_is_never_touched(cluster_url, tmp_path):
    prefix = f"t_{secrets.token_hex(4)}_"
    with connected(cluster_url, isolation_level="AUTOCOMMIT") as owner:
        owner.exec_driver_sql(f"CREATE DATABASE {prefix}staging TEMPLATE template0")
        for step in (lambda: scenes.build(tmp_path, cluster_url, prefix=prefix), scenes.Scene(tmp_path, cluster_url, prefix).reset):
            with pytest.raises(RuntimeError, match="did not make"):
                step()
        owner.exec_driver_sql(f"DROP DATABASE {prefix}staging")


def test_somebody_else_may_push_to_a_branch_and_is_named(scene):
    branch = done(CreateBranch, branch=scenes.BRANCH)
    sha = scene.push(scenes.BRANCH, author="Priya Raman", subject="Start the panel")
    assert scene.reading()["git"][scenes.BRANCH] == sha
    assert "by Priya Raman: Start the panel" in CreateBranch().drift(branch)


def test_the_pipeline_tests_the_branch_as_it_is(scene):
    done(CreateBranch, branch=scenes.BRANCH)
    assert RunCI().do(call(RunCI, ref=scenes.BRANCH))["result"] == "green"
    with pytest.raises(NoEffect, match="no feature/other"):
        RunCI().do(call(RunCI, ref="feature/other"))


@pytest.mark.parametrize(("mood", "words"), [("red", "0.16.*0.19"), ("die", "137")])
def test_the_pipeline_can_be_made_to_go_wrong(scene, mood, words):
    scene.pipeline(mood)
    with pytest.raises(NoEffect, match=words):
        RunCI().do(call(RunCI, ref="main"))


def test_the_pipeline_can_be_made_to_hang(scene):
    scene.pipeline("hang")
    with pytest.raises(NoEffect, match="took longer"):
        RunCI().do(replace(call(RunCI, ref="main"), timeout=2.0))


def test_a_mood_that_does_not_exist_is_refused(scene):
    with pytest.raises(ValueError, match="green, red, hang, die"):
        scene.pipeline("blue")
