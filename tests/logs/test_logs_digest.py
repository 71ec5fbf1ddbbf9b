"""The digest: the lines a user would have looked for in the log."""

from pathlib import Path

import pytest

from tests.inside.logs import digest, printable

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def logs(tmp_path):
    """Writes (stderr, stdout) and returns their digest."""

    def read(err=b"", out=b"", **options):
        (tmp_path / "attempt-1.err").write_bytes(err)
        (tmp_path / "attempt-1.log").write_bytes(out)
        return digest(str(tmp_path / "attempt-1.err"), str(tmp_path / "attempt-1.log"), **options)

    return read


def sample(name):
    return (SAMPLES / name).read_bytes()


def test_no_logs_give_no_lines(tmp_path):
    assert digest(str(tmp_path / "a.err"), str(tmp_path / "a.log")) == ()


def test_of_a_log_that_names_no_error_the_last_twenty_lines_are_told(tmp_path):
    (tmp_path / "a.log").write_text("".join(f"line {number}\n" for number in range(30)))
    assert digest(str(tmp_path / "a.err"), str(tmp_path / "a.log")) == tuple(f"line {at}" for at in range(10, 30))


def test_a_traceback_stands_alone(logs):
    assert logs(b"starting\n" + sample("atexit.err")) == (
        "Traceback (most recent call last):",
        '  File "/home/ann/exp/train.py", line 6, in <module>',
        '    raise ValueError("bad rate 1.5")',
        "ValueError: bad rate 1.5",
    )


def test_chained_exceptions_are_whole(logs):
    lines = logs(sample("chained.err"))
    assert [line for line in lines if "Error: " in line] == [
        "KeyError: 'pets'",
        "RuntimeError: no config for pets",
        "ValueError: bad rate 1.5",
    ]
    assert "During handling of the above exception, another exception occurred:" in lines


def test_an_exception_group_is_whole(logs):
    lines = logs(sample("group.err"))
    assert lines == tuple(sample("group.err").decode().splitlines())


def test_a_rich_traceback_is_whole(logs):
    lines = logs(sample("rich.err"))
    assert lines[0].startswith("╭")
    assert lines[-1] == "ValueError: bad rate 1.5"


def test_a_syntax_error_shows_its_line(logs):
    assert logs(sample("syntax.err"))[-1] == "SyntaxError: invalid syntax"


def test_a_message_of_several_lines_is_kept(logs):
    text = (
        b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
        b"RuntimeError: CUDA error: device-side assert triggered\n"
        b"CUDA kernel errors might be asynchronously reported at some other API call.\n"
        b"For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n\nwandb: waiting\n"
    )
    assert logs(text)[-1] == "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"


def test_a_traceback_glued_to_a_progress_bar_is_found(logs):
    text = b"  0%|          | 0/10 [00:00<?, ?it/s]" + sample("atexit.err")
    assert logs(text)[0] == "Traceback (most recent call last):"


def test_torchruns_digest_is_the_first_failing_ranks_traceback(logs):
    lines = logs(sample("torchrun_exception.err"))
    assert (lines[0], lines[-1]) == ("rank 1:", "ValueError: bad rate 1.5")
    assert not any("Connection closed" in line for line in lines)


def test_a_rank_without_words_is_told_by_torchruns_own_block(logs):
    lines = logs(sample("torchrun_killed.err"))
    assert lines[0] == "Root Cause (first observed failure):"
    assert any("SIGKILL" in line for line in lines)
    assert not any("reset by peer" in line for line in lines)


def test_a_rank_with_a_log_of_its_own_is_read_there(tmp_path):
    launcher = b"".join(
        line for line in sample("torchrun_exception.err").splitlines(keepends=True) if not line.startswith(b"[rank")
    )
    (tmp_path / "attempt-1.err").write_bytes(launcher)
    (tmp_path / "attempt-1.log").write_bytes(b"")
    (tmp_path / "attempt-1.rank1.log").write_bytes(sample("chained.err"))
    lines = digest(str(tmp_path / "attempt-1.err"), str(tmp_path / "attempt-1.log"))
    assert (lines[0], lines[-1]) == ("rank 1 of 2:", "ValueError: bad rate 1.5")


def test_without_a_traceback_it_is_the_end_of_stderr(logs):
    text = b"".join(b"line %d\n" % number for number in range(100))
    assert logs(text, b"stdout\n", n=3) == ("line 97", "line 98", "line 99")


def test_without_stderr_it_is_the_end_of_stdout(logs):
    assert logs(b"", b"one\ntwo\n", n=20) == ("one", "two")


def test_a_flood_of_progress_bars_is_one_line(logs):
    frames = b"".join(b"\r%3d%%|##   | %d/100 [00:01<00:02,  9.1it/s]" % (done, done) for done in range(100))
    nested = b"".join(b"%3d%%|##   | %d/100 [00:01<00:02,  9.1it/s]\n\x1b[A" % (done, done) for done in range(100))
    assert logs(b"loading\n" + frames + b"\n" + nested + b"assertion failed\n") == (
        "loading",
        " 99%|##   | 99/100 [00:01<00:02,  9.1it/s]",
        "assertion failed",
    )


def test_a_huge_traceback_keeps_its_beginning_and_its_end(logs):
    frames = b"".join(b'  File "a.py", line %d, in f\n    g()\n' % number for number in range(500))
    lines = logs(b"Traceback (most recent call last):\n" + frames + b"ValueError: deep\n", n=20)
    assert len(lines) == 60
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "ValueError: deep")
    assert any("lines left out" in line for line in lines)


def test_a_traceback_cut_off_by_the_end_of_the_log_is_not_shown_as_one(logs):
    assert logs(b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n')[-1] == "    g()"


def test_escape_sequences_and_garbage_come_out_printable(logs):
    lines = logs(b"\x1b]0;evil\x07\x1b[31mred\x1b[0m \xff\x00\x9b\n" + bytes(range(256)))
    assert [printable(line) for line in lines] == list(lines)


def test_ten_megabytes_in_one_line_give_one_short_line(logs):
    (line,) = logs(b"x" * 10_000_000)
    assert len(line) == 4096


def test_the_first_failing_rank_is_found_before_the_tracebacks_of_many_others(logs):
    others = b"".join(
        b"[rank%d]: Traceback (most recent call last):\n" % rank
        + b'[rank%d]:   File "/home/ann/exp/train.py", line 8, in <module>\n' % rank * 400
        + b"[rank%d]: RuntimeError: Connection closed by peer\n" % rank
        for rank in range(2, 8)
    )
    first, rest = sample("torchrun_exception.err").split(b"[rank0]", 1)
    lines = logs(first + others + b"[rank0]" + rest)
    assert (lines[0], lines[-1]) == ("rank 1:", "ValueError: bad rate 1.5")


def test_a_killed_ranks_last_lines_stand_before_torchruns_block(logs):
    lines = logs(b"[rank1]: Watchdog caught collective operation timeout\n" + sample("torchrun_killed.err"))
    assert lines[0] == "[rank1]: Watchdog caught collective operation timeout".partition(" ")[2]
    assert lines[1] == "Root Cause (first observed failure):"


def test_a_data_loader_workers_traceback_stands_with_the_one_that_waited_for_it(logs):
    lines = logs(sample("dataloader.err"))
    assert "ValueError: Caught ValueError in DataLoader worker process 0." in lines
    assert lines[-1] == "ValueError: bad image"


def test_a_spawned_processs_own_traceback_is_the_one_shown(logs):
    lines = logs(sample("spawn.err"))
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "ValueError: bad rate 1.5")
    assert not any("ProcessRaisedException" in line for line in lines)


def test_a_traceback_without_a_cause_is_better_than_none(logs):
    text = b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nKeyboardInterrupt\n'
    assert logs(text)[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("line", [b"gpudeck: 6: exec: trian: not found\n", b"gpudeck: line 6: trian: not found\n"])
def test_a_command_that_is_not_found_is_told_without_our_shells_line(logs, line):
    assert logs(line) == ("command not found: trian",)


CLEANUP = b"".join(b"cleanup %d\n" % number for number in range(500))


def test_a_traceback_is_shown_although_much_was_said_after_it(logs):
    assert logs(sample("atexit.err") + CLEANUP)[-1] == "ValueError: bad rate 1.5"


def test_an_error_is_shown_with_what_led_to_it_and_the_end_of_what_was_said_after_it(logs):
    lines = logs(b"loading\nERROR: no data\n" + CLEANUP)
    assert lines == (
        "loading", "ERROR: no data", "  … 497 lines left out …", "cleanup 497", "cleanup 498", "cleanup 499",
    )  # fmt: skip


def test_an_error_of_stdout_is_shown_where_stderr_only_cleans_up(logs):
    assert "ERROR: no data" in logs(CLEANUP, b"ERROR: no data\n" + CLEANUP)


def test_an_error_far_above_the_end_takes_no_more_lines_than_others(logs):
    before = b"".join(b"line %d\n" % number for number in range(100))
    assert len(logs(before + b"ERROR: no data\n" + CLEANUP, n=10)) == 10
