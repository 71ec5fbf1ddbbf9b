"""`gpudeck wait`: its exit code tells what became of the tasks."""

from __future__ import annotations

import os
import signal

from tests.commands.commands_rig import GATED, MIXED, Commanded
from tests.e2e.decks import until


def test_it_is_0_when_all_have_succeeded(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    gate.let(3)
    assert deck.command("wait").code == 0


def test_it_is_1_when_one_failed_and_the_rest_is_blocked(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.go().code == 0
    done = deck.command("wait")
    assert (done.code, "1 failed, 1 blocked: bad, behind" in done.err) == (1, True)


def test_only_the_tasks_that_are_meant_count(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.go().code == 0
    assert deck.command("wait", "good").code == 0
    assert deck.command("wait", "bad").code == 1


def test_it_is_124_when_the_time_is_over(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    done = deck.command("wait", "--timeout", "200ms")
    assert (done.code, "after the time given" in done.err) == (124, True)
    gate.let(3)


def test_a_time_that_is_none_is_refused(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.command("wait", "--timeout", "soon").code == 2


def test_without_an_engine_it_returns_at_once(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("wait")
    assert (done.code, "without an engine nothing of that changes" in done.err) == (1, True)
    assert deck.run().code == 1
    assert deck.command("wait", "good").code == 0


def test_it_goes_on_with_the_next_engine_when_one_is_killed(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
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


def test_it_says_that_only_a_user_can_end_the_waiting(deck: Commanded) -> None:
    deck.write(GATED)
    gate = deck.gate()
    assert deck.go().code == 0
    assert deck.command("hold", "wait-3").code == 0
    gate.let(2)
    done = deck.command("wait", "--timeout", "2s")
    assert (done.code, "only held tasks are left: `gpudeck release SEL`" in done.err) == (124, True)


def has_socket(pid: int) -> bool:
    """It is connected to the engine, or about to be."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
        return any(os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:") for name in names)
    except OSError:
        return False
