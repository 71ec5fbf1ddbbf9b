"""`gpudeck attach`, and `gpudeck` on a terminal: following a deck whose engine does not depend on it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.commands.commands_rig import GATED, MIXED, Commanded, typed
from tests.rigs.desk import Desk, at_desk, typed_in

TASKS = ("wait-1", "wait-2", "wait-3")


def test_attach_without_an_engine_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    done = typed_in(tmp_path, "attach")
    assert (done.code, "`gpudeck` starts one" in done.err) == (3, True)


def test_attach_tells_what_happens_until_the_run_ends(deck: Commanded) -> None:
    deck.write(GATED.replace("echo end {i}", "exit {i}"))
    gate = deck.gate()
    assert deck.go().code == 0
    attached = deck.follow("attach")
    attached.until("run 1 goes on")
    gate.let(3)
    done = attached.finish()
    assert done.code == 1
    assert "fail  wait-3  attempt 1" in done.out
    assert "3 tasks: 3 failed" in done.out


@at_desk(GATED)
async def test_the_summary_has_the_end_of_the_task_that_ended_last(desk: Desk) -> None:
    await desk.start()
    attached = desk.begin("attach")
    await attached.until("run 1 goes on")
    for name in TASKS:
        await desk.ends(name, 1)
    table = (await attached.finish()).out.partition("\ntask ")[2]
    assert [line.split()[1] for line in table.splitlines() if line.startswith("wait-")] == ["failed"] * 3


@at_desk('[deck]\ngpus = "none"\n[[task]]\nname = "t"\ncommand = "true"\n')
async def test_the_summary_tells_no_place_of_what_could_not_be_started(desk: Desk) -> None:
    await desk.start()
    attached = desk.begin("attach")
    await attached.until("run 1 goes on")
    await desk.until(lambda: "t" in desk.started)
    assert desk.launcher is not None
    desk.launcher.end(desk.order("t").token, None, spawn_error="no such file")
    table = (await attached.finish()).out.partition("\ntask ")[2]
    assert table.splitlines()[1].split()[:4] == ["t", "failed", "1", "-"]


@at_desk(MIXED, {"good": 0, "bad": 3})
async def test_attach_to_a_run_that_has_ended_returns_at_once(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("behind", "blocked")
    done = await desk.command("attach")
    assert (done.code, "run 1 has ended: 3 tasks: 1 succeeded" in done.out) == (1, True)


def test_ctrl_c_detaches_and_stops_nothing(deck: Commanded) -> None:
    gate = deck.go_gated()
    pid = deck.engine_pid()
    with typed(deck, "attach") as terminal:
        terminal.until("run 1 goes on")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert f"detached: engine {pid} and its tasks go on" in terminal.shown
    assert deck.engine_pid() == pid
    assert deck.state("wait-1") == "running"
    gate.let(3)


@at_desk(GATED)
async def test_attached_to_an_engine_that_is_stopped_it_says_so(desk: Desk) -> None:
    await desk.start()
    attached = desk.begin("attach")
    await attached.until("goes on")
    assert (await desk.command("stop")).code == 0
    done = await attached.finish()
    assert (done.code, "ended by gpudeck stop" in done.out) == (3, True)


def test_gpudeck_on_a_terminal_starts_an_engine_and_follows_it(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, "tasks.toml", "--plain") as terminal:
        terminal.until("runs on when this ends")
        assert f"engine {deck.engine_pid()} runs on when this ends" in terminal.shown.replace("\r\n", "")
        gate.let(3)
        assert terminal.finish() == 0
        assert "3 tasks: 3 succeeded" in terminal.shown


@at_desk(GATED)
async def test_gpudeck_on_a_terminal_follows_the_engine_that_is_there(desk: Desk) -> None:
    await desk.start()
    following = desk.begin("tasks.toml", "--plain", terminal=True)
    await following.until(f"engine {os.getpid()} runs on when this ends")
    await desk.until_in_time(lambda: "2 running on SIM 0-1" in following.said)
    for name in TASKS:
        await desk.ends(name)
    done = await following.finish()
    assert (done.code, "3 tasks: 3 succeeded" in done.out, desk.engines) == (0, True, 1)


@at_desk(MIXED)
async def test_gpudeck_without_a_terminal_starts_nothing(desk: Desk) -> None:
    done = await desk.command("tasks.toml")
    assert (done.code, "`gpudeck --headless` runs the deck" in done.err, desk.engines) == (2, True, 0)


@at_desk(GATED, {"wait-1": 0, "wait-2": 0})
async def test_options_of_a_run_hold_for_the_engine_that_a_command_starts(desk: Desk) -> None:
    await desk.start("--limit", "2")
    for name in ("wait-1", "wait-2"):
        await desk.until_state(name, "succeeded")
    assert (await desk.command("stop")).code == 0
    assert (await desk.command("retry", "wait-1")).code == 0
    assert (await desk.command("wait")).code == 0
    assert (await desk.row("wait-3"))["left_out"]
