"""`gpudeck run -i`: a shell or a debugger on a GPU, at a terminal that can be left and come back to."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

import pytest

from tests.commands.commands_rig import Commanded, Typed, typed
from tests.commands.run_rig import ONE, runs_of, state_of, until_run
from tests.e2e.decks import until

pytestmark = pytest.mark.terminal
SHELL = (*ONE, "-i", "--name", "sh", "--", "bash", "--norc", "-i")


def asked(terminal: Typed, line: str, answer: str) -> None:
    """Type a line into the shell and wait for its answer, which the echo of the line does not have."""
    assert answer not in line
    terminal.type(f"{line}\n")
    terminal.until(answer)


def test_what_is_typed_goes_to_the_command_on_its_gpu_and_its_exit_code_comes_back(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo gpu=$CUDA_VISIBLE_DEVICES$((1+1))", "gpu=02")
        asked(terminal, "stty size | tr ' ' x", "30x100")
        terminal.type("exit 7\n")
        assert terminal.finish() == 7
    assert "gpu=02" in deck.command("logs", "--queue", "sh").out


def test_what_failed_in_a_session_is_not_why_it_ended(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo 'OSError: [Errno 98] Address alr''eady in use'", "Address already in use")
        terminal.type("exit 7\n")
        assert terminal.finish() == 7
    until_run(deck, "sh", "failed")
    row = runs_of(deck)["sh"]
    assert (row["reason"], row["attempt"]) == ("exit 7", 1)


def test_ctrl_c_is_for_what_runs_there(deck: Commanded) -> None:
    waits = "import time\ntry:\n    print('re' + 'ady', flush=True)\n    time.sleep(1000)\n"
    waits += "except KeyboardInterrupt:\n    raise SystemExit(5)"
    with typed(deck, *ONE, "-i", "--name", "py", "--", "python3", "-c", waits) as terminal:
        terminal.until("ready")
        terminal.type("\x03")
        assert terminal.finish() == 5


def test_who_leaves_finds_it_as_it_was_and_what_was_shown_last(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "mine=4''2; echo set=$mine", "set=42")
        terminal.type("\x1c")
        assert terminal.finish() == 0
        terminal.until("gpudeck attach sh")
    assert state_of(deck, "sh") == "running"
    with typed(deck, "attach", "sh") as terminal:
        terminal.until("set=42")
        asked(terminal, "echo again=$mine", "again=42")
        terminal.type("exit\n")
        assert terminal.finish() == 0
    until_run(deck, "sh", "succeeded")


@pytest.mark.parametrize("killed", [False, True])
def test_who_sits_down_again_gets_its_exit_code_also_where_the_engine_is_gone(deck: Commanded, *, killed: bool) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        terminal.type("\x1c")
        assert terminal.finish() == 0
    if killed:
        deck.kill_engine()
    with typed(deck, "attach", "sh") as terminal:
        asked(terminal, "echo ag''ain", "again")
        terminal.type("exit 9\n")
        assert terminal.finish() == 9


def test_what_a_shell_leaves_in_the_background_is_told_and_ctrl_c_stops_it(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "sleep 300 & echo le''ft", "left")
        terminal.type("exit 4\n")
        terminal.until("sh: exit 4, keeps its slot until all that it started has ended; Ctrl-C stops that")
        assert re.search(
            r"sh does not wait: attempt 1 is closing on GPU \d, \w+ after it began: exit 4, keeps its slot",
            deck.command("explain", "--queue", "sh").out,
        )
        terminal.type("\x03")
        assert terminal.finish() == 4


def test_who_sits_down_elsewhere_ends_the_session_of_who_sat_there_and_not_the_command(deck: Commanded) -> None:
    with typed(deck, *SHELL) as first:
        asked(first, "echo re''ady", "ready")
        with typed(deck, "attach", "sh") as second:
            asked(second, "echo h''ere", "here")
            first.until("sh goes on at another terminal: `gpudeck attach sh` brings it back")
            assert first.finish() == 0
            second.type("exit\n")
            assert second.finish() == 0


def test_a_line_that_is_cut_leaves_it_running(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        terminal.process.send_signal(signal.SIGHUP)  # as the kernel does then
        terminal.finish()
    assert state_of(deck, "sh") == "running"
    assert deck.command("cancel", "--queue", "sh").code == 0
    until_run(deck, "sh", "cancelled")


def test_it_goes_on_through_kill_9_of_its_engine(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        deck.kill_engine()
        asked(terminal, "echo al''ive", "alive")
        terminal.type("exit 3\n")
        assert terminal.finish() == 3


def test_its_exit_code_comes_also_from_an_engine_that_was_started_in_the_place_of_a_stopped_one(
    deck: Commanded,
) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        assert deck.command("stop", "--queue").code == 0
        assert deck.command("start", "--queue").code == 0
        terminal.type("exit 4\n")
        assert terminal.finish() == 4


def test_a_window_that_changes_its_size_is_told(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "trap 'stty size | tr \" \" x' WINCH; echo re''ady", "ready")
        terminal.resize(40, 120)
        terminal.process.send_signal(signal.SIGWINCH)
        until(lambda: re.search(r"40x120", terminal.shown))
        terminal.type("exit\n")
        terminal.finish()


def test_a_long_text_that_is_pasted_arrives_whole_while_the_command_writes(deck: Commanded) -> None:
    count = "import sys, tty; tty.setraw(0); print('re' + 'ady', flush=True)\nn = 0\n"
    count += "while n < 300000:\n    data = sys.stdin.buffer.raw.read(4096); n += len(data)\n"
    count += "    sys.stdout.write('.' * 4 * len(data)); sys.stdout.flush()\nprint('all of it')"
    with typed(deck, *ONE, "-i", "--name", "count", "--", "python3", "-c", count) as terminal:
        terminal.until("ready")
        terminal.type("x" * 300000)
        terminal.until("all of it")
        assert terminal.finish() == 0


def test_without_a_terminal_it_is_refused_and_nothing_is_left(deck: Commanded) -> None:
    done = deck.command(*SHELL)
    assert (done.code, done.err) == (2, "gpudeck: there is no terminal here to pass on\n")
    assert deck.command("ls", "--queue").code == 2
    several = deck.command(*ONE, "-i", "-d", "--launch", "torchrun", "--", "true")
    assert (several.code, "several processes" in several.err) == (2, True)


def test_what_has_no_terminal_cannot_be_sat_at(deck: Commanded) -> None:
    with typed(deck, "attach", "nobody") as terminal:
        assert terminal.finish() == 2
        assert "nobody: no command of this name runs on a terminal" in terminal.shown


def test_who_mistypes_the_name_is_told_which_there_are(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        mistyped = deck.command("attach", "hs")
        terminal.type("exit\n")
        assert terminal.finish() == 0
    assert mistyped.code == 2
    assert "hs: no command of this name runs on a terminal of `gpudeck run -i`; sh does" in mistyped.err


def test_a_session_that_ended_says_how_it_starts_again_and_a_retry_who_can_sit_down(deck: Commanded) -> None:
    with typed(deck, *SHELL) as terminal:
        asked(terminal, "echo re''ady", "ready")
        assert "  command   bash --norc -i\n" in deck.command("show", "--queue", "sh").out
        terminal.type("exit 3\n")
        assert terminal.finish() == 3
    assert "sh has failed: `gpudeck retry --queue sh` starts it again" in deck.command("attach", "sh").err
    assert "`gpudeck attach --queue sh` sits down at sh" in deck.command("retry", "--queue", "sh").err
    deck.write('[[task]]\nname = "t"\ncommand = "true"\n')
    until(lambda: "`gpudeck attach sh` sits down at sh of your queue\n" in deck.command("attach").err)
    assert deck.command("kill", "--queue", "sh").code == 0


@contextlib.contextmanager
def waiting(deck: Commanded) -> Iterator[Typed]:
    """`next`, which waits for the only GPU until the block ends."""
    with typed(deck, *SHELL) as first:
        asked(first, "echo re''ady", "ready")
        with typed(deck, *ONE, "-i", "--name", "next", "--", "bash") as second:
            until_run(deck, "next", "queued")
            yield second
        first.type("exit\n")
        first.finish()


def test_who_leaves_while_it_still_waits_is_told_how_to_sit_down_later(deck: Commanded) -> None:
    with waiting(deck) as terminal:
        terminal.until("waits")
        terminal.type("\x1c")
        assert terminal.finish() == 0
        assert "next still waits: `gpudeck attach next` sits down once it has started" in terminal.shown
        assert state_of(deck, "next") == "queued"
    assert deck.command("kill", "--queue", "next").code == 0


def test_who_sits_down_before_it_has_started_is_told_that_it_waits(deck: Commanded) -> None:
    with waiting(deck) as terminal:
        early = deck.command("attach", "next")
        terminal.type("\x03")
        terminal.finish()
    assert (early.code, "next is queued: its terminal opens as it starts" in early.err) == (2, True)
