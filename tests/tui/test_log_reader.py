"""The thread that reads a log: it tells what has changed, and is told where to go."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inside.tui import Frame, Reader, Viewport
from tests.inside.tui import logs_reader as reader_module

PATIENCE_S = 20.0


class Seen:
    """What a reader has delivered."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._come = threading.Condition()

    def take(self, frame: Frame) -> None:
        with self._come:
            self.frames.append(frame)
            self._come.notify_all()

    @property
    def lines(self) -> list[str]:
        return [row.text for row in self.frames[-1].rows] if self.frames else []

    def until(self, condition: Callable[[], object]) -> None:
        with self._come:
            assert self._come.wait_for(condition, PATIENCE_S), self.frames[-1:]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task").mkdir()
    return tmp_path / "task"


@pytest.fixture
def reader(folder: Path, seen: Seen) -> Iterator[Reader]:
    reader = Reader(str(folder / "log"), seen.take, growth_s=0.01)
    reader.post(lambda view: (view.resize(40, 4), view.end()))
    yield reader
    reader.close()


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "log-reader"]


def test_what_was_asked_before_the_start_is_done_before_the_first_frame(
    folder: Path, reader: Reader, seen: Seen
) -> None:
    (folder / "log").write_text("".join(f"{n}\n" for n in range(100)))
    reader.start()
    seen.until(lambda: seen.frames)
    assert [row.text for row in seen.frames[0].rows] == ["96", "97", "98", "99"]


def test_growth_is_told_by_the_kernel(folder: Path, reader: Reader, seen: Seen) -> None:
    (folder / "log").write_text("one\n")
    reader.start()
    seen.until(lambda: seen.lines == ["one"])
    with (folder / "log").open("a") as log:
        log.write("two\n")
    seen.until(lambda: seen.lines == ["one", "two"])
    assert not seen.frames[-1].asked


def test_a_folder_that_comes_goes_and_comes_again_is_followed(
    folder: Path, reader: Reader, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "LOOK_S", 0.05)
    folder.rmdir()
    reader.start()
    seen.until(lambda: seen.frames and seen.frames[-1].missing)
    for word in ("first", "second"):
        folder.mkdir()
        (folder / "log").write_text(f"{word}\n")
        seen.until(lambda wanted=word: seen.lines == [wanted])
        with (folder / "log").open("a") as log:
            log.write("more\n")
        seen.until(lambda wanted=word: seen.lines == [wanted, "more"])
        shutil.rmtree(folder)
        seen.until(lambda: seen.frames[-1].missing)


def test_a_file_moved_into_place_is_shown(folder: Path, reader: Reader, seen: Seen) -> None:
    (folder / "log").write_text("old\n")
    reader.start()
    seen.until(lambda: seen.lines == ["old"])
    (folder / "new").write_text("new\n")
    os.replace(folder / "new", folder / "log")
    seen.until(lambda: seen.lines == ["new"])


def test_nobody_is_told_of_growth_that_nobody_watches(folder: Path, reader: Reader, seen: Seen) -> None:
    (folder / "log").write_text("one\n")
    reader.watch(False)
    reader.start()
    seen.until(lambda: seen.lines == ["one"])
    with (folder / "log").open("a") as log:
        log.write("two\n")
    reader.post(lambda _view: None)
    seen.until(lambda: len(seen.frames) == 2)
    assert seen.lines == ["one"]
    reader.watch(True)
    seen.until(lambda: seen.lines == ["one", "two"])


def test_a_closed_reader_ends_its_thread_and_may_be_told_more(reader: Reader, seen: Seen) -> None:
    before = readers()
    reader.start()
    seen.until(lambda: seen.frames)
    (thread,) = set(readers()) - set(before)
    reader.close()
    thread.join(PATIENCE_S)
    reader.post(Viewport.end)
    reader.close()
    assert not thread.is_alive()


def test_what_goes_wrong_on_the_thread_is_shown(reader: Reader, seen: Seen) -> None:
    def broken(view: Viewport) -> None:
        raise RuntimeError("broken on purpose")

    reader.start()
    reader.post(broken)
    seen.until(lambda: seen.frames and "broken on purpose" in seen.frames[-1].problem)
