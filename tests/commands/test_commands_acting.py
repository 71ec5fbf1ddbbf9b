"""Acting on tasks: through the deck's engine, which is started where none runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpudeck.engine.errors import UsageError
from gpudeck.tests.fakes.live_deck import live_deck
from tests.commands.commands_rig import GATED, MIXED, Commanded, typed
from tests.e2e.decks import lives, until

LONG = '[[task]]\nname = "long"\ncommand = ["sleep", "1000"]\n'


def test_retry_starts_an_engine_and_says_what_came_of_it(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = deck.command("retry", "bad")
    assert done.code == 0
    assert done.out.startswith("retry: bad (attempt 2 is ")
    assert f"engine {deck.engine_pid()} now runs the deck" in done.err
    until(lambda: deck.rows("bad")["bad"]["attempt"] == 2 and deck.state("bad") == "failed")


def test_a_retry_on_an_ended_run_starts_nothing_else(deck: Commanded) -> None:
    deck.write(MIXED + '[[task]]\nname = "more"\ncommand = "echo x >>more"\n')
    assert deck.run("--only", "bad").code == 1
    assert deck.command("retry", "bad").code == 0
    deck.until_state("bad", "failed")
    assert deck.command("stop").code == 0
    assert deck.lines("more") == []


def test_nothing_is_said_to_be_done_to_what_the_run_leaves_out(deck: Commanded) -> None:
    deck.write(MIXED + '[[task]]\nname = "more"\ncommand = "echo x >>more"\n')
    assert deck.run("--only", "bad").code == 1
    for verb in ("hold", "cancel"):
        assert f"{verb}: more (stays waiting: the run leaves it out" in deck.command(verb, "more").out
    assert not deck.rows("more")["more"]["held"]


def test_retry_gives_the_environment_that_is_asked_for(deck: Commanded) -> None:
    deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "echo v=$V >>said; exit 1"\n')
    assert deck.run().code == 1
    assert deck.command("retry", "t", "--env", "V=7").code == 0
    until(lambda: deck.lines("said") == ["v=", "v=7"])


def test_retry_debug_lets_nccl_and_torch_tell_more_and_env_goes_over_it(deck: Commanded) -> None:
    said = "echo $NCCL_DEBUG $TORCH_DISTRIBUTED_DEBUG $CUDA_LAUNCH_BLOCKING >>said"
    deck.write(f'[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "{said}; exit 1"\n')
    assert deck.run().code == 1
    assert deck.command("retry", "t", "--debug", "--env", "NCCL_DEBUG=TRACE").code == 0
    until(lambda: deck.lines("said") == ["", "TRACE INFO"])
    assert not deck.rows("t")["t"]["changed"]


def test_retry_debug_of_a_task_without_gpus_asks_torch_for_what_gloo_survives(deck: Commanded) -> None:
    deck.write('[[task]]\nname = "t"\ngpus = 0\ncommand = "echo $TORCH_DISTRIBUTED_DEBUG >>said; exit 1"\n')
    assert deck.run().code == 1
    assert deck.command("retry", "t", "--debug").code == 0
    until(lambda: deck.lines("said") == ["", "INFO"])


def test_retry_debug_waits_for_each_call_of_cuda_where_the_failure_was_told_late(deck: Commanded) -> None:
    error = "RuntimeError: CUDA error: device-side assert triggered"
    said = f"echo $NCCL_DEBUG $CUDA_LAUNCH_BLOCKING >>said; echo '{error}' >&2; exit 1"
    deck.write(f'[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "{said}"\n')
    assert deck.run().code == 1
    assert deck.command("retry", "t", "--debug").code == 0
    until(lambda: deck.lines("said") == ["", "INFO 1"])


def test_no_environment_that_is_asked_for_gives_a_task_other_gpus(deck: Commanded) -> None:
    deck.write('[deck]\ngpus = "sim:2"\n[[task]]\nname = "t"\ncommand = "echo ran >>said; exit 1"\n')
    assert deck.run().code == 1
    done = deck.command("retry", "t", "--env", "CUDA_VISIBLE_DEVICES=7")
    assert (done.code, "may not set CUDA_VISIBLE_DEVICES" in done.err) == (2, True)
    assert deck.lines("said") == ["ran"]


def test_an_engine_gives_a_task_no_other_gpus_whoever_asks(tmp_path: Path) -> None:
    with live_deck(tmp_path, MIXED + LONG) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, bad="failed")
            with pytest.raises(UsageError, match="may not set CUDA_VISIBLE_DEVICES"):
                client.request("retry", tasks=["bad"], env={"CUDA_VISIBLE_DEVICES": "7"})


def test_retry_downstream_runs_what_builds_on_it(deck: Commanded) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "first"
        command = "echo first >>ran"
        [[task]]
        name = "second"
        needs = ["first"]
        command = "echo second >>ran"
    """)
    assert deck.run().code == 0
    assert deck.command("retry", "first", "--downstream").code == 0
    until(lambda: deck.lines("ran") == ["first", "second"] * 2)


def test_retry_not_on_a_gpu_that_the_deck_has_not_is_refused(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = deck.command("retry", "bad", "--not-on", "7")
    assert (done.code, "GPU 7: this deck uses 0, 1" in done.err) == (2, True)


def test_a_task_that_runs_cannot_be_retried(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-1", "running")
    done = deck.command("retry", "wait-1")
    assert (done.code, done.err.splitlines()[-1]) == (
        2, "gpudeck: wait-1 is running: only what has ended can be retried",
    )  # fmt: skip
    gate.let(3)


def test_what_means_several_tasks_wants_a_yes(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = deck.command("retry", "*")
    assert done.code == 2
    assert "retry 2 tasks (1 succeeded, 1 failed): good, bad?" in done.err
    assert "-y says yes" in done.err


def test_several_names_that_are_typed_out_are_not_asked_about(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    assert deck.command("retry", "good", "bad").code == 0


def test_yes_on_the_terminal_does_it(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    with typed(deck, "retry", "*") as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert terminal.finish() == 0
        assert "retry: good (attempt 2" in terminal.shown


def test_enter_on_the_terminal_does_nothing(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    with typed(deck, "retry", "*") as terminal:
        terminal.until("[y/N]")
        terminal.type("\n")
        assert terminal.finish() == 1
    assert deck.rows("good")["good"]["attempt"] == 1


def test_cancel_stops_what_runs_and_takes_off_what_waits(deck: Commanded) -> None:
    deck.write(GATED)
    deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-1", "running")
    out = deck.command("cancel", "-y", "tag:slow").out
    assert [line.partition(" (")[0] for line in out.splitlines()] == [f"cancel: wait-{i}" for i in (1, 2, 3)]
    assert "cancel: wait-3 (cancelled)" in out
    deck.until_state("wait-1", "cancelled")


def test_kill_ends_a_task_that_ignores_the_stop_signal(deck: Commanded) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "deaf"
        grace = "1h"
        command = "trap '' TERM; echo on >>ran; while true; do read _ <gate; done"
    """)
    deck.gate()
    assert deck.go().code == 0
    until(lambda: deck.lines("ran"))
    assert deck.command("cancel", "deaf").code == 0
    assert deck.state("deaf") == "stopping"
    assert deck.command("kill", "deaf").code == 0
    deck.until_state("deaf", "cancelled")


def test_a_cancel_of_what_has_ended_is_refused(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = deck.command("cancel", "good")
    assert (done.code, "good has succeeded: only what has not ended" in done.err) == (2, True)


def test_held_tasks_start_when_they_are_released(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    assert "hold: wait-3 (held)" in deck.command("hold", "wait-3").out
    gate.let(2)
    deck.until_state("wait-2", "succeeded")
    assert deck.rows("wait-3")["wait-3"]["held"]
    assert deck.command("hold", "wait-3").out == "hold: wait-3 (queued and held already)\n"
    assert deck.command("release", "state:held").code == 0
    gate.let()
    deck.until_state("wait-3", "succeeded")


def test_a_higher_priority_starts_first(deck: Commanded) -> None:
    deck.write(GATED.replace("sim:2", "sim:1"))
    gate = deck.gate()
    assert deck.go().code == 0
    assert deck.command("priority", "wait-3", "5").out == "priority: wait-3 (priority 5)\n"
    gate.let()
    deck.until_state("wait-3", "running")
    assert deck.state("wait-2") == "queued"
    assert deck.command("priority", "wait-2", "-7").code == 0
    gate.let(2)


def test_a_priority_that_is_no_number_is_refused(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("priority", "good", "high")
    assert (done.code, "whole number" in done.err, deck.engines_alive()) == (2, True, [])


def test_accept_keeps_a_changed_result(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    deck.write(MIXED.replace("echo fine", "echo better"))
    assert deck.go().code == 0
    assert list(deck.rows("state:changed")) == ["good"]
    assert deck.command("accept", "good").out == "accept: good (its result counts as it is)\n"
    assert not deck.rows("good")["good"]["changed"]


def test_a_paused_deck_starts_nothing_until_it_is_unpaused(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    assert "is paused: nothing starts; 2 tasks running" in deck.command("pause").out
    gate.let(2)
    deck.until_state("wait-2", "succeeded")
    assert deck.state("wait-3") == "queued"
    assert deck.command("unpause").code == 0
    gate.let()
    deck.until_state("wait-3", "succeeded")


def test_a_drained_gpu_gets_nothing_new(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    assert deck.command("gpus", "drain", "0-1").out == "drain: GPU 0-1 (what runs there ends, nothing new starts)\n"
    gate.let(2)
    deck.until_state("wait-2", "succeeded")
    assert deck.state("wait-3") == "queued"
    assert deck.command("gpus", "enable", "1").code == 0
    deck.until_state("wait-3", "running")
    assert deck.rows("wait-3")["wait-3"]["gpus"] == [1]
    gate.let()


def test_two_commands_at_once_start_one_engine(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, "hold", "wait-1") as first, typed(deck, "hold", "wait-2") as second:
        assert (first.finish(), second.finish()) == (0, 0), first.shown + second.shown
    until(lambda: len(deck.engines_alive()) == 1)  # the second one finds the lock taken
    gate.let(3)


def test_after_the_engine_was_killed_a_retry_starts_the_next_one(deck: Commanded) -> None:
    deck.write(GATED + '[[task]]\nname = "bad"\ngpus = 0\ncommand = "exit 3"\n')
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-2", "running")
    deck.until_state("bad", "failed")
    first = deck.engine_pid()
    os.kill(first, signal.SIGKILL)
    until(lambda: not lives(first))
    assert "retry: bad (attempt 2 is" in deck.command("retry", "bad").out
    assert deck.engine_pid() != first
    gate.let(3)
    assert deck.command("wait", "tag:slow").code == 0
    assert deck.rows("wait-1")["wait-1"]["attempt"] == 1


def test_a_frozen_engine_is_named_and_no_second_one_started(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    pid = deck.engine_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        for words in (["status"], ["retry", "wait-1"], ["stop"], ["wait"]):
            done = deck.command(*words)
            assert done.code == 3
            assert f"engine {pid} is stopped, `kill -CONT {pid}` lets it go on: it holds the deck's lock" in done.err
        assert deck.engines_alive() == [pid]
    finally:
        os.kill(pid, signal.SIGCONT)
    gate.let(3)
    assert deck.command("wait").code == 0


def test_another_environment_than_the_runs_is_named_in_one_line(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    done = deck.command("hold", "wait-3", env={"VIRTUAL_ENV": "/elsewhere"})
    assert "VIRTUAL_ENV" in done.err
    assert "gpudeck env --refresh" in done.err
    gate.let(3)


def test_an_unknown_task_is_refused_with_a_hint(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("cancel", "behin")
    assert (done.code, "behin: no task" in done.err, deck.engines_alive()) == (2, True, [])
    assert deck.go().code == 0
    assert "did you mean behind?" in deck.command("cancel", "behin").err


def test_what_comes_to_nothing_starts_no_engine(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    assert deck.command("release", "behind").out == "release: behind (is blocked, and not held)\n"
    assert deck.command("cancel", "good").code == 2
    assert deck.engines_alive() == []


def test_a_broken_file_starts_no_engine(deck: Commanded) -> None:
    deck.write(MIXED + "nonsense = 1\n")
    done = deck.command("retry", "bad")
    assert (done.code, "nonsense" in done.err, deck.engines_alive()) == (2, True, [])


def test_apply_takes_up_what_was_added_to_the_file(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.write(GATED + '[[task]]\nname = "added"\ngpus = 0\ncommand = "echo here >>added"\n')
    dry = deck.command("apply", "--dry-run")
    assert (dry.code, "added" in dry.out) == (0, True)
    assert "added" not in deck.rows()
    refused = deck.command("apply")
    assert (refused.code, "-y says yes" in refused.err) == (2, True)
    assert deck.command("apply", "-y").out.splitlines()[-1] == "apply: 1 added"
    until(lambda: deck.lines("added") == ["here"])
    assert deck.command("apply").out == "nothing has changed\n"
    gate.let(3)


def test_apply_without_an_engine_starts_none_to_look(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("apply", "--dry-run")
    assert (done.code, "the next start takes the file as it is now" in done.out) == (0, True)
    assert deck.engines_alive() == []


def test_apply_runs_what_an_earlier_edit_has_changed(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    deck.write(MIXED.replace("echo fine", "echo better >>better"))
    assert "good: they run again" in deck.command("apply", "--dry-run").out
    done = deck.command("apply", "-y")
    assert done.out.splitlines()[-1] == "apply: 1 changed task again: good"
    until(lambda: deck.lines("better") == ["better"])


BETTER = MIXED.replace("echo fine", "echo better >>better")


def keeps_its_result(deck: Commanded) -> None:
    """`good` counts as done as what the file says now, for this engine and for later ones, and did not run."""
    assert deck.command("apply").out == "nothing has changed\n"
    assert not deck.rows("good")["good"]["changed"]
    assert deck.command("stop").code == 0
    assert not deck.rows("good")["good"]["changed"]
    assert deck.run().states["good"] == "cached"
    assert not (deck.folder / "better").exists()


def test_apply_keep_keeps_the_results_of_finished_tasks_that_the_edit_changes(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.go().code == 0
    deck.until_state("bad", "failed")
    deck.until_state("good", "succeeded")
    deck.write(BETTER)
    assert (
        "good (command): they run again, unless their results are kept (--keep)"
        in deck.command("apply", "--dry-run").out
    )
    assert "good (command): they keep their results" in deck.command("apply", "--dry-run", "--keep").out
    done = deck.command("apply", "--keep", "-y")
    assert done.out.splitlines()[-2:] == ["apply: 1 changed, finished", "apply: 1 result kept: good"]
    keeps_its_result(deck)


def test_apply_keep_keeps_the_results_of_tasks_that_an_earlier_edit_has_changed(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    deck.write(BETTER)
    assert "good: they keep their results" in deck.command("apply", "--dry-run", "--keep").out
    assert deck.command("apply", "--keep", "-y").out.splitlines()[-1] == "apply: 1 result kept: good"
    keeps_its_result(deck)


def test_accept_before_an_edit_is_applied_says_how_both_are_done(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.go().code == 0
    deck.until_state("good", "succeeded")
    deck.write(BETTER)
    assert deck.command("apply", "--dry-run").code == 0
    done = deck.command("accept", "good")
    assert done.out == "accept: good (has succeeded: it is neither changed nor stale)\n"
    assert "`gpudeck apply --keep`" in done.err


def test_a_deck_that_does_nothing_needs_no_engine_to_be_paused(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("pause")
    assert (done.code, "nothing starts" in done.out, deck.engines_alive()) == (0, True, [])


def test_a_retry_on_a_paused_deck_says_that_it_is_paused(deck: Commanded) -> None:
    deck.write(GATED + '[[task]]\nname = "bad"\ngpus = 0\ncommand = "exit 3"\n')
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("bad", "failed")
    assert deck.command("pause").code == 0
    assert "the deck is paused" in deck.command("retry", "bad").err
    gate.let(3)
