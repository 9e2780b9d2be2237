"""The guards that tests/guards.py takes out, one at a time: where each stands, and which tests have to miss it.

A row is a mutation that brings a named fault back. Where a fault is held off by two guards, one behind the other, a row
takes out the one without which it happens.
"""

from __future__ import annotations

from dataclasses import dataclass

API = "tests/faults/test_api.py::test_api_"
LOST = "tests/faults/test_lost_answers.py::test_eng_"
BACK = "tests/faults/test_walk_back.py::test_eng_"
GIT = "tests/runs/connectors/test_git.py::test_eng_"
JIRA = "tests/runs/connectors/test_jira.py::test_"
MIGRATION = "tests/runs/connectors/test_migration.py::test_eng_"
MAIL = "tests/runs/connectors/test_mail.py::test_out_"
PAIRS = "tests/runs/test_pairs.py::test_who_meets_comes_out_as_one_after_the_other"
PARTNER = "tests/runs/connectors/test_partner.py::test_out_"
SLACK = "tests/runs/connectors/test_slack.py::test_"
UNLEASH = "tests/runs/connectors/test_unleash.py::test_eng_"


@dataclass(frozen=True)
class Guard:
    """In `file`, `old` stands once and is the guard; with `new` in its place, a test of `tests` has to fail."""

    fault: str
    taken_out: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def names(self) -> str:
        return ", ".join(test.partition("::")[2] for test in self.tests)


def guard(fault: str, taken_out: str, file: str, old: str, new: str, *tests: str) -> Guard:
    return Guard(fault, taken_out, file, old, new, tests)


INGEST = [
    guard(
        "API-01",
        "a key used before is compared with the content of the call",
        "runs/services/asking.py",
        " or used.fingerprint != request.fingerprint:",
        ":",
        f"{API}01_a_key_with_other_content_is_refused_and_shows_nothing_of_the_first",
    ),
    guard(
        "API-01",
        "a key used before is compared with the run of the call",
        "runs/services/asking.py",
        "if used.run_id != run.pk or used.step is None",
        "if used.step is None",
        f"{API}01_a_key_with_other_content_is_refused_and_shows_nothing_of_the_first",
    ),
    guard(
        "API-01",
        "a key that opened a run is compared with the content of the next opening",
        "runs/services/opening.py",
        "if used.fingerprint != fingerprint or used.step_id is not None:",
        "if used.step_id is not None:",
        f"{API}01_a_key_that_opened_a_run_opens_no_other_and_calls_nothing",
    ),
    guard(
        "API-01",
        "keys are looked up among those of the caller's token only",
        "runs/services/asking.py",
        "filter(token=token, key=request.idempotency_key)",
        "filter(key=request.idempotency_key)",
        f"{API}01_keys_of_two_tokens_never_meet",
    ),
    guard(
        "API-01",
        "the same key with the same content is known again, and marked as a replay",
        "runs/services/asking.py",
        "return _replayed(locked, token, request) or _ask(",
        "return _ask(",
        f"{API}01_the_same_content_gets_the_first_result_marked_as_a_replay",
    ),
    guard(
        "API-02",
        "the lock on the run's row",
        "runs/locking.py",
        "select_for_update(no_key=True).annotate",
        "annotate",
        f"{API}02_two_that_look_before_either_writes_make_one_intent",
    ),
    guard(
        "API-02",
        "who loses the race to open a run gets the winner's run",
        "runs/services/opening.py",
        "is the answer.\n        if idempotency_key and",
        "is the answer.\n        if False and",
        f"{API}02_two_that_look_before_either_writes_open_one_run",
    ),
    guard(
        "API-02",
        "the unique constraint on keys",
        "runs/migrations/0001_initial.py",
        "constraint=models.UniqueConstraint(fields=('token', 'key'), name='idempotency_key_once'),",
        "constraint=models.UniqueConstraint(fields=('token', 'key', 'id'), name='idempotency_key_once'),",
        f"{API}02_two_that_look_before_either_writes_open_one_run",
    ),
    guard(
        "API-03",
        "a key in use is answered with its step, and never refused as in progress",
        "runs/services/asking.py",
        "    return Asked(used.step, new=False, replayed=True)",
        "    if used.step.done_at is None:\n"
        '        raise KeyReused("A call with this key is in progress.")\n'
        "    return Asked(used.step, new=False, replayed=True)",
        f"{API}03_after_a_web_process_died_the_retry_gets_a_definite_answer[publish.before]",
    ),
    guard(
        "API-03",
        "the sweep looks for requested steps that no message carries",
        "runs/engine/sweep.py",
        "in _some(asked | waiting):",
        "in _some(waiting):",
        f"{API}03_after_a_web_process_died_the_retry_gets_a_definite_answer[publish.before]",
    ),
    guard(
        "API-04",
        "what is hashed is canonical JSON",
        "runs/keys.py",
        "return rfc8785.dumps(value)",
        "return repr(value).encode()",
        f"{API}04_the_same_intent_has_one_key_however_it_is_written",
    ),
    guard(
        "API-04",
        "RFC 8785 is the canonical form, here and in every version",
        "runs/keys.py",
        "return rfc8785.dumps(value)",
        'return __import__("json").dumps(value, sort_keys=True).encode()',
        f"{API}04_fingerprints_stay_the_same_over_machines_and_versions",
    ),
    guard(
        "API-04",
        "a name that stands twice in one object is refused",
        "runs/strict_json.py",
        "if len(found) != len(pairs):",
        "if False:",
        f"{API}04_a_name_that_stands_twice_is_refused",
    ),
    guard(
        "API-05",
        "what can't be stored is refused at the door",
        "runs/strict_json.py",
        "problem = next(refusals(found), None)",
        "problem = None",
        f"{API}05_and_06_what_cannot_be_stored_is_refused_at_the_door",
    ),
    guard(
        "API-05",
        "texts of targets are made storable",
        "runs/storable.py",
        'return _UNSTORABLE.sub(lambda m: f"\\\\u{ord(m.group()):04x}", found)',
        "return found",
        f"{API}05_a_target_that_answers_with_nul_leaves_its_record",
    ),
    guard(
        "API-05",
        "effects are made storable",
        "runs/storable.py",
        "if not _UNSTORABLE.search(value):\n        return value\n    return _mark(",
        "return value\n    return _mark(",
        f"{API}05_an_effect_with_nul_is_kept_and_given_back_to_the_undo",
    ),
    guard(
        "API-05",
        "the undo gets back what the target had said",
        "runs/models/step.py",
        "return restored(self.prepared or {}), restored(self.effect or {})",
        "return self.prepared or {}, self.effect or {}",
        f"{API}05_an_effect_with_nul_is_kept_and_given_back_to_the_undo",
    ),
    guard(
        "API-06",
        "bodies are read by the strict parser",
        "runs/api_support.py",
        'return strict_json.load(request.body or b"{}")',
        'return __import__("json").loads(request.body or b"{}")',
        f"{API}05_and_06_what_cannot_be_stored_is_refused_at_the_door[NaN-/runs]",
    ),
    guard(
        "API-06",
        "numbers beyond 2^53 are refused",
        "runs/strict_json.py",
        "if abs(value) > BIGGEST:",
        "if False:",
        f"{API}06_numbers_beyond_what_json_carries_are_refused",
    ),
    guard(
        "API-06",
        "NaN in an effect is marked, and stored as text",
        "runs/storable.py",
        "return value if math.isfinite(value) else _mark(str(value), path, marked)",
        "return value",
        f"{API}05_an_effect_with_nul_is_kept_and_given_back_to_the_undo",
    ),
    guard(
        "API-07",
        "the ref is part of an intent's key",
        "runs/keys.py",
        "return digest([capability.name, ref, identity(capability, args)])",
        "return digest([capability.name, identity(capability, args)])",
        f"{API}07_two_planned_twins_are_two_intents_and_a_retry_adds_none",
    ),
    guard(
        "API-07",
        "a call without a ref that equals one asked for already is that step",
        "runs/services/asking.py",
        "and step.args_digest == digest and step.key:",
        "and step.args_digest == digest and False:",
        f"{API}07_two_planned_twins_are_two_intents_and_a_retry_adds_none",
    ),
    guard(
        "API-07",
        "a variation on a call that ran gets the step that exists",
        "runs/services/asking.py",
        "and (step.planned or step.identity_digest == mine):",
        "and False:",
        f"{API}07_a_second_different_call_gets_the_step_that_exists",
    ),
    guard(
        "API-09",
        "a step that was asked for is not asked for again",
        "runs/services/asking.py",
        "if step.state in (StepState.PLANNED, StepState.FAILED):",
        "if step.state in (StepState.PLANNED, StepState.FAILED, StepState.DONE):",
        f"{API}09_a_client_that_lost_the_answer_repeats_without_a_second_effect[20]",
    ),
]

ENGINE = [
    guard(
        "ENG-03",
        "workers are called after the commit",
        "runs/bell.py",
        "transaction.on_commit(lambda: _send(task, ids), robust=True)",
        "_send(task, ids)",
        f"{LOST}03_nothing_is_published_before_the_commit",
    ),
    guard(
        "ENG-03",
        "a message without its row is logged",
        "runs/engine/claim.py",
        'log.error("No step %s in run %s: the message is dropped.", step_id, run.pk)\n',
        "\n",
        f"{LOST}03_a_task_without_its_row_ends_and_says_so",
    ),
    guard(
        "ENG-04",
        "a publish that raises fails nobody's request",
        "runs/bell.py",
        "transaction.on_commit(lambda: _send(task, ids), robust=True)",
        "transaction.on_commit(lambda: _send(task, ids))",
        f"{LOST}04_a_lost_publish_is_found_by_the_sweep[the publish raises]",
    ),
    guard(
        "ENG-04",
        "the sweep looks for sends whose turn it is",
        "runs/engine/sweep.py",
        "in _some(asked | waiting):",
        "in _some(asked):",
        f"{LOST}04_a_lost_publish_is_found_by_the_sweep[the process dies before it]",
    ),
    guard(
        "ENG-07",
        "a call without an answer is unknown, not failed",
        "runs/engine/invoke.py",
        "record.unknown(attempt, exc)",
        "record.failed(attempt, NoEffect(reason_of(exc)))",
        f"{LOST}07_a_step_whose_answer_was_lost_is_found_and_undone",
    ),
    guard(
        "ENG-07",
        "what the probe finds is recorded as done",
        "runs/engine/invoke.py",
        "if effect is None:\n",
        "if True:\n",
        f"{LOST}07_a_step_whose_answer_was_lost_is_found_and_undone",
    ),
    guard(
        "ENG-07",
        "an unknown step is part of the way back",
        "runs/states.py",
        "TO_UNDO = frozenset({S.RUNNING, S.DONE, S.UNKNOWN, ",
        "TO_UNDO = frozenset({S.RUNNING, S.DONE, ",
        f"{LOST}07_without_a_probe_the_run_stops_for_a_person",
    ),
    guard(
        "ENG-07",
        "without a probe a person decides",
        "runs/engine/invoke.py",
        "(record.repeatable if capability.honours_key else record.for_a_person)(attempt)",
        "record.repeatable(attempt)",
        f"{LOST}07_without_a_probe_the_run_stops_for_a_person",
    ),
    guard(
        "ENG-07",
        "set_flag's call carries its mark",
        "runs/connectors/unleash.py",
        ', "title": _mark(call)}',
        ', "title": ""}',
        f"{UNLEASH}07_an_effect_whose_answer_was_lost_is_found_by_its_mark",
    ),
    guard(
        "ENG-11",
        "the order of undo is that of the intents, reversed",
        "runs/models/step.py",
        'order_by("-intent_seq", "-number")',
        'order_by("-done_at", "-number")',
        f"{BACK}11_undo_is_the_exact_reverse_of_the_intents_one_at_a_time",
    ),
    guard(
        "ENG-11",
        "one walk at a time holds the run's lease",
        "runs/engine/walk.py",
        "or is_frozen() or (run.lease_until and run.lease_until > run.now):",
        "or is_frozen():",
        f"{BACK}11_undo_is_the_exact_reverse_of_the_intents_one_at_a_time",
    ),
    guard(
        "ENG-12",
        "an undo counts when verify_undone says gone, not when it answers",
        "runs/engine/compensate.py",
        "if self._gone_in_time():",
        "if not error or self._gone_in_time():",
        f"{BACK}12_an_undo_that_answers_and_does_nothing_stops_the_walk",
    ),
    guard(
        "ENG-12",
        "an undo that failed stops the run",
        "runs/engine/walk.py",
        'lifecycle.stop(run, f"Stopped at step',
        '(lambda *_, **__: None)(run, f"Stopped at step',
        f"{BACK}12_an_undo_that_answers_and_does_nothing_stops_the_walk",
    ),
    guard(
        "ENG-14",
        "verify_undone is asked before anything is undone",
        "runs/engine/compensate.py",
        "if gone:\n",
        "if False:\n",
        f"{BACK}14_what_is_gone_already_is_skipped_with_its_evidence",
    ),
    guard(
        "ENG-14",
        "no definite answer stops the walk",
        "runs/engine/compensate.py",
        'return walk.undo_failed(self.held, self.step, f"could not look whether it is still there: {reason_of(exc)}")',
        "gone = bool(reason_of(exc))",
        f"{BACK}14_no_definite_answer_is_not_gone[401]",
    ),
    guard(
        "ENG-14",
        "git: exactly that ref counts",
        "runs/connectors/git_remote.py",
        "return {name: found[name] for name in names if name in found}",
        "return {name: sha for name in names for ref, sha in found.items() if ref.endswith(name)}",
        f"{GIT}14_only_exactly_that_ref_counts",
    ),
    guard(
        "ENG-14",
        "git: a server without a trace of the repository says nothing about its branch",
        "runs/connectors/git.py",
        "if not seen:\n",
        "if False:\n",
        f"{GIT}14_another_or_an_empty_repository_is_not_gone",
    ),
    guard(
        "ENG-14",
        "git: another address under the same name says nothing",
        "runs/connectors/git.py",
        'if (made_at := call.prepared["repository"]) != server.at.url:',
        'if False and (made_at := call.prepared["repository"]):',
        f"{GIT}14_another_or_an_empty_repository_is_not_gone",
    ),
    guard(
        "ENG-14",
        "unleash: a flag that isn't shown is no rule that is gone",
        "runs/connectors/unleash.py",
        "if found is None:\n",
        'found = found or {"enabled": True, "strategies": []}\n    if found is None:\n',
        f"{UNLEASH}14_only_the_flag_itself_can_say_that_the_rule_is_gone[404]",
    ),
    guard(
        "ENG-14",
        "slack: a deleted message is looked for by itself",
        "runs/connectors/slack_api.py",
        'if exc.error in ("thread_not_found", "message_not_found"):',
        "if False:",
        f"{SLACK}eng_14_a_message_that_a_person_deleted_counts_as_undone",
    ),
    guard(
        "ENG-15",
        "verify_done is asked before an undo",
        "runs/engine/compensate.py",
        "if ours:\n",
        "if True:\n",
        f"{BACK}15_a_later_change_by_somebody_else_stops_the_walk_and_is_kept",
    ),
    guard(
        "ENG-15",
        "git: a branch is deleted only where the step left it",
        "runs/connectors/git_remote.py",
        'leases = [f"--force-with-lease={name}:{sha}" for name, sha in standing_at.items()]',
        'leases = ["--atomic"]',
        f"{GIT}15_a_push_between_look_and_delete_survives",
    ),
    guard(
        "ENG-15",
        "git: the undo looks where the branch stands, and says so",
        "runs/connectors/git.py",
        "if seen.get(ours.ref, ours.sha) != ours.sha:",
        "if False:",
        f"{GIT}15_commits_of_a_colleague_stop_the_undo_and_are_named",
    ),
    guard(
        "ENG-15",
        "migration: the undo compares revision and structure with what it left",
        "runs/connectors/migration.py",
        "if now.state != after(call):",
        "if False:",
        f"{MIGRATION}15_a_colleagues_change_stops_the_undo_and_is_named",
    ),
    guard(
        "ENG-15",
        "migration: a colleague's Alembic waits for the version table",
        "runs/connectors/migration_work.py",
        "            work.scripts.lock_versions(work.connection)\n",
        "",
        f"{MIGRATION}15_a_colleagues_own_alembic_waits_with_its_revision",
    ),
    guard(
        "ENG-16",
        "unleash: the undo compares the segment with what the step left",
        "runs/connectors/unleash.py",
        'if reading.part() != call.effect["strategies"]:',
        "if False:",
        f"{UNLEASH}16_a_change_of_the_same_segment_is_drift_and_is_not_overwritten",
    ),
    guard(
        "ENG-16",
        "unleash: only the segment's own part is compared and put back",
        "runs/connectors/unleash.py",
        "return [plain(s) for s in self.ours]",
        "return [plain(s) for s in [*self.others, *self.ours]]",
        f"{UNLEASH}16_a_change_of_another_segment_survives_the_undo",
    ),
    guard(
        "ENG-16",
        "unleash: verify_done compares, so that the walk sees the drift",
        "runs/connectors/unleash.py",
        'return bool(read(_service(call), call.args).part() == call.effect["strategies"])',
        "return bool(read(_service(call), call.args).ours)",
        f"{BACK}16_a_foreign_change_of_the_same_segment_stops_the_walk_and_is_shown",
    ),
    guard(
        "ENG-17",
        "jira: a ticket that is back already is not called",
        "runs/connectors/jira.py",
        "if (now := status(jira, issue)) == back:",
        "if (now := status(jira, issue)) is None:",
        f"{JIRA}eng_17_a_ticket_that_is_back_already_is_not_called_again",
    ),
    guard(
        "ENG-17",
        "jira: the way back is looked up from the status of now",
        "runs/connectors/jira.py",
        "edge = _transition(jira, issue, back, now)",
        'edge = {"id": "32"}',
        f"{JIRA}eng_17_a_ticket_that_a_person_moved_on_is_drift_and_goes_back_from_where_it_is_now",
    ),
    guard(
        "ENG-17",
        "jira: no legal way is a refusal that names those on offer",
        "runs/connectors/jira.py",
        "found: list[JSON] = by_name or by_status\n",
        "found: list[JSON] = by_name or by_status or offered\n",
        f"{JIRA}eng_17_no_way_back_names_what_is_on_offer_and_calls_nothing",
    ),
    guard(
        "ENG-17",
        "the draft is made also where the walk stops",
        "runs/engine/walk.py",
        'signals.effect_ended.send(Step, run=run, step=step, how="stuck")',
        "pass",
        f"{BACK}17_without_a_legal_way_it_stops_with_what_is_on_offer_and_the_draft_is_there",
    ),
    guard(
        "ENG-18",
        "the probe compares the key, seen from the whole way back",
        "tests/shelf.py",
        'if found and found["key"] == call.key else None',
        "if found else None",
        f"{BACK}18_a_strangers_object_of_the_same_name_is_nothing_to_undo",
    ),
    guard(
        "ENG-18",
        "git: a branch is ours by its marker, not by its name",
        "runs/connectors/git.py",
        "return ours.effect(call) if ours.marker in seen else None",
        "return ours.effect(call) if ours.ref in seen else None",
        f"{GIT}18_a_stranger_with_the_same_name_and_commit_is_not_adopted",
    ),
    guard(
        "ENG-18",
        "git: the hook that refuses a branch which appeared meanwhile",
        "runs/connectors/git_remote.py",
        '"core.hooksPath": str(scratch / "hooks"),',
        '"core.hooksPath": os.devnull,',
        f"{GIT}18_a_stranger_who_comes_between_look_and_push_is_not_adopted",
    ),
    guard(
        "ENG-18",
        "git: a push that made only the marker takes it back",
        "runs/connectors/git_remote.py",
        'if statuses.get(ref, "*") != "*":',
        "if False:",
        f"{GIT}18_nor_where_the_scratch_folder_runs_no_programs",
    ),
    guard(
        "ENG-18",
        "git: without markers a branch that may be ours is for a person",
        "runs/connectors/git.py",
        'if ours.ref in seen and not call.prepared["existing"]:',
        "if False:",
        f"{GIT}18_without_markers_a_branch_that_may_be_ours_is_for_a_person",
    ),
    guard(
        "ENG-18",
        "migration: a migration is ours by its mark, not by its revision",
        "runs/connectors/migration_marks.py",
        'FROM {TABLE} WHERE mark = :mark"), {"mark": mark})\n    return',
        'FROM {TABLE} WHERE :mark <> \'\'"), {"mark": mark})\n    return',
        f"{MIGRATION}18_a_colleagues_migration_to_the_same_revision_is_not_adopted",
    ),
    guard(
        "ENG-18",
        "unleash: a strategy is ours by its mark, not by its segment",
        "runs/connectors/unleash.py",
        'found = (s for s in reading.ours if s.get("title") == _mark(call))',
        "found = iter(reading.ours)",
        f"{UNLEASH}18_a_strategy_that_somebody_else_made_for_the_same_segment_is_not_ours",
    ),
    guard(
        "ENG-18",
        "jira: a move is ours by its mark, not by the status it led to",
        "runs/connectors/jira.py",
        'if mark is not None and mark["value"]["key"] == call.key:\n            return _effect(call, jira, mark["value"])',
        'if issue["fields"]["status"]["name"] == call.prepared["after"]:\n'
        '            return _effect(call, jira, {**call.prepared, "transition": ""})',
        f"{JIRA}eng_18_a_persons_move_to_the_same_status_is_not_ours",
    ),
]

SENDING = [
    guard(
        "OUT-02",
        "jira: the mark travels in the request of the transition",
        "runs/connectors/jira.py",
        '{**body, "transition": {"id": edge["id"]}, "properties": [mark]}',
        '{**body, "transition": {"id": edge["id"]}}',
        f"{JIRA}out_02_a_transition_whose_answer_was_lost_is_found_by_its_mark",
    ),
    guard(
        "OUT-02",
        "partner: a 404 of the look-up by key is the proof of absence",
        "runs/connectors/partner.py",
        "found = partner.read(_lookup(partner, call), absent=True)\n        return None if",
        "found = partner.read(_lookup(partner, call))\n        return None if",
        f"{PARTNER}02_a_notice_that_never_arrived_is_provably_absent",
    ),
    guard(
        "OUT-02",
        "slack: the message carries its call's key",
        "runs/connectors/slack.py",
        '        body["metadata"]["event_payload"]["key"] = call.key\n',
        "",
        f"{SLACK}out_02_a_message_whose_answer_was_lost_is_found_by_its_mark",
    ),
    guard(
        "OUT-02",
        "slack: a reply is looked for in its thread",
        "runs/connectors/slack.py",
        "channel=channel, thread=call.args.thread, oldest=since)",
        "channel=channel, oldest=since)",
        f"{SLACK}out_02_a_message_whose_answer_was_lost_is_found_by_its_mark",
    ),
    guard(
        "OUT-03",
        "a lost answer is unknown, not a failure",
        "runs/connectors/http.py",
        'raise Unclear(f"{self.where} took the call and gave no answer',
        'raise NoEffect(f"{self.where} took the call and gave no answer',
        f"{PARTNER}03_a_lost_answer_is_unknown_asked_once_and_found_by_the_key",
    ),
    guard(
        "OUT-03",
        "a 5xx is no refusal: it may follow the effect",
        "runs/connectors/http.py",
        "if 400 <= status < 500 and status != 408:",
        "if 400 <= status and status != 408:",
        f"{PARTNER}03_a_lost_answer_is_unknown_asked_once_and_found_by_the_key",
    ),
    guard(
        "OUT-06",
        "429 is told from other refusals",
        "runs/connectors/http.py",
        'if status == 429 or (status == 503 and "retry-after" in answer.headers):',
        "if False:",
        f"{PARTNER}06_slow_down_is_try_later_with_its_pause",
    ),
    guard(
        "OUT-06",
        "the pause is the one that the target asks for",
        "runs/connectors/http.py",
        'pause(answer.headers.get("retry-after", ""))',
        'pause("")',
        f"{PARTNER}06_slow_down_is_try_later_with_its_pause",
    ),
    guard(
        "OUT-03",
        "a mail server's silence after the message is no refusal",
        "runs/connectors/mail.py",
        'raise Unclear(f"{where} took the message and gave no answer ({type(exc).__name__})") from None',
        "raise _refusal(where, 554, b'') from None",
        f"{MAIL}03_a_lost_answer_is_unknown_and_nothing_can_look",
    ),
    guard(
        "OUT-03",
        "a mail server that says no has taken nothing",
        "runs/connectors/mail.py",
        "    if code != 250:\n",
        "    if False:\n",
        f"{MAIL}03_what_the_server_refuses_was_not_sent[550 no-NoEffect-taken]",
    ),
    guard(
        "COR-01",
        "the message is looked for before it is corrected",
        "runs/connectors/slack.py",
        "if not message.at and _now(call) is None:",
        "if False:",
        f"{SLACK}cor_01_a_correction_of_a_message_that_is_gone_is_posted_nowhere",
    ),
    guard(
        "COR-01",
        "a tombstone is no message",
        "runs/connectors/slack_api.py",
        ' and m.get("subtype") != "tombstone"',
        "",
        f"{SLACK}cor_01_a_correction_of_a_message_that_is_gone_is_posted_nowhere",
    ),
    guard(
        "COR-03",
        "the correction goes below the root",
        "runs/connectors/slack.py",
        'thread_ts=call.effect["root"]',
        'thread_ts=call.effect["ts"]',
        f"{SLACK}cor_03_the_correction_of_a_reply_is_in_the_thread_of_its_root",
    ),
    guard(
        "COR-03",
        "the effect keeps the root of the thread",
        "runs/connectors/slack.py",
        '"root": message.get("thread_ts") or ts,',
        '"root": ts,',
        f"{SLACK}cor_03_the_correction_of_a_reply_is_in_the_thread_of_its_root",
    ),
]

# What is decided behind the run's lock, whoever comes first: tests/runs/pairs.py.
MEETINGS = [
    guard(
        "PAIRS",
        "the lock on the run's row",
        "runs/locking.py",
        "select_for_update(no_key=True).annotate",
        "annotate",
        f"{PAIRS}[approve-reject-working_gate]",
    ),
    guard(
        "PAIRS",
        "what a worker is looking at is not settled",
        "runs/services/people.py",
        "if current.state not in SETTLEABLE or (current.lease_until and current.lease_until > run.now):",
        "if current.state not in SETTLEABLE:",
        f"{PAIRS}[claim-settle-working_lost]",
    ),
]

GUARDS = [*INGEST, *ENGINE, *SENDING, *MEETINGS]
