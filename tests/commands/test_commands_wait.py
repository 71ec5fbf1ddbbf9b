"""`gpudeck wait`: its exit code tells what became of the tasks."""

from __future__ import annotations

import os
import signal

import pytest

from tests.commands.commands_rig import GATED, MIXED, Commanded
from tests.e2e.decks import until
from tests.rigs.desk import Desk, at_desk

ENDS = {"good": 0, "bad": 3}


def test_it_is_0_when_all_have_succeeded(deck: Commanded) -> None:
    gate = deck.go_gated()
    gate.let(3)
    assert deck.command("wait").code == 0


@at_desk(MIXED, {"good": 0})
async def test_it_is_1_when_one_failed_and_the_rest_is_blocked(desk: Desk) -> None:
    await desk.start()
    waiting = desk.begin("wait")
    await desk.ends("bad", 3)
    done = await waiting.finish()
    assert (done.code, "1 failed, 1 blocked: bad, behind" in done.err) == (1, True)


def test_it_is_1_once_the_budget_is_used_and_only_an_edit_lets_the_rest_start(deck: Commanded) -> None:
    task = '[[task]]\nname = "t-{i}"\ncommand = "sleep 0.2; echo {i}"\nmatrix.i = [1, 2, 3]\n'
    deck.write('[deck]\ngpus = "sim:1"\n[budget]\ngpu_hours = 0.00001\n' + task)
    assert deck.go().code == 0
    done = deck.command("wait")
    assert (done.code, "the budget of 1e-05 GPU hours is used up" in done.err) == (1, True)
    assert "lets tasks start" in deck.command("status").out


def test_a_pause_and_its_end_tell_of_a_budget_that_is_used_up(deck: Commanded) -> None:
    task = '[[task]]\nname = "t-{i}"\ncommand = "sleep 0.2; echo {i}"\nmatrix.i = [1, 2, 3]\n'
    deck.write('[deck]\ngpus = "sim:1"\n[budget]\ngpu_hours = 0.00001\n' + task)
    assert deck.run().code == 1
    until = "the budget of 1e-05 GPU hours is used up (gpu_hours): nothing starts until the file gives more"
    assert f"is not paused, but {until}" in deck.command("unpause").out
    assert until in deck.command("start").err
    deck.command("pause")
    assert "`gpudeck unpause` goes on, once the budget has more" in deck.command("status").out


@pytest.mark.parametrize(("task", "code"), [("good", 0), ("bad", 1)])
@at_desk(MIXED, ENDS)
async def test_only_the_tasks_that_are_meant_count(desk: Desk, task: str, code: int) -> None:
    await desk.start()
    assert (await desk.command("wait", task)).code == code


@at_desk(GATED)
async def test_a_task_that_the_run_leaves_out_is_not_waited_for(desk: Desk) -> None:
    await desk.start("--only", "wait-1")
    assert (await desk.command("wait", "--timeout", "10ms", "wait-2")).code == 1


@at_desk(GATED)
async def test_it_is_124_when_the_time_is_over(desk: Desk) -> None:
    await desk.start()
    await desk.until(lambda: len(desk.in_state("running")) == 2)
    done = await desk.command("wait", "--timeout", "10ms")
    assert (done.code, done.err) == (124, "gpudeck: 2 running, 1 queued after the time given\n")


@at_desk(MIXED)
async def test_a_time_that_is_none_is_refused(desk: Desk) -> None:
    assert (await desk.command("wait", "--timeout", "soon")).code == 2


@at_desk(MIXED, ENDS)
async def test_without_an_engine_it_returns_at_once(desk: Desk) -> None:
    done = await desk.command("wait")
    assert (done.code, "without an engine nothing of that changes" in done.err) == (1, True)
    assert await desk.run() == 1
    assert (await desk.command("wait", "good")).code == 0


def test_what_runs_on_under_a_killed_engine_is_said_to(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    os.kill(deck.engine_pid(), signal.SIGKILL)
    until(lambda: deck.holder() is None)
    done = deck.command("wait")
    assert (done.code, "what runs goes on without an engine" in done.err) == (3, True), done.err
    assert deck.go().code == 0
    gate.let(3)
    assert deck.command("wait").code == 0


def test_it_goes_on_with_the_next_engine_when_one_is_killed(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    first = deck.engine_pid()
    waiting = deck.follow("wait")
    until(lambda: has_socket(waiting.process.pid))
    os.kill(first, signal.SIGKILL)
    until(lambda: deck.holder() is None)
    assert deck.go().code == 0
    gate.let(3)
    done = waiting.finish()
    assert done.code == 0, done.err


@at_desk(GATED)
async def test_it_says_that_only_a_user_can_end_the_waiting(desk: Desk) -> None:
    await desk.start()
    assert (await desk.command("hold", "wait-3")).code == 0
    await desk.ends("wait-1")
    await desk.ends("wait-2")
    waiting = desk.begin("wait")
    await waiting.until("only held tasks are left: `gpudeck release SEL`")
    assert (await desk.command("release", "wait-3")).code == 0
    await desk.ends("wait-3")
    assert (await waiting.finish()).code == 0


def has_socket(pid: int) -> bool:
    """It is connected to the engine, or about to be."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
        return any(os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:") for name in names)
    except OSError:
        return False


PAIR = """[deck]
gpus = "sim:2"
[[task]]
name = "t-{n}"
command = "true {n}"
matrix.n = [1, 2]
"""


@at_desk(PAIR)
async def test_a_task_that_has_left_the_file_counts_for_nothing_and_nothing_runs_it_again(desk: Desk) -> None:
    await desk.start()
    await desk.command("start")
    await desk.until(lambda: desk.started == ["t-1", "t-2"])
    desk.write(PAIR.replace("[1, 2]", "[1]"))
    assert (await desk.command("apply", "-y")).code == 0
    await desk.ends("t-2", 1)
    await desk.ends("t-1")
    assert [(await desk.command("wait", *words)).code for words in ((), ("t-*",), ("t-2",))] == [0, 0, 1]
    refused = await desk.command("retry", "t-2")
    assert (refused.code, "t-2 has left the task file" in refused.err) == (2, True)
    assert "not in the task file any more" in (await desk.command("explain", "t-2")).out
    assert desk.started == ["t-1", "t-2"]
