"""The task file is edited while its deck runs, and is applied on request."""

from __future__ import annotations

import pytest

from gpudeck.engine.errors import UsageError
from tests.e2e.decks import PATIENCE_S, Deck, Gate
from tests.e2e.live_edits import AUTO, OFF, apply, begun, save, task, waits
from tests.inside.e2e import RunOptions, attach

# -- on request --------------------------------------------------------------------------------------------------------


def test_a_plan_that_is_no_longer_the_files_is_refused(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + waits("a") + task("b", "true"))
    digest = apply(deck, dry_run=True)["digest"]
    save(deck, OFF + waits("a") + task("c", "true"))
    with pytest.raises(Exception, match="changed again since that plan"):
        apply(deck, digest=digest)
    gate.let()
    assert engine.finish().states == {"a": "succeeded"}


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
    (change,) = apply(deck)["plan"]["in_place"]
    assert (change["name"], change["what"], change["same_work"]) == ("a", ["retries", "backoff"], True)
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
