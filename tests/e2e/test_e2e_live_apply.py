"""The task file is edited while its deck runs, and is applied on request."""

from __future__ import annotations

import signal

import pytest

from gpudeck.engine.core.events import AttemptStarting
from gpudeck.engine.errors import UsageError
from tests.e2e.decks import PATIENCE_S, Deck, Gate
from tests.e2e.live_edits import AUTO, OFF, apply, begun, gpus_of, save, task, waits
from tests.inside.e2e import Addition, RunOptions, add, attach

# -- on request --------------------------------------------------------------------------------------------------------


def test_a_plan_names_every_kind_of_change(deck: Deck, gate: Gate):
    old = waits("run") + waits("gone-run") + task("done", "true", "gpus = 0") + task("wait", "true")
    engine = begun(deck, OFF + old + task("gone", "true") + task("rule", "true"), "run", "gone-run")
    engine.ended("done")
    new = waits("run", then="false") + task("done", "false", "gpus = 0") + task("wait", "false")
    save(deck, OFF + "cpu_slots = 7\n" + new + task("rule", "true", "retries = 3") + task("added", "true"))
    plan = apply(deck, dry_run=True)["plan"]
    names = {
        kind: [one if isinstance(one, str) else one["name"] for one in found]
        for kind, found in plan.items()
        if isinstance(found, list)
    }
    engine.signal(signal.SIGTERM)
    gate.let(2)
    assert names == {
        "added": ["added"], "changed_waiting": ["wait"], "changed_finished": ["done"], "changed_running": ["run"],
        "gone_waiting": ["gone"], "gone_finished": [], "gone_running": ["gone-run"], "in_place": ["rule"],
        "settings_now": ["cpu_slots"], "settings_later": [],
    }  # fmt: skip


def test_a_plan_that_is_no_longer_the_files_is_refused(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + waits("a") + task("b", "true"))
    digest = apply(deck, dry_run=True)["digest"]
    save(deck, OFF + waits("a") + task("c", "true"))
    with pytest.raises(Exception, match="changed again since that plan"):
        apply(deck, digest=digest)
    gate.let()
    assert engine.finish().states == {"a": "succeeded"}


def test_a_changed_running_task_ends_as_it_was_started_and_runs_again_where_the_run_takes_changed(
    deck: Deck, gate: Gate
):
    engine = begun(deck, OFF + waits("a", "success_codes = [7]", then="exit 7"), "a")
    save(deck, OFF + task("a", "echo new >> ran"))
    assert apply(deck)["plan"]["changed_running"]
    gate.let()
    engine.ended("a", attempt=1, outcome="ok")
    engine.ended("a", attempt=2, outcome="ok")
    assert engine.finish().code == 0
    assert deck.lines("ran") == ["a", "new"]


def test_a_changed_running_task_is_started_anew_on_request(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + task("a", "echo new >> ran"))
    assert apply(deck, running="restart")["applied"]["restarted"] == ["a"]
    assert engine.finish().states == {"a": "succeeded"}
    assert deck.lines("ran") == ["new"]


def test_a_changed_running_task_may_keep_its_result(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + task("a", "echo new >> ran"))
    apply(deck, running="keep")
    gate.let()
    assert engine.finish().states == {"a": "succeeded"}
    assert deck.lines("ran") == ["a"]
    assert deck.run().states == {"a": "cached"}


def test_a_finished_result_may_be_kept(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a") + task("b", "echo old >> ran"), "a")
    engine.ended("b")
    save(deck, OFF + waits("a") + task("b", "echo new >> ran"))
    assert apply(deck, finished="keep")["applied"]["kept"] == ["b"]
    gate.let()
    assert engine.finish().code == 0
    assert deck.lines("ran") == ["old", "a"]


def test_keep_means_what_this_edit_changes_and_what_an_earlier_one_did(deck: Deck, gate: Gate):
    rest = waits("a") + task("d", "echo d >> ran")
    engine = begun(deck, OFF + rest + task("b", "echo b >> ran") + task("c", "echo c >> ran"), "a")
    for name in "bcd":
        engine.ended(name)
    save(deck, OFF + rest + task("b", "echo new >> ran") + task("c", "echo c >> ran"))
    assert apply(deck, finished="flag")["applied"]["kept"] == []
    save(deck, OFF + rest + task("b", "echo new >> ran") + task("c", "echo new >> ran"))
    assert apply(deck, keep=True)["applied"]["kept"] == ["c", "b"]
    engine.kill()
    again = deck.start()
    again.event("deck_opened")
    gate.let()
    assert again.finish().code == 0
    assert sorted(deck.lines("ran")) == ["a", "b", "c", "d"]
    assert deck.run().states == dict.fromkeys("abcd", "cached")


def test_a_task_that_is_gone_runs_to_its_end_and_its_slot_is_not_given_away(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a") + waits("b") + waits("c"), "a", "b")
    save(deck, OFF + waits("b") + waits("c"))
    assert apply(deck)["plan"]["gone_running"] == ["a"]
    assert engine.count("task_started") == 2
    gate.let()
    engine.started("c")
    gate.let(2)
    ran = engine.finish()
    assert ran.code == 0
    assert ran.states == {"b": "succeeded", "c": "succeeded"}
    assert sorted(deck.lines("ran")) == ["a", "b", "c"]


def test_a_task_that_is_renamed_while_it_runs_is_not_started_a_second_time(deck: Deck, gate: Gate):
    work = "read _ <gate; echo ran >> ran"
    engine = begun(deck, OFF + task("old", work), "old")
    save(deck, OFF + task("new", work))
    apply(deck)
    gate.let()
    ran = engine.finish()
    assert ran.states == {"new": "cached"}
    assert deck.lines("ran") == ["ran"]


def test_fewer_slots_let_what_runs_end_and_start_nothing_before(deck: Deck, gate: Gate):
    one = OFF.replace("sim:2", "sim:1")
    tasks = waits("a") + waits("b") + waits("c") + waits("d")
    engine = begun(deck, one + "slots_per_gpu = 2\n" + tasks, "a", "b")
    save(deck, one + tasks)
    apply(deck)
    gate.let()
    engine.first(lambda event: event["event"] == "task_ended")
    assert engine.count("task_started") == 2
    gate.let()
    engine.started("c")
    assert engine.count("task_started") == 3
    gate.let(2)
    assert engine.finish().code == 0


def test_a_gpu_less_is_drained(deck: Deck, gate: Gate):
    tasks = waits("a") + waits("b") + waits("c") + waits("d")
    engine = begun(deck, OFF + tasks, "a", "b")
    save(deck, OFF.replace("sim:2", "sim:1") + tasks)
    apply(deck)
    gate.let(4)
    ran = engine.finish()
    assert ran.code == 0
    gpus = [fact.gpus for fact in deck.facts() if isinstance(fact, AttemptStarting)]
    assert gpus[2:] == [("SIM-0",), ("SIM-0",)]


def test_gpus_that_leave_the_deck_are_shown_until_what_runs_on_them_has_ended(deck: Deck, gate: Gate):
    tasks = waits("pair", "gpus = 2") + waits("one") + waits("last")
    four = OFF.replace("sim:2", "sim:4")
    engine = begun(deck, four + tasks, "pair", "one", "last")
    save(deck, OFF + tasks + task("next", "until [ -e go ]; do sleep 0.02; done"))
    apply(deck)
    kept = {0: (("pair",), ""), 1: (("pair",), "")}
    assert gpus_of(deck) == kept | {2: (("one",), "leaving"), 3: (("last",), "leaving")}
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        picture = connection.wait_for_picture()
        assert [(row.index, row.slots, row.leaving) for row in picture.gpus[2:]] == [(2, 1, True), (3, 1, True)]
        assert {name: row.gpus for name, row in picture.by_name().items()}["last"] == (3,)
    gate.let(3)
    engine.ended("one")
    engine.ended("last")
    engine.started("next")
    assert gpus_of(deck).keys() == {0, 1}
    (deck.folder / "go").touch()
    assert engine.finish().code == 0


def test_a_gpu_that_comes_back_while_its_task_runs_is_not_given_away(deck: Deck, gate: Gate):
    tasks = waits("a") + waits("b") + waits("c")
    engine = begun(deck, OFF + tasks, "a", "b")
    save(deck, OFF.replace("sim:2", "sim:1") + tasks)
    apply(deck)
    save(deck, OFF + tasks)
    apply(deck)
    assert gpus_of(deck) == {0: (("a",), ""), 1: (("b",), "")}
    assert engine.count("task_started") == 2
    gate.let(3)
    assert engine.finish().states == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}


def test_a_timeout_holds_for_what_runs(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + waits("a", 'timeout = "100ms"', 'grace = "1s"'))
    assert apply(deck)["plan"]["in_place"] == [{"name": "a", "what": ["timeout", "grace"], "same_work": True}]
    ended = engine.ended("a")
    assert "timeout" in ended["reason"]
    assert engine.finish().code == 1


def test_run_options_hold_for_the_file_that_is_read_again(deck: Deck, gate: Gate):
    text = OFF + '[vars]\nx = "file"\n' + waits("a")
    engine = begun(deck, text, "a", options=("--set", "x=given", "--only", "[ab]"))
    save(deck, text + task("b", "echo {x} >> ran") + task("c", "echo c >> ran"))
    assert apply(deck)["plan"]["added"] == ["b"]
    engine.ended("b")
    gate.let()
    assert engine.finish().states == {"a": "succeeded", "b": "succeeded"}
    assert deck.lines("ran") == ["given", "a"]


def test_decks_of_one_folder_follow_their_own_files_and_profiles(deck: Deck, gate: Gate):
    profile = '[profile.smoke]\nvars = { who = "smoke" }\n'
    text = AUTO + '[vars]\nwho = "plain"\n' + profile + waits("a")
    deck.write(text)
    deck.write(AUTO + waits("other"), "other.toml")
    engines = [deck.start(), deck.start("--profile", "smoke"), deck.start(file="other.toml")]
    for engine, name in zip(engines, ("a", "a", "other"), strict=True):
        engine.started(name)
    save(deck, text + task("b", "echo {who} >> who"))
    for engine in engines[:2]:
        engine.ended("b")
    gate.let(3)
    rans = [engine.finish() for engine in engines]
    assert [ran.code for ran in rans] == [0, 0, 0]
    assert rans[2].states == {"other": "succeeded"}
    assert sorted(deck.lines("who")) == ["plain", "smoke"]


# -- asked, added, seen ------------------------------------------------------------------------------------------------


def test_an_edit_waits_to_be_applied_where_the_file_says_ask(deck: Deck, gate: Gate):
    ask = AUTO.replace("auto", "ask")
    engine = begun(deck, ask + waits("a"), "a")
    save(deck, ask + waits("a") + task("b", "true"))
    engine.note("tasks.toml was changed: 1 added. `gpudeck apply` applies it")
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        assert connection.wait_for_picture().head.file_plan == "1 added"
    assert engine.count("task_started") == 1
    assert apply(deck)["text"] == "1 added"
    engine.ended("b")
    gate.let()
    assert engine.finish().states == {"a": "succeeded", "b": "succeeded"}


def test_a_task_that_is_added_by_command_is_taken_in_and_nothing_else(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a") + waits("b") + task("c", "echo c >> ran"), "a", "b")
    save(deck, OFF + waits("a") + waits("b"))
    names = add(str(deck.folder / "tasks.toml"), Addition(["bash", "-c", "echo added >> ran"], name="new")).names
    assert apply(deck, add=list(names))["plan"]["added"] == ["new"]
    gate.let(2)
    ran = engine.finish()
    assert ran.states == dict.fromkeys(("a", "b", "c", "new"), "succeeded")
    assert sorted(deck.lines("ran")) == ["a", "added", "b", "c"]


def test_clients_get_a_picture_of_the_deck_that_it_has_become(deck: Deck, gate: Gate):
    engine = begun(
        deck, OFF + waits("a") + task("old-1", "true", "round = 1") + task("old-2", "true", "round = 1"), "a"
    )
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        assert set(connection.wait_for_picture().by_name()) == {"a", "old-1", "old-2"}
        save(deck, OFF + task("first", "true", "round = 1") + waits("a"))
        apply(deck)
        for _ in connection.messages(PATIENCE_S):
            if connection.picture is not None and set(connection.picture.by_name()) == {"first", "a"}:
                break
    gate.let()
    assert engine.finish().states == {"a": "succeeded", "first": "succeeded"}


def test_a_selection_by_state_means_the_states_in_which_the_deck_was_opened(deck: Deck, gate: Gate):
    text = OFF + waits("a", then="false") + task("b", "true")
    engine = begun(deck, text, "a")
    gate.let()
    assert engine.finish().states == {"a": "failed", "b": "succeeded"}
    again = deck.start("--only", "state:failed")
    again.started("a")
    save(deck, text + task("c", "true"))
    assert not apply(deck, dry_run=True)["changes"]
    save(
        deck, OFF + waits("a", "retries = 1", 'backoff = "10ms"', then="false") + task("b", "true") + task("c", "true")
    )
    assert apply(deck)["plan"]["in_place"] == [{"name": "a", "what": ["retries", "backoff"], "same_work": True}]
    gate.let(2)
    ran = again.finish()
    assert ran.states == {"a": "failed"}
    assert len(ran.ended("a")) == 2


def test_settings_of_the_next_start_leave_the_deck_where_it_is(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + 'log_dir = "elsewhere"\n' + waits("a") + task("b", "true"))
    assert [change["name"] for change in apply(deck)["plan"]["settings_later"]] == ["log_dir"]
    assert engine.ended("b")["log"] == "logs/b/attempt-1.log"
    assert not apply(deck, dry_run=True)["changes"]
    gate.let()
    assert engine.finish().code == 0


def test_more_simulated_gpus_than_there_were_wait_for_the_next_start(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a") + waits("b") + waits("c"), "a", "b")
    save(deck, OFF.replace("sim:2", "sim:4") + waits("a") + waits("b") + waits("c"))
    assert [change["name"] for change in apply(deck)["plan"]["settings_later"]] == ["gpus"]
    assert engine.count("task_started") == 2
    gate.let(3)
    assert engine.finish().code == 0


def test_an_apply_that_asks_for_nonsense_is_the_callers_mistake(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    with pytest.raises(UsageError, match="running"):
        apply(deck, running="maybe")
    gate.let()
    assert engine.finish().code == 0


def test_an_apply_of_a_broken_file_tells_its_problems_and_changes_nothing(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + waits("a", "gpus = -1", "colour = 3"))
    with pytest.raises(UsageError, match=r"(?s)gpus must be at least 0.*colour"):
        apply(deck)
    gate.let()
    assert engine.finish().states == {"a": "succeeded"}
