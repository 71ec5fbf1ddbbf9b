"""The disk that an attempt's logs take is bounded without the writer noticing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.events import AttemptEnded, AttemptStarting
from gpudeck.engine.core.outcome import Outcome
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Extras, TaskSpec, Work
from tests.e2e.decks import until
from tests.inside.logs import (
    AttemptPaths,
    LogCaps,
    LogFolder,
    Punch,
    cap,
    digest,
    keep_within,
    lines_of,
    punch,
    read_tail,
    told,
)

MIB = 1 << 20


def disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def write(path: Path, mib: float, *, first: str = "first line\n", last: str = "last line\n") -> None:
    line = b"x" * 127 + b"\n"
    with path.open("wb") as file:
        file.write(first.encode())
        file.write(line * int(mib * MIB / len(line)))
        file.write(last.encode())


def test_a_log_within_its_cap_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 3)
    content = log.read_bytes()
    assert keep_within([str(log)], 4 * MIB) == 0
    assert log.read_bytes() == content


def test_beyond_the_cap_disk_is_freed_and_the_size_stays(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 20)
    size = log.stat().st_size
    freed = keep_within([str(log)], 4 * MIB)
    assert freed > 15 * MIB
    assert disk(log) <= 4 * MIB
    assert log.stat().st_size == size


def test_the_beginning_and_the_newest_part_stay(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 20)
    before = log.read_bytes()
    keep_within([str(log)], 4 * MIB)
    after = log.read_bytes()
    assert after[: MIB // 2] == before[: MIB // 2]
    assert after[-2 * MIB :] == before[-2 * MIB :]


def test_both_streams_share_the_cap(tmp_path: Path) -> None:
    out, err = tmp_path / "attempt-1.log", tmp_path / "attempt-1.err"
    write(out, 20)
    write(err, 20)
    keep_within([str(out), str(err)], 4 * MIB)
    assert 2 * MIB < disk(out) + disk(err) <= 4 * MIB
    assert disk(out) == pytest.approx(disk(err), abs=0.1 * MIB)


def test_a_small_stream_keeps_everything(tmp_path: Path) -> None:
    out, err = tmp_path / "attempt-1.log", tmp_path / "attempt-1.err"
    write(out, 20)
    write(err, 0.5)
    content = err.read_bytes()
    keep_within([str(out), str(err)], 4 * MIB)
    assert err.read_bytes() == content
    assert disk(out) + disk(err) <= 4 * MIB


def test_a_log_that_goes_on_growing_is_freed_again(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 10)
    keep_within([str(log)], 4 * MIB)
    with log.open("ab") as file:
        file.write(b"y" * 127 + b"\n")
        file.write((b"z" * 127 + b"\n") * (10 * MIB // 128))
    keep_within([str(log)], 4 * MIB)
    assert disk(log) <= 4 * MIB
    assert read_tail(str(log), 256).endswith(b"z" * 127 + b"\n")


def test_what_somebody_else_links_to_is_left_alone(tmp_path: Path) -> None:
    precious, log = tmp_path / "precious", tmp_path / "attempt-1.log"
    write(precious, 20)
    content = precious.read_bytes()
    log.symlink_to(precious)
    hard = tmp_path / "attempt-1.err"
    os.link(precious, hard)
    assert keep_within([str(log), str(hard)], 4 * MIB) == 0
    assert precious.read_bytes() == content


def test_a_log_that_gets_a_second_name_at_the_last_moment_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, precious, opened = tmp_path / "attempt-1.log", tmp_path / "precious", os.open
    write(log, 20)
    content = log.read_bytes()

    def late(path: str, *args: Any) -> int:
        if path == str(log):
            os.link(log, precious)
        return opened(path, *args)

    monkeypatch.setattr(os, "open", late)
    keep_within([str(log)], 4 * MIB)
    assert precious.read_bytes() == content


def test_what_is_not_the_attempts_alone_does_not_count(tmp_path: Path) -> None:
    log, precious = tmp_path / "attempt-1.log", tmp_path / "precious"
    write(log, 3)
    write(precious, 20)
    os.link(precious, tmp_path / "attempt-1.err")
    assert keep_within([str(log), str(tmp_path / "attempt-1.err")], 4 * MIB) == 0


def test_a_pipe_in_the_place_of_a_log_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "attempt-1.log")
    assert keep_within([str(tmp_path / "attempt-1.log")], 1) == 0


def test_a_writer_with_the_file_open_goes_on_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    with log.open("ab", buffering=0) as file:
        for number in range(40):
            file.write(f"line {number}\n".encode() * 20000)
            keep_within([str(log)], 2 * MIB)
    lines = log.read_bytes().replace(b"\0", b"").splitlines()
    assert lines[0] == b"line 0"
    assert lines[-20000:] == [b"line 39"] * 20000


# -- what readers say --------------------------------------------------------------------------------------------------


def test_a_tail_over_the_hole_says_how_much_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 20)
    keep_within([str(log)], 4 * MIB)
    lines = lines_of(read_tail(str(log), 64 * MIB))
    assert lines[0] == "first line"
    assert [line for line in lines if "left out" in line] == ["… 17.0 MiB left out …"]
    assert lines[-1] == "last line"


def test_a_tail_that_begins_in_the_hole_says_the_whole_of_it(tmp_path: Path) -> None:
    log = tmp_path / "attempt-1.log"
    write(log, 20)
    keep_within([str(log)], 4 * MIB)
    assert lines_of(read_tail(str(log), 10 * MIB))[0] == "… 17.0 MiB left out …"


def test_a_digest_passes_over_the_hole(tmp_path: Path) -> None:
    log, err = tmp_path / "attempt-1.log", tmp_path / "attempt-1.err"
    err.touch()
    write(log, 20, last="RuntimeError: bad rate\n")
    keep_within([str(log)], MIB)
    assert digest(str(err), str(log))[-1] == "RuntimeError: bad rate"


def test_a_few_zero_bytes_are_what_the_task_wrote() -> None:
    assert told(b"a\0\0b") == b"a\0\0b"


def test_a_freed_gigabyte_is_told_in_gigabytes() -> None:
    assert told(b"a" + bytes(4096) + b"b") == "a\n… 4.0 KiB left out …\nb".encode()
    assert told(bytes(4096), before=(3 << 30)) == "… 3.0 GiB left out …\n".encode()


# -- the helper thread -------------------------------------------------------------------------------------------------


class Rig:
    """Caps over one deck whose task "a" has a cap of 2 MiB and "b" none."""

    def __init__(self, folder: Path, punch: Punch = punch) -> None:
        capped = TaskSpec("a", "a", 0, Work("true"), "f", extras=Extras(log_cap_mib=2))
        ranks = TaskSpec("r", "r", 1, Work("true"), "f", extras=Extras(launch="torchrun", log_cap_mib=2))
        free = TaskSpec("b", "b", 2, Work("true"), "f")
        file = DeckFile("tasks.toml", "tasks", DeckSettings(log_dir=str(folder)), (capped, ranks, free))
        self.logs = LogFolder(str(folder))
        self.said: list[str] = []
        self.caps = LogCaps(build(file, gpus=(), cores=1), self.paths, self.said.append, punch=punch)

    def paths(self, task: str, attempt: int) -> AttemptPaths:
        return self.logs.paths(task, attempt, False)

    def starts(self, task: str) -> Path:
        path = Path(self.logs.prepare(task, 1, False).out)
        self.caps.follow([AttemptStarting(task, 1, "t", "f", (), 1, 0, 0.0, 0.0)])
        return path

    def ends(self, task: str) -> None:
        self.caps.follow([AttemptEnded(task, 1, Outcome("ok", 0), 1.0, 1.0, 1.0, "succeeded")])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.caps.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are looked at all the time."""
    monkeypatch.setattr(cap, "PERIOD_S", 0.02)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "log-cap"]


def test_the_log_of_a_running_attempt_is_kept_within_its_cap(rig: Rig, often: None) -> None:
    log = rig.starts("a")
    write(log, 10)
    until(lambda: disk(log) <= 2 * MIB)


def test_logs_of_ranks_count(rig: Rig, often: None) -> None:
    log = rig.starts("r")
    rank = log.with_name("attempt-1.rank3.log")
    other = log.with_name("attempt-12.rank3.log")
    write(rank, 10)
    write(other, 10)
    until(lambda: disk(rank) <= 2 * MIB)
    assert disk(other) > 2 * MIB


def test_what_was_written_just_before_the_end_counts_too(rig: Rig) -> None:
    log = rig.starts("a")
    write(log, 10)
    rig.ends("a")
    until(lambda: disk(log) <= 2 * MIB)


def test_without_attempts_that_have_a_cap_there_is_no_thread(rig: Rig, often: None) -> None:
    rig.starts("b")
    assert threads() == []
    rig.starts("a")
    assert len(threads()) == 1
    rig.ends("a")
    until(lambda: not threads())


def cannot(fd: int, start: int, count: int) -> None:
    """As on NFS before 4.2."""
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_a_file_system_that_cannot_do_it_is_named_once(tmp_path: Path, often: None) -> None:
    rig = Rig(tmp_path, cannot)
    write(rig.starts("a"), 10)
    write(rig.starts("r"), 10)
    until(lambda: rig.said)
    rig.caps.close()
    assert len(rig.said) == 1
    assert rig.said[0].startswith("log_cap cannot be kept: the file system of ")
