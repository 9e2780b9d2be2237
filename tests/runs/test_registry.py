"""The registry: found in code, governed by people, and loud about what is missing."""

import importlib

import pytest
from django.core.management import CommandError, call_command

from runs import registry
from runs.exceptions import Invalid
from runs.models import CapabilityRecord
from runs.services.drilling import drill
from runs.states import Audience, Kind
from tests.factories import make_team, make_user
from tests.tools import PutThing, ShowThing, Thing, world

pytestmark = pytest.mark.django_db(transaction=True)


def row(name):
    return CapabilityRecord.objects.get(name=name)


def effective(cls, **fields):
    record = row(cls.name)
    for field, value in fields.items():
        setattr(record, field, value)
    return registry.effective(cls(), record, Thing(name="x"))


def test_every_class_has_its_row_with_schema_and_description():
    record = row("put_thing")
    assert record.description == "Put a thing into the world."
    assert record.schema["properties"]["name"]["type"] == "string"


def test_what_people_govern_survives_a_sync():
    owner = make_user()
    CapabilityRecord.objects.filter(name="put_thing").update(owner=owner, stricter_kind=Kind.IRREVERSIBLE, description="old")
    assert "put_thing" in registry.sync()
    record = row("put_thing")
    assert (record.owner, record.stricter_kind, record.description) == (owner, Kind.IRREVERSIBLE, "Put a thing into the world.")


def test_a_row_makes_a_kind_stricter_and_never_looser():
    assert effective(PutThing).kind == Kind.REVERSIBLE
    assert effective(PutThing, stricter_kind=Kind.IRREVERSIBLE).kind == Kind.IRREVERSIBLE
    assert effective(ShowThing, stricter_kind=Kind.REVERSIBLE, proven_version=row("show_thing").version).kind == Kind.COMPENSATABLE


def test_an_unproven_or_older_proof_counts_as_irreversible():
    assert effective(ShowThing).why == "its undo was never proven"
    assert effective(ShowThing, proven_version="older").why == "its proof is older than its code"
    assert effective(ShowThing).kind == Kind.IRREVERSIBLE


def test_the_arguments_may_raise_kind_and_audience(monkeypatch):
    from runs.capability import Reading

    monkeypatch.setattr(PutThing, "classify", lambda self, args: Reading(Kind.IRREVERSIBLE, Audience.CLIENTS, "everybody"))
    how = effective(PutThing)
    assert (how.kind, how.audience, how.read_by) == (Kind.IRREVERSIBLE, Audience.CLIENTS, "everybody")


def test_code_that_is_gone_is_marked_and_comes_back(settings):
    settings.SAGABOARD_CAPABILITIES = ["tests.tools"]
    registry.forget()
    try:
        registry.sync()
        assert row("create_branch").missing_since
    finally:
        settings.SAGABOARD_CAPABILITIES = [*settings.SAGABOARD_CAPABILITIES, "runs.connectors.git"]
        registry.forget()
    registry.sync()
    assert row("create_branch").missing_since is None
    registry.forget()


def test_the_version_changes_with_the_source():
    class Other(PutThing):
        name = ""
        connector_version = "2"

    assert PutThing.version() == PutThing.version()
    assert Other.version() != PutThing.version()


def test_the_version_names_the_code_that_runs_not_a_file_edited_since(tmp_path, monkeypatch):
    file = tmp_path / "edited_since.py"
    file.write_text("from tests.tools import PutThing\n\n\nclass Edited(PutThing):\n    connector_version = '1'\n")
    monkeypatch.syspath_prepend(tmp_path)
    edited = importlib.import_module("edited_since").Edited
    as_imported = edited.version()
    file.write_text(file.read_text() + "    lives_in = 'somewhere else'\n")
    assert edited.version() == as_imported


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"verify_undone": "base"}, "W02"),
        ({"undo": "base"}, "W03"),
        ({"probe": "base"}, "W04"),
        ({"verify_done": "base"}, "W05"),
        ({"kind": Kind.IRREVERSIBLE}, "W06"),
        ({"audience": Audience.PEOPLE}, "W07"),
        ({"leaves_effect": False}, "W01"),
    ],
)
def test_lint_says_what_is_missing(changes, code):
    from runs.capability import Capability

    fields = {name: getattr(Capability, name) if value == "base" else value for name, value in changes.items()}
    cls = type("Lacking", (PutThing,), {"name": "", **fields})
    assert code in [found for found, _ in registry._lint_class(cls)]


def test_the_connectors_have_nothing_that_lint_complains_of():
    reviewed = ("create_branch", "run_migration", "set_flag", "transition_ticket")
    ours = [finding for finding in registry.lint_code() if finding.capability in reviewed]
    assert ours == []


def test_strict_lint_fails_while_a_drill_is_missing(capsys):
    with pytest.raises(CommandError):
        call_command("lint_registry", "--strict")
    assert "W11 show_thing: its undo was never proven" in capsys.readouterr().out


def test_a_drill_does_undoes_and_proves_this_version():
    team = make_team()
    drilled = drill("show_thing", {"name": "rehearsal"}, by=make_user(team=team), team=team)
    assert (drilled.proven, drilled.run.state) == (True, "compensated")
    assert world.calls("do") == world.calls("undo") == ["rehearsal"]
    assert row("show_thing").is_proven
    assert not drilled.run.corrections.exists()


def test_a_drill_whose_undo_does_nothing_proves_nothing():
    team = make_team()
    world.after["undo"] = lambda call: world.things.update({"rehearsal": {"value": "on", "key": call.key}})
    drilled = drill("show_thing", {"name": "rehearsal"}, by=make_user(team=team), team=team)
    assert not drilled.proven
    assert not row("show_thing").is_proven


def test_a_drill_wants_a_sandbox(settings):
    settings.SAGABOARD_TARGETS = {"production": {"system": "shelf"}}
    team = make_team()
    with pytest.raises(Invalid, match="not a sandbox"):
        drill("show_thing", {"name": "production"}, by=make_user(team=team), team=team)
    assert world.ledger == []


def test_a_drill_wants_a_sandbox_also_where_the_target_is_a_default(settings, monkeypatch):
    class Aimed(Thing):
        target: str = "production"
        more: dict[str, list[str]] = {}

    monkeypatch.setattr(ShowThing, "Args", Aimed)
    settings.SAGABOARD_TARGETS = {"production": {"system": "shelf"}, "sandbox": {"system": "shelf", "sandbox": True}}
    team = make_team()
    by = make_user(team=team)
    for args in ({}, {"target": "sandbox", "more": {"copies": ["production"]}}):
        with pytest.raises(Invalid, match="“production” is not a sandbox"):
            drill("show_thing", {"name": "x", **args}, by=by, team=team)
    assert world.ledger == []
    assert drill("show_thing", {"name": "x", "target": "sandbox"}, by=by, team=team).proven


def test_the_drill_command_names_who_answers_for_it(capsys):
    team = make_team()
    make_user("sam", team=team)
    call_command("drill", "put_thing", "--args", '{"name": "x"}', "--by", "sam")
    assert "do, undo and verify_undone worked" in capsys.readouterr().out
    with pytest.raises(CommandError, match="no active person"):
        call_command("drill", "put_thing", "--by", "nobody")
