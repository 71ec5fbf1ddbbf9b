"""`gpudeck logs`: the end of what tasks wrote, and what they go on writing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.commands.commands_rig import MIXED, Commanded, typed
from tests.e2e.decks import until
from tests.rigs.desk import Desk, Ends, at_desk, finished, typed_in

COUNTING = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "count"
    command = "for i in $(seq 100); do echo line $i; done; echo wrong >&2"
"""


LINES = "".join(f"line {number}\n" for number in range(1, 101))
ONE = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "true"\n'
SECOND = '[[task]]\nname = "second"\ncommand = "true"\n'


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished deck with a long log. Only to be looked at."""
    return finished(tmp_path_factory.mktemp("counted"), COUNTING, {"count": Ends(out=LINES, err="wrong\n")})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished deck of several tasks. Only to be looked at."""
    ends = {"good": Ends(out="fine\n"), "bad": Ends(3, err="oops\n"), "second": Ends(out="too\n")}
    return finished(tmp_path_factory.mktemp("mixed"), MIXED + SECOND, ends)


def with_log(folder: Path, data: bytes) -> Path:
    """A finished deck whose task has this log."""
    finished(folder, ONE, {"t": 0})
    (folder / "logs" / "t" / "attempt-1.log").write_bytes(data)
    return folder


def test_the_last_forty_lines_are_shown(deck: Commanded) -> None:
    deck.write(COUNTING)
    assert deck.run().code == 0
    assert deck.command("logs", "count").out.splitlines() == [f"line {number}" for number in range(61, 101)]


def test_n_says_how_many_lines(counted: Path) -> None:
    assert typed_in(counted, "logs", "count", "-n", "2").out == "line 99\nline 100\n"
    assert len(typed_in(counted, "logs", "count", "-n", "1000").out.splitlines()) == 100


def test_what_the_encoding_of_its_output_lacks_is_replaced(deck: Commanded) -> None:
    with_log(deck.folder, "schön\n".encode())
    assert deck.command("logs", "t", env={"PYTHONIOENCODING": "ascii"}).out == "sch?n\n"


def test_err_shows_standard_error(counted: Path) -> None:
    assert typed_in(counted, "logs", "count", "--err").out == "wrong\n"


def test_of_a_task_that_wrote_to_standard_error_alone_that_is_shown(mixed: Path) -> None:
    done = typed_in(mixed, "logs", "bad")
    assert (done.out, "bad attempt 1, standard error:" in done.err) == ("oops\n", True)


def test_of_a_failed_task_both_streams_are_shown_of_one_that_succeeded_its_output(tmp_path: Path) -> None:
    ends = {"good": Ends(out="out\n", err="err\n"), "bad": Ends(3, out="out\n", err="err\n")}
    folder = finished(tmp_path, MIXED, ends)
    assert typed_in(folder, "logs", "bad").out == "out\nerr\n"
    assert typed_in(folder, "logs", "bad", "--err").out == "err\n"
    assert typed_in(folder, "logs", "good").out == "out\n"


def test_without_a_task_the_logs_of_what_runs_are_shown(deck: Commanded) -> None:
    deck.write(
        '[[task]]\nname = "t{n}"\ngpus = 0\ncommand = "echo {n}; [ {n} = 1 ] || read _ <gate"\nmatrix.n = [1, 2]\n'
    )
    gate = deck.gate()
    engine = deck.start()
    engine.ended("t1")
    until(lambda: deck.command("logs").out == "2\n")
    gate.let()
    engine.finish()
    done = deck.command("logs")
    assert (done.code, done.out, "nothing runs" in done.err) == (1, "", True)


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_it_is_1_where_there_is_no_log(mixed: Path, follow: list[str]) -> None:
    done = typed_in(mixed, "logs", "behind", *follow)
    assert (done.code, "behind has not run: it is blocked" in done.err) == (1, True)


def test_several_tasks_have_their_names_before_their_lines(mixed: Path) -> None:
    done = typed_in(mixed, "logs", "*", "-n", "1")
    assert done.out.splitlines() == ["good   | fine", "bad    | oops", "second | too"]
    assert "behind has not run: it is blocked" in done.err


@at_desk(ONE + 'retries = 1\nbackoff = "0s"\n')
async def test_an_earlier_attempt_can_be_named(desk: Desk) -> None:
    await desk.start()
    await desk.ends("t", 1, out="try 1\n")
    await desk.until(lambda: len(desk.started) == 2)
    await desk.ends("t", 1, out="try 2\n")
    assert (await desk.command("logs", "t")).out == "try 2\n"
    assert (await desk.command("logs", "t", "--attempt", "1")).out == "try 1\n"
    done = await desk.command("logs", "t", "--attempt", "3")
    assert (done.code, "t has 2 attempts" in done.err) == (2, True)


@at_desk(ONE)
async def test_of_a_rank_without_a_log_it_is_said_whether_there_may_be_one_yet(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("t", "running")
    words = ("logs", "t", "--rank", "1")
    assert "t attempt 1 has no log of rank 1 yet" in (await desk.command(*words)).err
    await desk.ends("t")
    assert "t attempt 1 has no rank 1: all it wrote is in one log" in (await desk.command(*words)).err


def test_nothing_of_a_log_reaches_the_terminal_raw_but_colours(deck: Commanded) -> None:
    hostile = (
        b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\xc2\x9b1A\x00\x08\xff\xe2\x80\xaeabc\x1b[8mhidden\n"
        b"\x1bP1;1q\x1b\\\x1b[?1049hdone\x1b[5n\n"
    )
    with_log(deck.folder, hostile)
    assert deck.command("logs", "t").out == "red\ufffdabchidden\ndone\n"
    with typed(deck, "logs", "t") as terminal:
        assert terminal.finish() == 0
        shown = terminal.shown.replace("\r\n", "\n")
    assert shown.endswith("\x1b[31mred\x1b[0m\ufffdabchidden\x1b[0m\ndone\x1b[0m\n")


def test_of_a_progress_bar_the_last_frame_is_shown(tmp_path: Path) -> None:
    with_log(tmp_path, b"epoch 1\n" + b"".join(b"\r%d%%" % i for i in range(101)))
    assert typed_in(tmp_path, "logs", "t").out == "epoch 1\n100%\n"


def test_a_log_of_a_gigabyte_is_read_from_its_end(tmp_path: Path) -> None:
    with_log(tmp_path, b"first\n")
    with (tmp_path / "logs" / "t" / "attempt-1.log").open("r+b") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    assert typed_in(tmp_path, "logs", "t", "-n", "2").out == "last but one\nlast\n"


def test_a_log_that_has_vanished_is_named(tmp_path: Path) -> None:
    path = with_log(tmp_path, b"") / "logs" / "t" / "attempt-1.log"
    path.unlink()
    done = typed_in(tmp_path, "logs", "t")
    assert (done.code, f"{path} is not there" in done.err) == (1, True)


def test_a_pipe_in_the_place_of_a_log_holds_up_nobody(tmp_path: Path) -> None:
    path = with_log(tmp_path, b"") / "logs" / "t" / "attempt-1.log"
    path.unlink()
    os.mkfifo(path)
    assert typed_in(tmp_path, "logs", "t").code == 1


def test_following_goes_through_later_attempts(deck: Commanded) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t"
        command = "echo try {attempt}; read _ <gate; exit 1"
        retries = 2
        backoff = "10ms"
    """)
    gate = deck.gate()
    assert deck.go().code == 0
    with typed(deck, "logs", "t", "-f") as terminal:
        for number in (1, 2, 3):
            terminal.until(f"try {number}")
            gate.let()
        assert terminal.finish() == 0


def test_following_starts_with_a_task_that_has_not_begun(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-2", "running")
    with typed(deck, "logs", "wait-3", "-f") as terminal:
        terminal.until("has not run: it is queued")
        gate.let(3)
        assert terminal.finish() == 0
        assert "begin 3\r\nend 3" in terminal.shown


def test_a_progress_bar_is_followed_in_place(deck: Commanded) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t"
        command = "printf '\\rstep 1/3 %0200d'; read _ <gate; printf '\\rstep 2/3'; read _ <gate; echo"
    """)
    gate = deck.gate()
    assert deck.go().code == 0
    with typed(deck, "logs", "t", "-f", columns=100) as terminal:
        terminal.until("step 1/3")
        gate.let()
        terminal.until("\r\x1b[Kstep 2/3")
        assert max(map(len, terminal.shown.split("\r"))) < 100  # what is wider would be wiped in part
        gate.let()
        assert terminal.finish() == 0
        assert terminal.shown.endswith("\r\x1b[Kstep 2/3\r\n")


def test_following_goes_on_when_the_engine_is_killed(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-1", "running")
    with typed(deck, "logs", "wait-1", "-f") as terminal:
        terminal.until("begin 1")
        os.kill(deck.engine_pid(), signal.SIGKILL)
        terminal.until("the engine has ended")
        gate.let(3)
        assert terminal.finish() == 0
        assert "end 1" in terminal.shown


def test_ctrl_c_ends_the_following_and_no_task(deck: Commanded) -> None:
    gate = deck.go_gated()
    with typed(deck, "logs", "wait-1", "-f") as terminal:
        terminal.until("begin 1")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert deck.state("wait-1") == "running"
    gate.let(3)


def test_a_log_that_is_removed_while_it_is_followed_is_read_to_its_end(deck: Commanded) -> None:
    gate = deck.go_gated()
    deck.until_state("wait-1", "running")
    with typed(deck, "logs", "wait-1", "-f") as terminal:
        terminal.until("begin 1")
        (deck.folder / "logs" / "wait-1" / "attempt-1.log").unlink()
        gate.let(3)
        assert terminal.finish() == 0
        assert "end 1" in terminal.shown


def test_a_reader_that_goes_away_ends_it_silently(deck: Commanded) -> None:
    finished(deck.folder, COUNTING, {"count": Ends(out=LINES)})
    piped = deck.shell("gpudeck logs count -n 100 | head -n 1")
    assert (piped.out, piped.err) == ("line 1\n", "gpudeck: no engine runs this deck; its last run has ended\n")
