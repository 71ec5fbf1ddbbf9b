import contextlib
import errno
import io
import os
import resource
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from headless_samples import ManualClock, finished, started, wait_until

from tests.inside.headless import AppendLog, AsideLog, HeadlessOptions, HeadlessOutput, StreamWriter, writer


def gap(count: int) -> str:
    return f"({count} lost)\n"


@contextlib.contextmanager
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as stream:
        yield reader, stream


def test_a_reader_that_left_ends_the_output_and_deck_log_goes_on(tmp_path):
    log = tmp_path / "deck.log"
    with pipe() as (reader, stream):
        reader.close()
        with HeadlessOutput(HeadlessOptions(), stream, str(log), {}, ManualClock()) as output:
            for _ in range(100):
                output.show(started())
            output.show(finished())
    assert log.read_text().count(" start ") == 100
    assert "  exit 1\n" in log.read_text()


def test_a_reader_that_stalls_holds_up_nobody_and_misses_nothing():
    with pipe() as (reader, stream):
        out = StreamWriter(stream, gap)
        for number in range(5000):
            out.write(f"{number:060}\n")
        assert not out.idle
        received: list[bytes] = []
        thread = threading.Thread(target=lambda: received.extend(iter(reader.readline, b"")))
        thread.start()
        out.close()
        stream.close()
        thread.join(10)
    assert [int(line) for line in received] == list(range(5000))


def test_a_reader_that_pauses_at_the_end_is_waited_for_and_that_is_said(capsys):
    with pipe() as (reader, stream):
        out = StreamWriter(stream, gap)
        out.write("x" * 1_000_000)
        with ThreadPoolExecutor() as pool:
            closing = pool.submit(out.close, patience_s=0.01)
            wait_until(lambda: "the rest of the output waits" in capsys.readouterr().err)
            assert not closing.done()
            assert len(reader.read(1_000_000)) == 1_000_000
            closing.result(10)
        assert out.idle


def test_what_nobody_takes_is_dropped_beyond_the_limit_and_that_is_said(monkeypatch):
    monkeypatch.setattr(writer, "MAX_PENDING_CHARS", 200_000)
    with pipe() as (reader, stream):
        out = StreamWriter(stream, gap)
        out.write("x" * 300_000 + "\n")
        for _ in range(7):
            out.write("dropped\n")
        assert len(reader.readline()) == 300_001
        wait_until(lambda: out.idle)
        out.write("after\n")
        assert [reader.readline(), reader.readline()] == [b"(7 lost)\n", b"after\n"]
        out.close()


def test_a_stream_that_does_not_block_is_waited_for():
    with pipe() as (reader, stream):
        os.set_blocking(stream.fileno(), False)
        out = StreamWriter(stream, gap)
        out.write("x" * 300_000 + "\n")
        assert len(reader.readline()) == 300_001
        out.close()


def test_signs_that_the_encoding_lacks_are_replaced():
    with pipe() as (reader, stream):
        ascii_stream = io.TextIOWrapper(os.fdopen(os.dup(stream.fileno()), "wb"), encoding="ascii")
        out = StreamWriter(ascii_stream, gap)
        out.write("a…\udcff\n")
        assert reader.readline() == b"a??\n"
        out.close()


def test_a_closed_stream_raises_nothing():
    stream = io.StringIO()
    stream.close()
    out = StreamWriter(stream, gap)
    out.write("a\n")
    wait_until(lambda: out.gone)
    out.write("b\n")
    out.close()
    out.close()


def test_standard_output_on_a_full_disk_raises_nothing():
    with open("/dev/full", "w") as stream:
        out = StreamWriter(stream, gap)
        out.write("a\n")
        wait_until(lambda: out.idle)
        assert not out.gone
        out.close()


def test_a_full_disk_under_deck_log_is_said_once_on_the_screen():
    stream = io.StringIO()
    with HeadlessOutput(HeadlessOptions(), stream, "/dev/full", {}, ManualClock()) as output:
        for _ in range(5):
            output.show(started())
    text = stream.getvalue()
    assert text.count("deck   warning cannot write /dev/full: No space left on device") == 1
    assert text.count(" start ") == 5


@pytest.fixture
def small_disk():
    """Files of this process cannot grow beyond 1,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))

    def enlarge() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    yield enlarge
    enlarge()
    signal.signal(signal.SIGXFSZ, handler)


def test_a_log_goes_on_with_a_whole_line_when_the_disk_has_room_again(tmp_path, small_disk):
    path = tmp_path / "deck.log"
    log = AppendLog(str(path), gap)
    for number in range(30):
        log.write(f"{number} {'x' * 96}\n")
    assert os.strerror(errno.EFBIG) in log.error
    small_disk()
    log.write("after\n")
    log.close()
    lines = path.read_text().splitlines()
    assert lines[-2:] == [f"({30 - 10} lost)", "after"]
    assert log.error == ""


def test_a_log_folder_that_comes_late_gets_the_later_lines(tmp_path):
    (tmp_path / "logs").touch()
    log = AppendLog(str(tmp_path / "logs" / "deck.log"), gap)
    log.write("a\nb\n")
    (tmp_path / "logs").unlink()
    log.write("c\n")
    log.close()
    assert (tmp_path / "logs" / "deck.log").read_text() == "(2 lost)\nc\n"


def test_a_log_on_a_server_that_does_not_answer_holds_up_nobody(tmp_path):
    path = tmp_path / "deck.log"
    os.mkfifo(path)  # nobody reads: to open it for writing takes for ever
    log = AsideLog(str(path), gap)
    log.write("one\n")
    log.write("two\n")
    log.close(patience_s=0.01)
    with path.open() as server:
        assert server.read() == "one\ntwo\n"
