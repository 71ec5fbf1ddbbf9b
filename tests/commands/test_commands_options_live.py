"""Run options given again while an engine runs the deck: what it takes as a change, and what it refuses."""

from __future__ import annotations

import os
import signal

import pytest

from gpudeck.engine.attach import attach
from gpudeck.engine.core.events import AttemptStarting, OptionsChanged, RunStarted
from gpudeck.engine.errors import UsageError
from gpudeck.engine.opening.run_options import decode
from gpudeck.engine.protocol.wire import TaskRow
from gpudeck.engine.taskfile.options import RunOptions
from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import lives, until

MANY = """
    [deck]
    gpus = "sim:4"
    [[task]]
    name = "wait-{i}"
    matrix.i = [1, 2, 3, 4, 5, 6, 7, 8]
    command = "echo {i} >>ran; until [ -e go-{i} ]; do sleep 0.05; done"
"""
CHAIN = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "long"
    command = "read _ <gate"
    [[task]]
    name = "data"
    command = "echo data >>ran; read _ <gate"
    [[task]]
    name = "train"
    needs = ["data"]
    command = "echo train >>ran; read _ <gate"
    [[task]]
    name = "other"
    command = "echo other >>ran; read _ <gate"
"""


def given_again(deck: Commanded, *options: str) -> str:
    """What `gpudeck tasks.toml OPTIONS` says before it follows the deck; Ctrl-C leaves."""
    with typed(deck, "tasks.toml", "--plain", *options, columns=300) as terminal:
        terminal.until("runs on when this ends")
        return terminal.shown


def refused(deck: Commanded, *options: str) -> str:
    with typed(deck, "tasks.toml", "--plain", *options, columns=300) as terminal:
        assert terminal.finish() == 2, terminal.shown
        return terminal.shown


def in_state(deck: Commanded, state: str) -> list[TaskRow]:
    """As the engine tells it."""
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        return [row for row in connection.wait_for_picture().rows.values() if row.state == state]


def running(deck: Commanded) -> list[TaskRow]:
    return in_state(deck, "running")


def go(deck: Commanded, *tasks: str) -> None:
    """Let tasks of MANY end."""
    for task in tasks:
        (deck.folder / task.replace("wait", "go")).touch()


def kill_engine(deck: Commanded) -> None:
    pid = deck.engine_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))


def started(deck: Commanded) -> list[str]:
    return [fact.task for fact in deck.facts() if isinstance(fact, AttemptStarting)]


def test_more_slots_per_gpu_are_filled_at_once(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    pid = deck.engine_pid()
    said = given_again(deck, "--slots-per-gpu", "2")
    assert "the deck goes on with --slots-per-gpu 2 (before: as in the file)" in said
    until(lambda: len(running(deck)) == 8)
    assert deck.engine_pid() == pid


def test_fewer_slots_stop_nothing_and_start_nothing_until_there_is_room(deck: Commanded) -> None:
    deck.write(MANY)
    with typed(deck, "tasks.toml", "--plain", "--slots-per-gpu", "2", "--gpus", "sim:2"):
        until(lambda: deck.holder() is not None and len(running(deck)) == 4)
    assert "--slots-per-gpu 1 (before: --slots-per-gpu 2)" in given_again(deck, "--slots-per-gpu", "1")
    first, second = (sorted(row.name for row in running(deck) if row.gpus == (gpu,)) for gpu in (0, 1))
    assert (len(first), len(second)) == (2, 2)
    go(deck, first[0], second[0])
    until(lambda: len(in_state(deck, "succeeded")) == 2)
    assert (len(started(deck)), len(running(deck))) == (4, 2)
    go(deck, first[1])
    until(lambda: len(started(deck)) == 5)


def test_gpus_that_leave_the_deck_drain_and_come_back_when_asked_for(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    assert "--gpus sim:2 (before: as in the file)" in given_again(deck, "--gpus", "sim:2")
    assert len(running(deck)) == 4
    go(deck, "wait-1", "wait-2", "wait-3", "wait-4")
    until(lambda: len(started(deck)) == 6 and len(running(deck)) == 2)
    assert {gpu for row in running(deck) for gpu in row.gpus} == {0, 1}
    assert "--gpus sim:4 (before: --gpus sim:2)" in given_again(deck, "--gpus", "sim:4")
    until(lambda: len(running(deck)) == 4)


def test_what_was_changed_holds_for_the_next_engine(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    given_again(deck, "--gpus", "sim:2", "--only", "wait-[1-6]")
    kill_engine(deck)
    changes = [decode(fact.options) for fact in deck.facts() if isinstance(fact, OptionsChanged)]
    assert changes == [RunOptions(gpus="sim:2", only=("wait-[1-6]",))]
    assert deck.go().code == 0
    assert len(running(deck)) == 4
    go(deck, *(f"wait-{number}" for number in range(1, 7)))
    deck.until_state("wait-6", "succeeded")
    assert sorted(deck.lines("ran")) == list("123456")


def test_only_leaves_out_what_waits_and_what_runs_goes_on(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    said = given_again(deck, "--only", "wait-8")
    assert "--only wait-8 (before: all tasks); 3 tasks left out" in said
    assert len(running(deck)) == 4
    go(deck, "wait-1", "wait-8")
    deck.until_state("wait-8", "succeeded")
    assert sorted(deck.lines("ran")) == list("12348")
    assert {name for name, row in deck.rows().items() if row["left_out"]} == {"wait-5", "wait-6", "wait-7"}


def test_only_takes_tasks_back_after_the_run_has_ended(deck: Commanded) -> None:
    deck.write(MANY)
    with typed(deck, "tasks.toml", "--plain", "--only", "wait-1") as terminal:
        go(deck, "wait-1")
        assert terminal.finish() == 0
    said = given_again(deck, "--only", "wait-[12]")
    assert "--only wait-[12] (before: --only wait-1); 1 task more" in said
    go(deck, "wait-2")
    deck.until_state("wait-2", "succeeded")
    assert deck.lines("ran") == ["1", "2"]
    assert [fact.run for fact in deck.facts() if isinstance(fact, RunStarted)] == [1, 2]


def test_a_need_that_is_left_out_and_not_done_is_refused_by_name(deck: Commanded) -> None:
    deck.write(CHAIN)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("long", "running")
    shown = refused(deck, "--only", "train")
    assert "--only train: train needs data, which is left out and not done: --with-needs takes it along" in shown
    assert not any(row["left_out"] for row in deck.rows().values())
    assert "2 tasks left out" not in given_again(deck, "--only", "train", "--with-needs")
    gate.let(3)
    deck.until_state("train", "succeeded")
    assert deck.lines("ran") == ["data", "train"]


def test_a_need_that_is_left_out_and_done_is_fine(deck: Commanded) -> None:
    deck.write(CHAIN)
    gate = deck.gate()
    gate.let(1)
    with typed(deck, "tasks.toml", "--plain", "--only", "data") as terminal:
        assert terminal.finish() == 0
    given_again(deck, "--only", "train")
    gate.let(1)
    deck.until_state("train", "succeeded")
    assert deck.lines("ran") == ["data", "train"]


def test_an_edit_of_the_file_does_not_come_along_with_other_options(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    deck.write(MANY.replace("7, 8]", "7]"))
    given_again(deck, "--slots-per-gpu", "2")
    until(lambda: len(running(deck)) == 8)
    assert "gone, running" in deck.command("apply", "--dry-run").out


def test_an_edit_is_planned_under_the_options_that_were_changed(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    given_again(deck, "--only", "wait-[1-5]", "--gpus", "sim:2")
    deck.write(MANY.replace("7, 8]", "7, 8, 9]"))
    done = deck.command("apply", "--dry-run")
    assert (done.code, "gone" in done.out, "gpus" in done.out) == (0, False, False)
    go(deck, "wait-1", "wait-2", "wait-5")
    deck.until_state("wait-5", "succeeded")
    assert sorted(deck.lines("ran")) == list("12345")


def test_the_same_options_again_change_nothing(deck: Commanded) -> None:
    deck.write(MANY)
    with typed(deck, "tasks.toml", "--plain", "--slots-per-gpu", "2") as terminal:
        terminal.until("running on SIM")
    assert "goes on with" not in given_again(deck, "--slots-per-gpu", "2")
    assert not any(isinstance(fact, OptionsChanged) for fact in deck.facts())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--limit", "1"), "--limit 1: the engine that runs this deck was started with no --limit"),
        (("--slots-per-gpu", "2", "--fail-fast"), "--fail-fast: the engine that runs this deck"),
        (("--slots-per-gpu", "0"), "--slots-per-gpu must be"),
        (("--gpus", "none"), "--gpus none: an engine that runs cannot change to that"),
        (("--gpus", "sim:8"), "--gpus sim:8: an engine that runs cannot change to that"),
        (("--only", "nothing"), "--only nothing: no task matches"),
    ],
)
def test_what_cannot_be_changed_is_refused_and_leaves_all_as_it_is(
    deck: Commanded, options: tuple[str, ...], words: str
) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    until(lambda: len(running(deck)) == 4)
    assert words in refused(deck, *options)
    assert len(running(deck)) == 4
    assert not any(isinstance(fact, OptionsChanged) for fact in deck.facts())


def test_the_request_tells_what_holds_then(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        answer = connection.request("change", slots_per_gpu="2")
        assert decode(answer["options"]) == RunOptions(slots_per_gpu="2")
        assert connection.request("options")["options"] == answer["options"]
        assert connection.request("change", slots_per_gpu="2")["text"] == ""
        with pytest.raises(UsageError, match="bad arguments"):
            connection.request("change", set={"x": "1"})


def test_the_change_is_noted_in_the_log_of_the_deck(deck: Commanded) -> None:
    deck.write(MANY)
    assert deck.go().code == 0
    given_again(deck, "--slots-per-gpu", "2")
    until(lambda: "the deck goes on with --slots-per-gpu 2" in deck.text("logs/deck.log"))
