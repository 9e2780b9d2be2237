"""Branches on a real git server: made once, known again, deleted only while they are ours."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runs.connectors import git_remote, programs
from runs.connectors.git import CreateBranch, fit
from runs.connectors.git_remote import Remote, Trouble
from runs.exceptions import NoEffect, Unreadable
from sagaboard.demo import billing_repo
from tests.runs.connectors.gitfixtures import TOKEN, branch_call, closed_port, done, over_http, prepared, server

__all__ = ["over_http", "server"]
capability = CreateBranch()
REF = "refs/heads/feature/x"


def before_it(monkeypatch, method, happens):
    """`happens` takes place right before the remote's `method` talks to the server: after all looking, before all doing."""
    original = getattr(Remote, method)

    def late(self, *args, **kwargs):
        happens()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Remote, method, late)


# Making and taking back.


def test_a_branch_is_made_at_the_tip_of_its_base_and_taken_back_without_a_trace(server):
    before = server.refs()
    call = done(branch_call())
    assert server.refs() == {**before, "feature/x": before["main"], call.effect["marker"]: before["main"]}
    assert capability.verify_done(call) and not capability.verify_undone(call)
    capability.undo(call)
    assert server.refs() == before
    assert capability.verify_undone(call) and not capability.verify_done(call)


def test_the_whole_way_by_http(server, over_http):
    before = server.refs()
    call = done(branch_call())
    assert server.refs()["feature/x"] == before["main"]
    assert capability.probe(call) == call.effect
    capability.undo(call)
    assert server.refs() == before and capability.verify_undone(call)


def test_the_base_may_have_moved_on_since_it_was_prepared(server):
    call = prepared(branch_call())
    server.push("main")
    assert capability.do(call)["sha"] == call.prepared["sha"] == server.refs()["feature/x"]


def test_a_base_that_was_rewritten_since_is_refused(server):
    call = prepared(branch_call(base="docs/rounding"))
    server.set("refs/heads/docs/rounding", server.refs()["main"])
    billing_repo.git(server.path, "-c", "gc.pruneExpire=now", "gc", "--quiet")
    with pytest.raises(NoEffect, match="rewritten"):
        capability.do(call)


def test_a_branch_that_exists_is_refused_and_its_commit_named(server):
    sha = server.push("feature/x")
    call = prepared(branch_call())
    assert call.prepared["existing"] == sha
    with pytest.raises(NoEffect, match=sha):
        capability.do(call)
    assert capability.probe(call) is None


def test_a_base_that_does_not_exist_is_refused(server):
    with pytest.raises(NoEffect, match="no branch “trunk”"):
        prepared(branch_call(base="trunk"))


def test_asked_twice_there_is_one_branch_with_one_effect(server):
    call = done(branch_call())
    refs = server.refs()
    assert capability.do(call) == call.effect
    assert server.refs() == refs


def test_two_runs_with_the_same_plan_have_different_markers(server):
    assert prepared(branch_call()).prepared["marker"] != prepared(branch_call()).prepared["marker"]


def test_an_undo_may_be_repeated(server):
    call = done(branch_call())
    capability.undo(call)
    capability.undo(call)
    assert capability.verify_undone(call)


# What gets lost on the way.


def test_a_branch_whose_answer_was_lost_is_found_by_its_marker(server):
    server.hook("post-receive", "sleep 30")
    call = prepared(branch_call(timeout=2.0))
    with pytest.raises(Trouble) as lost:
        capability.do(call)
    assert not lost.value.nothing_happened
    assert capability.probe(call)["sha"] == server.refs()["feature/x"]


def test_a_push_that_was_cut_off_does_not_land_later(server):
    before = server.refs()
    server.hook("pre-receive", "sleep 3")
    call = prepared(branch_call(timeout=1.5))
    with pytest.raises(Trouble):
        capability.do(call)
    time.sleep(2.5)
    assert server.refs() == before
    assert capability.probe(call) is None


def test_the_push_of_a_killed_worker_does_not_land_later(server, tmp_path):
    before = server.refs()
    server.hook("pre-receive", f"touch {tmp_path}/pushing; sleep 2")
    worker = subprocess.Popen([sys.executable, "-c", WORKER.format(url=server.path)], cwd=Path(__file__).parents[3])
    while not (tmp_path / "pushing").exists():
        assert worker.poll() is None
        time.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    time.sleep(2.5)
    assert server.refs() == before


WORKER = """
from django.conf import settings
settings.SAGABOARD_TARGETS = {{"repo": {{"system": "git", "url": "{url}"}}}}
from tests.runs.connectors.gitfixtures import branch_call, done
done(branch_call(timeout=30))
"""


def test_without_prepare_nothing_can_have_happened(server):
    server.push("feature/x")
    assert capability.probe(branch_call()) is None


# Already gone.


def test_eng_14_a_branch_removed_by_hand_counts_as_undone(server):
    call = done(branch_call())
    server.delete(REF)
    assert capability.verify_undone(call)
    assert "now: gone" in capability.drift(call)


def test_eng_14_only_exactly_that_ref_counts(server):
    call = done(branch_call())
    server.set("refs/other/refs/heads/feature/x", call.effect["sha"])
    server.set("refs/heads/feature/x-2", call.effect["sha"])
    assert not capability.verify_undone(call)
    server.delete(REF)
    assert capability.verify_undone(call)


def test_eng_14_no_answer_and_a_refusal_are_not_gone(server, over_http, settings):
    call = done(branch_call())
    server.delete(REF)
    over_http.expected = "Basic changed"
    with pytest.raises(Unreadable, match="refused the credential"):
        capability.verify_undone(call)
    with closed_port() as port:
        settings.SAGABOARD_TARGETS["repo"]["url"] = f"http://127.0.0.1:{port}/billing.git"
        with pytest.raises(Unreadable, match="Nothing answers"):
            capability.verify_undone(replace(call, prepared={**call.prepared, "repository": settings.SAGABOARD_TARGETS["repo"]["url"]}))


def test_eng_14_another_or_an_empty_repository_is_not_gone(server, settings, tmp_path):
    call = done(branch_call())
    for ref in server.refs():
        server.delete(ref if ref.startswith("refs/") else f"refs/heads/{ref}")
    with pytest.raises(Unreadable, match="is it the same repository"):
        capability.verify_undone(call)
    billing_repo.make(tmp_path / "other.git")
    settings.SAGABOARD_TARGETS["repo"]["url"] = f"file://{tmp_path}/other.git"
    with pytest.raises(Unreadable, match=r"is now file://.*other\.git"):
        capability.verify_undone(call)


def test_eng_14_a_target_that_is_configured_no_more_is_not_gone(server, settings):
    call = done(branch_call())
    settings.SAGABOARD_TARGETS = {}
    with pytest.raises(Unreadable, match="No git target"):
        capability.verify_undone(call)


# Somebody else's work.


def test_eng_15_commits_of_a_colleague_stop_the_undo_and_are_named(server):
    call = done(branch_call())
    server.push("feature/x", "Round half up", "Jonas Weber")
    sha = server.push("feature/x", "Name the mode", "Priya Raman")
    refs = server.refs()
    with pytest.raises(NoEffect, match=f"Nothing was deleted.*{sha}"):
        capability.undo(call)
    assert server.refs() == refs
    assert not capability.verify_done(call)
    words = capability.drift(call)
    assert "by Jonas Weber: Round half up" in words and "by Priya Raman: Name the mode" in words
    assert words.startswith("before: no branch “feature/x”; ours: at ")


def test_eng_15_a_push_between_look_and_delete_survives(server, monkeypatch):
    call = done(branch_call())
    before_it(monkeypatch, "delete", partial(server.push, "feature/x"))
    with pytest.raises(NoEffect, match="refused"):
        capability.undo(call)
    assert server.refs()["feature/x"] != call.effect["sha"]
    assert call.effect["marker"] in server.refs()


def test_eng_15_a_push_while_the_server_handles_the_delete_survives(server):
    call = done(branch_call())
    theirs = billing_repo.add(server.path, billing_repo.Commit("elsewhere", "Mei Tanaka", "Wait", {"a": "b"}))
    server.hook("pre-receive", f"git update-ref {REF} {theirs}")
    with pytest.raises(NoEffect, match="refused"):
        capability.undo(call)
    assert server.refs()["feature/x"] == theirs
    assert call.effect["marker"] in server.refs()


def test_eng_15_an_author_cannot_break_out_of_the_line(server):
    call = done(branch_call())
    server.push("feature/x", "Nice\u202e <b>\x1b[31m", "Mei\u200bTanaka")
    assert not {"\u202e", "\x1b", "\u200b", "\n"} & set(capability.drift(call))


def test_eng_18_a_stranger_with_the_same_name_and_commit_is_not_adopted(server):
    call = prepared(branch_call())
    server.set(REF, call.prepared["sha"])  # Our own call never reached the server.
    assert capability.probe(call) is None
    with pytest.raises(NoEffect, match="exists already"):
        capability.do(call)


def test_eng_18_a_stranger_who_comes_between_look_and_push_is_not_adopted(server, monkeypatch):
    call = prepared(branch_call())
    server.hook("post-receive", "cat > pushed")
    before_it(monkeypatch, "create", partial(server.set, REF, call.prepared["sha"]))
    with pytest.raises(NoEffect, match="somebody else’s"):
        capability.do(call)
    # Not for a moment was there a marker, by which a probe would have taken the branch for ours.
    assert not (server.path / "pushed").exists()
    assert capability.probe(call) is None


def test_eng_18_nor_where_the_scratch_folder_runs_no_programs(server, monkeypatch):
    monkeypatch.setattr(git_remote, "PRE_PUSH", "#!/bin/sh\nexit 0\n")
    call = prepared(branch_call())
    before_it(monkeypatch, "create", partial(server.set, REF, call.prepared["sha"]))
    with pytest.raises(NoEffect, match="somebody else’s"):
        capability.do(call)
    assert capability.probe(call) is None


def test_eng_18_a_stranger_who_comes_while_the_server_handles_the_push_is_not_adopted(server):
    call = prepared(branch_call())
    server.hook("pre-receive", f"git update-ref {REF} {call.prepared['sha']}")
    with pytest.raises(NoEffect, match="refused"):
        capability.do(call)
    assert capability.probe(call) is None


def test_eng_18_without_markers_a_branch_that_may_be_ours_is_for_a_person(server, settings):
    settings.SAGABOARD_TARGETS["repo"]["marker"] = False
    call = prepared(branch_call())
    assert capability.probe(call) is None
    server.set(REF, call.prepared["sha"])
    for ask in (capability.probe, capability.do):
        with pytest.raises(Unreadable, match="can’t be told"):
            ask(call)


# Servers that refuse.


def test_without_markers_the_way_there_and_back_is_the_same(server, settings):
    settings.SAGABOARD_TARGETS["repo"]["marker"] = False
    before = server.refs()
    call = done(branch_call())
    assert server.refs() == {**before, "feature/x": before["main"]}
    capability.undo(call)
    assert server.refs() == before


def test_a_server_that_takes_no_markers_gets_no_branch_either(server):
    before = server.refs()
    server.hook("update", 'case "$1" in refs/sagaboard/*) exit 1;; esac')
    with pytest.raises(NoEffect, match="hook declined"):
        done(branch_call())
    assert server.refs() == before


def test_a_server_without_atomic_pushes_says_which_option_helps(server):
    server.config("receive.advertiseAtomic", "false")
    with pytest.raises(NoEffect, match="set marker to false on “repo”"):
        done(branch_call())


def test_a_server_that_forbids_deleting_leaves_the_branch(server):
    call = done(branch_call())
    server.config("receive.denyDeletes", "true")
    with pytest.raises(NoEffect, match="deletion prohibited"):
        capability.undo(call)
    assert not capability.verify_undone(call) and capability.verify_done(call)


def test_a_wrong_credential_is_a_sentence_without_the_credential(over_http, settings):
    settings.SAGABOARD_TARGETS["repo"]["token"] = "wrong-and-secret"
    with pytest.raises(NoEffect, match="refused the credential of “repo”") as refusal:
        prepared(branch_call())
    assert "wrong-and-secret" not in str(refusal.value)


def test_a_credential_that_may_only_read_changes_nothing_and_says_so(server, over_http):
    before = server.refs()
    over_http.read_only = True
    with pytest.raises(NoEffect, match="refused the credential"):
        done(branch_call())
    assert server.refs() == before


def test_no_command_line_and_no_prepared_value_holds_the_credential(server, over_http, settings, monkeypatch):
    lines, original = [], subprocess.Popen
    monkeypatch.setattr(programs.subprocess, "Popen", lambda argv, **kw: lines.append(argv) or original(argv, **kw))
    settings.SAGABOARD_TARGETS["repo"] = {"system": "git", "url": over_http.url.replace("//", f"//sagaboard:{TOKEN}@")}
    call = done(branch_call())
    assert lines and TOKEN not in f"{lines} {call}"


def test_a_redirect_is_not_followed(over_http, settings):
    settings.SAGABOARD_TARGETS["repo"]["url"] = over_http.url.replace("/billing.git", "/moved/billing.git")
    with pytest.raises(NoEffect, match="redirect"):
        prepared(branch_call())
    assert len(over_http.requests) == 1


def test_a_dead_host_is_a_sentence_and_nothing_happened(server, settings):
    call = prepared(branch_call())
    with closed_port() as port:
        settings.SAGABOARD_TARGETS["repo"]["url"] = f"http://127.0.0.1:{port}/billing.git"
        with pytest.raises(NoEffect, match="Nothing answers at http://127"):
            capability.do(call)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///nowhere/billing.git", "no git repository at"),
        ("ext::sh -c 'touch /tmp/pwned'", "url that git may not use"),
        ("git://127.0.0.1/billing.git", "url that git may not use"),
        ("http://git.acme.example/billing.git", "url that git may not use"),
        ("--upload-pack=touch /tmp/pwned", "url that git may not use"),
        ("ssh://-oProxyCommand=touch@h/x", "refused|did not do it|No host"),
    ],
)
def test_an_address_that_cannot_work_is_refused_in_words(server, settings, url, words):
    settings.SAGABOARD_TARGETS["repo"]["url"] = url
    with pytest.raises(NoEffect, match=words):
        prepared(branch_call())


def test_the_workers_own_git_settings_do_not_count(server, monkeypatch, tmp_path):
    (tmp_path / ".gitconfig").write_text(f'[url "file:///nowhere"]\n\tinsteadOf = file://{server.path.parent}\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert done(branch_call()).effect["branch"] == "feature/x"


# Names.


@pytest.mark.parametrize(
    "name", ["-x", "--exec=x", "a..b", "a b", "a:b", "refs/heads/a", "HEAD", "@", "a.lock", "a/.b", "a\n", "", "x" * 201]
)
def test_a_name_that_git_or_a_shell_could_misread_is_refused(name):
    with pytest.raises(pydantic.ValidationError):
        CreateBranch.Args(branch=name)


@given(st.text(st.sampled_from("ab/.-@{}~^:?*[\\ \t\x7fé"), min_size=1, max_size=12))
@example("a@{b")
@example("feature/é.lock/x")
def test_every_name_that_fits_is_one_that_git_takes(name):
    try:
        fit(name)
    except ValueError:
        return
    done = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, name)


def test_two_calls_for_one_branch_touch_the_same_thing():
    assert capability.touches(branch_call().args) == capability.touches(branch_call(base="release/0141").args)
    assert capability.touches(branch_call().args) != capability.touches(branch_call("feature/y").args)


def test_tidying_takes_the_marker_and_leaves_the_branch(server):
    call = done(branch_call())
    capability.tidy(call)
    capability.tidy(call)
    assert capability.verify_done(call)
    assert capability.probe(call) is None
    capability.undo(call)
    assert capability.verify_undone(call)


def test_a_person_may_undo_over_commits_that_were_pushed_since(server):
    call = done(branch_call())
    server.push("feature/x")
    with pytest.raises(NoEffect, match="moved on"):
        capability.undo(call)
    capability.undo(replace(call, over=True))
    assert capability.verify_undone(call)
