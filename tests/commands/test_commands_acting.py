"""Acting on tasks: through the deck's engine, which is started where none runs."""

from __future__ import annotations

import os
import re
import signal

import pytest

from gpudeck.engine.core.events import AttemptEnded
from gpudeck.engine.errors import UsageError
from tests.commands.commands_rig import GATED, MIXED, Commanded, typed
from tests.e2e.decks import lives, until
from tests.rigs.desk import Desk, Ends, at_desk

ENDS = {"good": 0, "bad": 3}
ONE = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "false"\n'
FAILS = {"t": 1}
BAD = '[[task]]\nname = "bad"\ngpus = 0\ncommand = "exit 3"\n'


EDITED = (
    MIXED
    + """
    [[task]]
    name = "data"
    command = "true"
    [[task]]
    name = "more"
    command = "true"
"""
)
NEW = {**ENDS, "data": 0, "more": 0}


def test_retry_starts_an_engine_and_says_what_came_of_it(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = deck.command("retry", "bad")
    assert done.code == 0
    assert re.match(r"retry: bad \(attempt 2 (is (starting|running|closing|queued)|has failed)", done.out)
    assert f"engine {deck.engine_pid()} now runs the deck" in done.err
    until(lambda: deck.rows("bad")["bad"]["attempt"] == 2 and deck.state("bad") == "failed")


@at_desk(MIXED, NEW)
async def test_what_has_only_another_name_is_no_new_task_of_the_file(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(MIXED.replace('"good"', '"renamed"'))
    assert "new task" not in (await desk.command("retry", "bad")).err


@at_desk(MIXED, NEW)
async def test_a_retry_on_an_ended_run_starts_nothing_that_is_new_in_the_file(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(EDITED)
    done = await desk.command("retry", "bad")
    assert "2 new tasks of the file: `gpudeck start` takes up" in done.err
    await desk.until(lambda: desk.started.count("bad") == 2)
    await desk.settle()
    assert not {"data", "more"} & set(desk.started)
    assert (await desk.command("start")).code == 0
    await desk.until(lambda: {"data", "more"} <= set(desk.started))


@at_desk(MIXED, NEW)
async def test_while_what_was_retried_runs_a_start_takes_up_what_is_new(desk: Desk) -> None:
    assert await desk.run() == 1
    del desk.ending["bad"]
    desk.write(EDITED)
    await desk.command("retry", "bad")
    await desk.until_state("bad", "running")
    assert "takes up only what was retried" in (await desk.command("explain", "more")).out
    assert (await desk.command("start")).code == 0
    await desk.until(lambda: {"data", "more"} <= set(desk.started))


# -- retry ------------------------------------------------------------------------------------------------------------


@at_desk(ONE, FAILS)
async def test_retry_gives_the_environment_that_is_asked_for(desk: Desk) -> None:
    assert await desk.run() == 1
    assert "V" not in desk.order("t").env
    assert (await desk.command("retry", "t", "--env", "V=7")).code == 0
    assert (len(desk.started), desk.order("t").env["V"]) == (2, "7")


async def debugged(desk: Desk, *more: str) -> list[str | None]:
    """What a task that failed gets to tell more the second time."""
    assert await desk.run() == 1
    assert (await desk.command("retry", "t", "--debug", *more)).code == 0
    assert len(desk.started) == 2
    names = ("NCCL_DEBUG", "TORCH_DISTRIBUTED_DEBUG", "CUDA_LAUNCH_BLOCKING")
    return [desk.order("t").env.get(name) for name in names]


@at_desk(ONE, FAILS)
async def test_retry_debug_lets_nccl_and_torch_tell_more_and_env_goes_over_it(desk: Desk) -> None:
    assert await debugged(desk, "--env", "NCCL_DEBUG=TRACE") == ["TRACE", "INFO", None]
    assert not (await desk.row("t"))["changed"]


@at_desk('[[task]]\nname = "t"\ngpus = 0\ncommand = "false"\n', FAILS)
async def test_retry_debug_of_a_task_without_gpus_asks_torch_for_what_gloo_survives(desk: Desk) -> None:
    assert (await debugged(desk))[1] == "INFO"


@at_desk(ONE, {"t": Ends(1, err="RuntimeError: CUDA error: device-side assert triggered\n")})
async def test_retry_debug_waits_for_each_call_of_cuda_where_the_failure_was_told_late(desk: Desk) -> None:
    nccl, _, blocking = await debugged(desk)
    assert (nccl, blocking) == ("INFO", "1")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"CUDA_VISIBLE_DEVICES": "7"}, "may not set CUDA_VISIBLE_DEVICES"),
        ({"A=B": "x"}, "^env: "),
        ({"": "x"}, "^env: "),
        ({"A\0": "x"}, "^env: "),
        ({"A": "x\0"}, "^env: "),
    ],
)
@at_desk(MIXED, ENDS)
async def test_an_engine_gives_a_task_no_environment_that_it_may_not_have_whoever_asks(
    desk: Desk, env: dict[str, str], said: str
) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    with pytest.raises(UsageError, match=said):
        await desk.request("retry", tasks=["bad"], env=env)


@at_desk(
    """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "first"
    command = "true"
    [[task]]
    name = "second"
    needs = ["first"]
    command = "true"
    """,
    {"first": 0, "second": 0},
)
async def test_retry_downstream_runs_what_builds_on_it(desk: Desk) -> None:
    assert await desk.run() == 0
    asked = await desk.command("retry", "first", "--downstream")
    assert (asked.code, "and all that builds on it (second)" in asked.err, "-y" in asked.err) == (2, True, True)
    assert (await desk.command("retry", "first", "--downstream", "-y")).code == 0
    await desk.until(lambda: desk.started == ["first", "second"] * 2)


@at_desk(GATED)
async def test_a_task_that_runs_cannot_be_retried(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-1", "running")
    done = await desk.command("retry", "wait-1")
    why = "wait-1 is running: only what has ended can be retried"
    assert (done.code, done.err) == (2, f"gpudeck: {why}\n")
    with pytest.raises(UsageError, match=why):
        await desk.request("retry", tasks=["wait-1"])


@at_desk(GATED + BAD, {"bad": 3})
async def test_a_retry_on_a_paused_deck_says_that_it_is_paused(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    assert (await desk.command("pause")).code == 0
    assert "the deck is paused" in (await desk.command("retry", "bad")).err


# -- asking -----------------------------------------------------------------------------------------------------------


@at_desk(MIXED, ENDS)
async def test_several_names_that_are_typed_out_are_not_asked_about(desk: Desk) -> None:
    assert await desk.run() == 1
    assert (await desk.command("retry", "good", "bad")).code == 0


def test_yes_on_the_terminal_does_it(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    with typed(deck, "retry", "*") as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert terminal.finish() == 0
        assert "retry: good (attempt 2" in terminal.shown


@pytest.mark.parametrize("line", ["\n", "n\n", "nonsense\n"])
@at_desk(MIXED, ENDS)
async def test_anything_but_yes_on_the_terminal_does_nothing(desk: Desk, line: str) -> None:
    assert await desk.run() == 1
    assert (await desk.command("retry", "*", keys=line)).code == 1
    assert (await desk.row("good"))["attempt"] == 1


# -- cancel, kill, hold, release, priority, accept --------------------------------------------------------------------


@at_desk(GATED)
async def test_cancel_stops_what_runs_and_takes_off_what_waits(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-2", "running")
    out = (await desk.command("cancel", "-y", "tag:slow")).out
    assert [line.partition(" (")[0] for line in out.splitlines()] == [f"cancel: wait-{i}" for i in (1, 2, 3)]
    assert "cancel: wait-3 (cancelled)" in out
    await desk.until_state("wait-1", "cancelled")


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


@at_desk(GATED)
async def test_a_kill_is_told_as_one(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-1", "running")
    assert (await desk.command("kill", "wait-1")).code == 0
    await desk.until_state("wait-1", "cancelled")
    assert (await desk.row("wait-1"))["reason"] == "cancelled by user (kill)"


@at_desk(GATED.replace("sim:2", "sim:1"))
async def test_what_is_cancelled_and_held_is_said_to_be_both_only_then(desk: Desk) -> None:
    await desk.start()
    await desk.command("hold", "wait-3")
    for name in ("wait-2", "wait-3"):
        await desk.command("cancel", name)
    told = (await desk.command("cancel", "wait-2", "wait-3")).out.splitlines()
    assert told == ["cancel: wait-2 (cancelled already)", "cancel: wait-3 (cancelled and held already)"]


@at_desk(ONE)
async def test_a_cancel_of_what_a_command_has_left_running_is_told_as_done(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("t", "running")
    assert desk.launcher is not None
    token, desk.launcher.obedient = desk.order("t").token, False
    desk.launcher.end_leader(token)
    await desk.until_state("t", "closing")
    answer = await desk.request("cancel", tasks=["t"])
    assert (answer["tasks"], answer["left"]) == (["t"], {})
    desk.launcher.end_tree(token)


@at_desk(GATED)
async def test_held_tasks_start_when_they_are_released(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-2", "running")
    assert "hold: wait-3 (held)" in (await desk.command("hold", "wait-3")).out
    await desk.ends("wait-1")
    await desk.ends("wait-2")
    assert ((await desk.row("wait-3"))["held"], desk.started) == (True, ["wait-1", "wait-2"])
    assert (await desk.command("hold", "wait-3")).out == "hold: wait-3 (queued and held already)\n"
    assert (await desk.command("release", "state:held")).code == 0
    await desk.until_state("wait-3", "running")


@at_desk(GATED.replace("sim:2", "sim:1"))
async def test_a_higher_priority_starts_first(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-1", "running")
    assert (await desk.command("priority", "wait-3", "5")).out == "priority: wait-3 (priority 5)\n"
    await desk.ends("wait-1")
    await desk.until_state("wait-3", "running")
    assert desk.state("wait-2") == "queued"
    assert (await desk.command("priority", "wait-2", "-7")).out == "priority: wait-2 (priority -7)\n"


MANY = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "t-{i}"\nmatrix.i = %s\ncommand = "true"\n'


@at_desk(MANY % list(range(21)))
async def test_of_more_than_twenty_tasks_there_is_a_line_for_each_outcome(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("t-0", "running")
    names = [f"t-{i}" for i in range(21)]
    few = await desk.command("hold", *names[1:])
    assert few.out.splitlines() == [f"hold: {name} (held)" for name in names[1:]]
    await desk.command("release", *names[1:])
    assert len((await desk.command("hold", *names)).out.splitlines()) == 2


@at_desk(MIXED)
async def test_a_priority_that_is_no_number_is_refused(desk: Desk) -> None:
    done = await desk.command("priority", "good", "high")
    assert (done.code, "whole number" in done.err, desk.engines) == (2, True, 0)


BETTER = MIXED.replace("echo fine", "echo better")


@at_desk(MIXED, ENDS)
async def test_accept_keeps_a_changed_result(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(BETTER)
    await desk.start()
    assert list(await desk.rows("state:changed")) == ["good"]
    assert (await desk.command("accept", "good")).out == "accept: good (its result counts as it is)\n"
    assert not (await desk.row("good"))["changed"]


@at_desk(MIXED, ENDS)
async def test_accept_before_an_edit_is_applied_says_how_both_are_done(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    desk.write(BETTER)
    assert (await desk.command("apply", "--dry-run")).code == 0
    done = await desk.command("accept", "good")
    assert done.out == "accept: good (has succeeded: it is neither changed nor stale)\n"
    assert "`gpudeck apply --keep`" in done.err


@at_desk(MIXED, ENDS)
async def test_what_has_no_result_to_accept_is_refused_like_any_other_verb(desk: Desk) -> None:
    assert await desk.run() == 1
    done = await desk.command("accept", "bad")
    assert (done.code, done.err) == (
        2,
        "gpudeck: bad has failed: only what is changed or stale has something to accept\n",
    )


@at_desk(MIXED, ENDS)
async def test_of_what_was_named_each_task_has_a_line_also_one_that_stays_as_it_is(desk: Desk) -> None:
    assert await desk.run() == 1
    lines = (await desk.command("cancel", "good", "behind")).out.splitlines()
    assert lines == [
        "cancel: behind (cancelled)",
        "cancel: good (has succeeded: only what has not ended can be cancelled)",
    ]


@at_desk(MIXED.replace("[deck]", '[deck]\nhalt = "soon,fail=1"'), {"bad": 3})
async def test_without_an_engine_explain_says_by_whom_the_run_was_halted(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    await desk.ends("good")
    await desk.leave()
    assert "halted by bad" in (await desk.command("explain", "behind")).out


# -- pause and drain --------------------------------------------------------------------------------------------------


@at_desk(GATED)
async def test_a_paused_deck_starts_nothing_until_it_is_unpaused(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("wait-2", "running")
    assert "is paused: nothing starts; 2 tasks running" in (await desk.command("pause")).out
    await desk.ends("wait-1")
    assert desk.state("wait-3") == "queued"
    assert (await desk.command("unpause")).code == 0
    await desk.until_state("wait-3", "running")


@at_desk(GATED)
async def test_unpause_tells_whether_the_deck_was_paused(desk: Desk) -> None:
    await desk.start()
    assert "was neither paused nor halted; " in (await desk.command("unpause")).out
    assert (await desk.command("pause")).code == 0
    assert " starts tasks again; " in (await desk.command("unpause")).out


# -- engines ----------------------------------------------------------------------------------------------------------


def test_two_commands_at_once_start_one_engine(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    assert deck.command("stop").code == 0
    with typed(deck, "hold", "wait-3") as first, typed(deck, "priority", "wait-3", "7") as second:
        assert (first.finish(), second.finish()) == (0, 0), first.shown + second.shown
    told = re.findall(r"engine (\d+) now runs the deck", first.shown + second.shown)
    assert set(told) == {str(deck.engine_pid())}
    row = deck.rows()["wait-3"]
    assert (row["held"], row["priority"]) == (True, 7)
    gate.let(2)


def test_after_the_engine_was_killed_a_retry_starts_the_next_one(deck: Commanded) -> None:
    deck.write(GATED + BAD)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("wait-2", "running")
    until(lambda: any(isinstance(fact, AttemptEnded) for fact in deck.facts()))
    first = deck.engine_pid()
    os.kill(first, signal.SIGKILL)
    until(lambda: not lives(first))
    assert "retry: bad (attempt 2 " in deck.command("retry", "bad").out
    assert deck.engine_pid() != first
    gate.let(3)
    assert deck.command("wait", "tag:slow").code == 0
    assert deck.rows("wait-1")["wait-1"]["attempt"] == 1


def test_a_frozen_engine_is_named_and_no_second_one_started(deck: Commanded) -> None:
    gate = deck.go_gated()
    pid = deck.engine_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = [deck.follow(*words) for words in (["status"], ["retry", "wait-1"], ["stop"], ["wait"])]
        for done in [each.finish() for each in asked]:
            assert done.code == 3
            assert f"engine {pid} is stopped, `kill -CONT {pid}` lets it go on: it holds the deck's lock" in done.err
        assert deck.engines_alive() == [pid]
    finally:
        os.kill(pid, signal.SIGCONT)
    gate.let(3)
    assert deck.command("wait").code == 0


@at_desk(GATED)
async def test_another_environment_than_the_runs_is_named_in_one_line(desk: Desk) -> None:
    await desk.start()
    done = await desk.command("hold", "wait-3", env={"VIRTUAL_ENV": "/elsewhere"})
    assert done.err == "gpudeck: tasks get VIRTUAL_ENV unset, not what this shell has: see `gpudeck env --refresh`\n"


@at_desk(MIXED, ENDS)
async def test_an_unknown_task_is_refused_with_a_hint(desk: Desk) -> None:
    done = await desk.command("cancel", "behin")
    assert (done.code, "behin: no task" in done.err, desk.engines) == (2, True, 0)
    await desk.start()
    assert "did you mean behind?" in (await desk.command("cancel", "behin")).err
    assert "did you mean state:failed?" in (await desk.command("cancel", "failed")).err


@at_desk(MIXED, ENDS)
async def test_what_comes_to_nothing_starts_no_engine(desk: Desk) -> None:
    assert await desk.run() == 1
    assert (await desk.command("release", "behind")).out == "release: behind (is blocked, and not held)\n"
    done = await desk.command("cancel", "good")
    assert (done.code, "good has succeeded: only what has not ended" in done.err) == (2, True)
    assert desk.engines == 1


@at_desk(MIXED + "nonsense = 1\n")
async def test_a_broken_file_starts_no_engine(desk: Desk) -> None:
    done = await desk.command("retry", "bad")
    assert (done.code, "nonsense" in done.err, desk.engines) == (2, True, 0)


# -- apply ------------------------------------------------------------------------------------------------------------


def test_apply_takes_up_what_was_added_to_the_file(deck: Commanded) -> None:
    gate = deck.go_gated()
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


@at_desk(MIXED)
async def test_apply_without_an_engine_starts_none_to_look(desk: Desk) -> None:
    done = await desk.command("apply", "--dry-run")
    assert (done.code, "the next start takes the file as it is now" in done.out) == (0, True)
    assert desk.engines == 0


@at_desk(MIXED, ENDS)
async def test_apply_runs_what_an_earlier_edit_has_changed(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(BETTER)
    assert "good (command): they run again" in (await desk.command("apply", "--dry-run")).out
    done = await desk.command("apply", "-y")
    assert done.out.splitlines()[-1] == "apply: 1 changed task taken up: good"
    await desk.until(lambda: desk.started.count("good") == 2)
    assert "echo better" in desk.order("good").argv[-1]


async def keeps_its_result(desk: Desk) -> None:
    """`good` counts as done as what the file says now, for this engine and for later ones, and did not run."""
    assert (await desk.command("apply")).out == "nothing has changed\n"
    assert not (await desk.row("good"))["changed"]
    assert (await desk.command("stop")).code == 0
    assert not (await desk.row("good"))["changed"]
    await desk.run()
    assert (desk.state("good"), desk.started.count("good")) == ("cached", 1)


@at_desk(MIXED, ENDS)
async def test_apply_keep_keeps_the_results_of_finished_tasks_that_the_edit_changes(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("bad", "failed")
    await desk.until_state("good", "succeeded")
    desk.write(BETTER)
    dry = (await desk.command("apply", "--dry-run")).out
    assert "good (command): they run again from the beginning, unless their results are kept (--keep)" in dry
    dry = (await desk.command("apply", "--dry-run", "--keep")).out
    assert "good (command): they keep their results" in dry
    done = await desk.command("apply", "--keep", "-y")
    assert done.out.splitlines()[-2:] == ["apply: 1 changed, ended", "apply: 1 result kept: good"]
    await keeps_its_result(desk)


@at_desk(MIXED, ENDS)
async def test_apply_keep_counts_no_task_that_was_cancelled_before_it_ran(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("good", "succeeded")
    await desk.until_state("bad", "failed")
    assert (await desk.command("cancel", "-y", "behind")).code == 0
    desk.write(BETTER.replace('"true"', '"true; true"'))
    done = await desk.command("apply", "--keep", "-y")
    assert done.out.splitlines()[-1] == "apply: 1 result kept: good"


@at_desk(MIXED, ENDS)
async def test_apply_keep_keeps_the_results_of_tasks_that_an_earlier_edit_has_changed(desk: Desk) -> None:
    assert await desk.run() == 1
    desk.write(BETTER)
    assert "good (command): they keep their results" in (await desk.command("apply", "--dry-run", "--keep")).out
    assert (await desk.command("apply", "--keep", "-y")).out.splitlines()[-1] == "apply: 1 result kept: good"
    await keeps_its_result(desk)


def test_of_two_starts_in_one_moment_none_goes_on_with_what_is_stopped_then(deck: Commanded) -> None:
    deck.write(GATED)
    deck.gate()
    starts = [deck.follow("start") for _ in range(3)]
    assert [start.finish().code for start in starts] == [0, 0, 0]
    assert deck.command("stop", "--tasks").code == 0
    until(lambda: not deck.engines_alive())
    assert {row["state"] for row in deck.rows().values()} == {"queued"}
