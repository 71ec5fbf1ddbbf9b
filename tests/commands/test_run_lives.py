"""`gpudeck run` and what happens beside it: other runs, signals, terminals, engines that die."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded, Following, typed
from tests.commands.run_rig import ONE, TWO, book_of, runs_of, state_of, until_run
from tests.e2e.decks import until
from tests.inside.commands import Book, Engines, queue_home

WAITS = "echo begin; read _ <gate; echo end"
Start = Callable[..., Following]


@pytest.fixture
def start(deck: Commanded) -> Start:
    """A `gpudeck run` on one simulated GPU that goes on while the test does."""
    return lambda *words: deck.follow(*ONE, *words)


def test_two_runs_wait_for_each_other_on_one_gpu(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    first = start("--name", "first", WAITS)
    first.until("begin")
    second = start("--name", "second", WAITS)
    second.until("second waits: GPU 0: 1 of 1 slots taken")
    assert runs_of(deck)["second"]["state"] == "queued"
    gate.let()
    second.until("second runs on GPU 0")
    gate.let()
    assert [(done.code, done.out) for done in (first.finish(), second.finish())] == [(0, "begin\nend\n")] * 2


def test_runs_that_are_typed_at_once_all_run(deck: Commanded, start: Start) -> None:
    runs = [start(f"echo {number}") for number in range(4)]
    assert [run.finish().out for run in runs] == [f"{number}\n" for number in range(4)]
    assert sorted(runs_of(deck)) == ["echo", "echo-2", "echo-3", "echo-4"]


def test_quiet_says_nothing_of_waiting(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    start("--name", "first", WAITS).until("begin")
    second = start("-q", "--name", "second", "true")
    until_run(deck, "second", "queued")
    gate.let()
    done = second.finish()
    assert (done.code, done.out, done.err) == (0, "", "")


def test_detached_it_prints_its_name_and_returns(deck: Commanded) -> None:
    gate = deck.gate()
    done = deck.command(*ONE, "-d", WAITS)
    assert (done.code, done.out) == (0, "echo\n")
    assert "gpudeck logs --queue echo -f" in done.err
    until_run(deck, "echo", "running")
    gate.let()
    assert deck.command("wait", "--queue", "echo").code == 0
    assert deck.command("logs", "--queue", "echo").out == "begin\nend\n"


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_stops_it_as_ctrl_c_would(
    deck: Commanded, start: Start, number: signal.Signals, code: int
) -> None:
    run = start("trap 'echo saved; exit 5' INT; echo begin; while :; do read -t 1 _ <>never; done")
    run.until("begin")
    run.signal(number)
    done = run.finish()
    assert (done.code, done.out) == (code, "begin\nsaved\n")


def test_the_second_signal_kills(deck: Commanded, start: Start) -> None:
    run = start("--name", "r", "trap 'echo no' INT; trap '' TERM; echo begin; while :; do read -t 1 _ <>never; done")
    run.until("begin")
    run.signal(signal.SIGINT)
    run.until("no")
    run.signal(signal.SIGINT)
    assert run.finish().code == 130
    assert state_of(deck, "r") == "cancelled"


def test_ctrl_c_takes_a_run_that_waits_off_the_queue(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    start("--name", "first", WAITS).until("begin")
    second = start("--name", "second", "echo never >ran")
    until_run(deck, "second", "queued")
    second.signal(signal.SIGINT)
    assert second.finish().code == 130
    assert state_of(deck, "second") == "cancelled"
    gate.let()
    assert deck.lines("ran") == []


def test_a_terminal_that_hangs_up_leaves_it_running(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    run = start("--name", "r", WAITS)
    run.until("begin")
    run.signal(signal.SIGHUP)
    assert run.finish().code == -signal.SIGHUP
    assert state_of(deck, "r") == "running"
    gate.let()
    assert deck.command("wait", "--queue", "r").code == 0


def test_a_run_that_another_command_cancels_says_so(deck: Commanded, start: Start) -> None:
    run = start("--name", "r", "--", "sleep", "60")
    until(lambda: book_of(deck).exists())
    until_run(deck, "r", "running")
    assert deck.command("cancel", "--queue", "r").code == 0
    done = run.finish()
    assert (done.code, done.err) == (130, "gpudeck: r was cancelled\n")


def test_on_a_terminal_nothing_but_colours_is_let_through(deck: Commanded) -> None:
    line = r"printf '\033]0;owned\007\033[31mred\033[0m\nerr\n' >&2; printf '10%%\r100%%\n\033[2Jno newline'"
    with typed(deck, *ONE, line) as terminal:
        assert terminal.finish() == 0
        shown = terminal.shown
    assert "\x1b[31mred" in shown
    assert "100%" in shown
    assert "no newline" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown


def test_ctrl_c_on_a_terminal_reaches_it_once(deck: Commanded) -> None:
    gate = deck.gate()
    with typed(deck, *ONE, "--name", "r", "trap 'echo caught; exit 0' INT; echo begin; read _ <gate") as terminal:
        terminal.until("begin")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert terminal.shown.count("caught") == 1
        assert "stopping r; once more kills it" in terminal.shown
    gate.let()


# -- engines ----------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_through_kill_9_of_its_engine(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    run = start(f"{WAITS}; exit 9")
    run.until("begin")
    deck.kill_engine()
    run.until("the next one goes on with the run")
    gate.let()
    done = run.finish()
    assert (done.code, done.out) == (9, "begin\nend\n")


def test_an_engine_that_is_stopped_by_hand_is_not_started_again(deck: Commanded, start: Start) -> None:
    gate = deck.gate()
    run = start("--name", "r", WAITS)
    run.until("begin")
    assert deck.command("stop", "--queue").code == 0
    done = run.finish()
    assert done.code == 3
    assert "gpudeck logs --queue r -f" in done.err
    assert deck.engines_alive() == []
    gate.let()
    until_run(deck, "r", "running")


def test_a_run_that_still_waits_when_the_engine_is_stopped_says_what_goes_on_with_it(
    deck: Commanded, start: Start
) -> None:
    deck.gate()
    assert deck.command(*ONE, "-d", "--name", "holds", "read _ <gate").code == 0
    until_run(deck, "holds", "running")
    run = start("--name", "w", "true")
    until_run(deck, "w", "queued")
    assert deck.command("stop", "--queue", "--tasks").code == 0
    done = run.finish()
    assert (done.code, "`gpudeck start --queue` goes on with what waits, w too" in done.err) == (3, True)


def test_what_a_restart_of_the_box_cut_off_does_not_begin_anew(deck: Commanded) -> None:
    deck.gate()
    assert deck.command(*ONE, "-d", "--name", "old", "read _ <gate; echo ran >>ran").code == 0
    until_run(deck, "old", "running")
    assert deck.command("stop", "--queue", "--tasks").code == 0
    book = book_of(deck)
    book.write_text(re.sub(r"(GPUDECK_RUN\W+)\w+-", r"\1before-", book.read_text()))
    done = deck.command(*ONE, "echo new")
    assert (done.code, done.out) == (0, "new\n")
    assert "old was cut off by a restart of the box and is not run again" in done.err
    assert list(runs_of(deck)) == ["echo"]


def test_a_waiting_run_that_can_never_run_any_more_is_not_in_the_way(deck: Commanded) -> None:
    deck.gate()
    assert deck.command(*TWO, "-d", "--name", "holds", "read _ <gate").code == 0
    assert deck.command(*TWO, "-d", "--name", "wide", "-n", "2", "true").code == 0
    until_run(deck, "holds", "running")
    assert deck.command("stop", "--queue", "--tasks").code == 0
    done = deck.command(*ONE, "-n", "0", "echo new")
    assert (done.code, done.out) == (0, "new\n")
    assert "wide is taken off the queue: gpus = 2, but the deck has only 1" in done.err
    assert list(runs_of(deck)) == ["holds", "echo"]


def test_old_runs_are_dropped_and_their_logs_stay(deck: Commanded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(deck.queue_folder.parent))
    gate = deck.gate()
    assert deck.command(*ONE, "-d", "-n", "0", "--name", "lasts", "read _ <gate").code == 0
    for _ in range(3):
        assert deck.command(*ONE, "-n", "0", "echo done").code == 0
    home = queue_home(as_root=False)
    Engines(home, deck.env, simulated="sim:1", as_root=False).drop_ended(1)
    assert [entry["name"] for entry in Book(home).entries()] == ["lasts", "echo-3"]
    assert deck.command(*ONE, "-n", "0", "echo done").code == 0
    assert list(runs_of(deck)) == ["lasts", "echo-3", "echo-4"]
    assert (deck.queue_folder / "logs/echo-2/attempt-1.log").read_text() == "done\n"
    assert sorted(os.listdir(Path(home.state) / "environments")) == ["echo-3", "echo-4", "lasts"]
    gate.let()


def test_simulated_and_real_gpus_are_not_mixed(deck: Commanded) -> None:
    gate = deck.gate()
    assert deck.command(*ONE, "-d", "--name", "lasts", "read _ <gate").code == 0
    done = deck.command("run", "--gpus", "sim:2", "--name", "mine", "--", "true")
    assert (done.code, "has other GPUs (--gpus sim:1) and lasts to run" in done.err) == (3, True)
    assert list(runs_of(deck)) == ["lasts"]
    assert deck.command(*ONE, "-d", "--name", "mine", "true").code == 0
    assert list(runs_of(deck)) == ["lasts", "mine"]
    gate.let()


def test_an_engine_of_the_queue_with_nothing_left_makes_way_for_one_with_other_gpus(deck: Commanded) -> None:
    assert deck.command(*ONE, "echo one").code == 0
    done = deck.command("run", "--gpus", "sim:2", "-n", "2", "--", "echo two")
    assert (done.code, done.out) == (0, "two\n")
    assert "(--gpus sim:1) makes way for one with --gpus sim:2" in done.err


def test_a_run_on_the_cpu_goes_to_whatever_engine_there_is(deck: Commanded) -> None:
    gate = deck.gate()
    assert deck.command(*ONE, "-d", "--name", "lasts", "read _ <gate").code == 0
    done = deck.command("run", "-n", "0", "--", "echo", "on the CPU")
    assert (done.code, done.out) == (0, "on the CPU\n"), done.err
    gate.let()
