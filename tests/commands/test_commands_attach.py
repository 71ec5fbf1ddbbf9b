"""`gpudeck attach`, and `gpudeck` on a terminal: following a deck whose engine does not depend on it."""

from __future__ import annotations

from tests.commands.commands_rig import GATED, MIXED, Commanded, typed


def test_attach_without_an_engine_says_what_to_do(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("attach")
    assert (done.code, "`gpudeck` starts one" in done.err) == (3, True)


def test_attach_tells_what_happens_until_the_run_ends(deck: Commanded) -> None:
    deck.write(GATED.replace("echo end {i}", "exit {i}"))
    gate = deck.gate()
    assert deck.go().code == 0
    gate_opened = deck.command("hold", "wait-3")
    assert gate_opened.code == 0
    attached = deck.follow("attach")
    attached.until("run 1 goes on")
    assert deck.command("release", "wait-3").code == 0
    gate.let(3)
    done = attached.finish()
    assert done.code == 1
    assert "fail  wait-3  attempt 1" in done.out
    assert "3 tasks: 3 failed" in done.out


def test_the_summary_has_the_end_of_the_task_that_ended_last(deck: Commanded) -> None:
    deck.write(GATED.replace("echo end {i}", "exit {i}"))
    gate = deck.gate()
    assert deck.go().code == 0
    attached = deck.follow("attach")
    attached.until("run 1 goes on")
    gate.let(3)
    table = attached.finish().out.partition("\ntask ")[2]
    assert [line.split()[1] for line in table.splitlines() if line.startswith("wait-")] == ["failed"] * 3


def test_attach_to_a_run_that_has_ended_returns_at_once(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.go().code == 0
    assert deck.command("wait").code == 1
    done = deck.command("attach")
    assert (done.code, "run 1 has ended: 3 tasks: 1 succeeded" in done.out) == (1, True)


def test_ctrl_c_detaches_and_stops_nothing(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    pid = deck.engine_pid()
    with typed(deck, "attach") as terminal:
        terminal.until("running on SIM")
        terminal.type("\x03")
        assert terminal.finish() == 130
        assert f"detached: engine {pid} and its tasks go on" in terminal.shown
    assert deck.engine_pid() == pid
    assert deck.state("wait-1") == "running"
    gate.let(3)


def test_two_that_are_attached_see_the_same_end(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    first, second = deck.follow("attach"), deck.follow("attach")
    first.until("goes on")
    second.until("goes on")
    gate.let(3)
    ends = [first.finish(), second.finish()]
    assert [end.code for end in ends] == [0, 0]
    assert all("3 tasks: 3 succeeded" in end.out for end in ends)


def test_attached_to_an_engine_that_is_stopped_it_says_so(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    attached = deck.follow("attach")
    attached.until("goes on")
    assert deck.command("stop").code == 0
    done = attached.finish()
    assert (done.code, "ended by gpudeck stop" in done.out) == (3, True)
    gate.let(3)


def test_gpudeck_on_a_terminal_starts_an_engine_and_follows_it(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, "tasks.toml", "--plain") as terminal:
        terminal.until("running on SIM")
        pid = deck.engine_pid()
        assert f"engine {pid} runs on when this ends" in terminal.shown.replace("\r\n", "")
        gate.let(3)
        assert terminal.finish() == 0
        assert "3 tasks: 3 succeeded" in terminal.shown


def test_gpudeck_without_a_terminal_starts_nothing(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("tasks.toml")
    assert (done.code, "`gpudeck --headless` runs the deck" in done.err, deck.engines_alive()) == (2, True, [])


def test_other_run_options_than_the_engines_are_refused(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, "tasks.toml", "--plain", "--limit", "2") as terminal:
        terminal.until("running on SIM")
        with typed(deck, "tasks.toml", "--plain", "--limit", "1") as other:
            assert other.finish() == 2
            assert "--limit 1: the engine that runs this deck was started with --limit 2" in other.shown
        with typed(deck, "tasks.toml", "--plain", "--limit", "2") as same:
            same.until("running on SIM")
    gate.let(2)


def test_options_of_a_run_hold_for_the_engine_that_a_command_starts(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    with typed(deck, "tasks.toml", "--plain", "--limit", "2") as terminal:
        terminal.until("running on SIM")
    assert deck.command("stop").code == 0
    gate.let(3)
    assert deck.go().code == 0
    assert deck.command("wait").code == 0
    assert deck.rows("wait-3")["wait-3"]["left_out"]
    done = deck.command("retry", "wait-3")
    assert done.code == 2
