"""Ending an engine, with its tasks and without; taking a deck over."""

from __future__ import annotations

from tests.commands.commands_rig import GATED, MIXED, Commanded
from tests.rigs.desk import Desk, at_desk


def test_stop_leaves_the_tasks_running_for_the_next_engine(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    pid = deck.engine_pid()
    done = deck.command("stop")
    assert (done.code, f"engine {pid} has ended: 2 tasks run on" in done.out) == (0, True)
    assert deck.holder() is None
    gate.let(3)
    assert deck.go().code == 0
    assert deck.command("wait").code == 0
    assert {row["attempt"] for row in deck.rows().values()} == {1}


def test_stop_tasks_ends_the_tasks_too_and_the_next_start_takes_them_up(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    done = deck.command("stop", "--tasks")
    assert done.out.splitlines()[0] == "stopping 2 tasks …"
    assert "has ended: no task runs; the next start takes up what was stopped" in done.out
    assert deck.living() == []
    assert deck.go().code == 0
    gate.let(3)
    assert deck.command("wait").code == 0


def test_stop_tasks_ends_what_runs_on_without_an_engine(deck: Commanded) -> None:
    deck.go_gated()
    deck.until_state("wait-2", "running")
    assert deck.command("stop").code == 0
    assert deck.living()
    done = deck.command("stop", "--tasks", "--now")
    assert (done.code, "has ended: no task runs; the next start takes up what was stopped" in done.out) == (0, True)
    assert (deck.living(), deck.engines_alive()) == ([], [])
    assert deck.rows("wait-3")["wait-3"]["attempt"] == 0
    assert deck.command("stop", "--tasks").out == "no engine runs this deck\n"


@at_desk(GATED)
async def test_stop_works_when_the_file_has_been_broken_meanwhile(desk: Desk) -> None:
    await desk.start()
    desk.write("[[task]\n")
    assert (await desk.command("stop", "--tasks", "--now")).code == 0
    assert (await desk.over(), desk.in_state("running")) == (0, [])


@at_desk(MIXED)
async def test_now_without_tasks_is_refused(desk: Desk) -> None:
    assert (await desk.command("stop", "--now")).code == 2


def test_a_headless_run_can_be_looked_at_and_stopped(deck: Commanded) -> None:
    deck.write(GATED)
    deck.gate()
    engine = deck.start()
    engine.started("wait-1", "wait-2")
    assert deck.state("wait-1") == "running"
    assert deck.command("stop", "--tasks").code == 0
    assert engine.finish().code == 143


@at_desk(GATED)
async def test_a_deck_that_runs_here_is_not_taken_over(desk: Desk) -> None:
    await desk.start()
    done = await desk.command("takeover", "-y")
    assert (done.code, "runs this deck" in done.err, desk.engines) == (3, True, 1)
