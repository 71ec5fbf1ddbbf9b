"""A file is watched, however it is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import until
from tests.inside.live import FileWatch
from tests.inside.live import watch as module

PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are gathered for less long than users' editors need."""
    for name, value in (("POLL_S", 0.02), ("_GROUP_MS", 20), ("_STEP_MS", 10)):
        monkeypatch.setattr(module, name, value)


class Watched:
    """A file, its watch, and a bell that rings when the watch says that it may have changed."""

    def __init__(self, path: Path, *, polling: bool) -> None:
        self.path = path
        self.bell = threading.Event()
        self.watch = FileWatch(str(path), self.bell.set, polling=polling)
        self.watch.start()

    def until(self, write: Callable[[], object]) -> bool:
        """Write, again and again while nothing is told: the watch begins in its own time."""
        for _ in range(int(PATIENCE_S / 0.2)):
            write()
            if self.bell.wait(0.2):
                self.bell.clear()
                return True
        return False


@pytest.fixture(params=[False, True], ids=["kernel", "polling"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    path = tmp_path / "tasks.toml"
    path.write_text("old")
    found = Watched(path, polling=request.param)
    yield found
    found.watch.close()


def replaced(path: Path) -> None:
    (path.parent / "new~").write_text("new")
    os.replace(path.parent / "new~", path)


def test_a_write_in_place_is_told(watched: Watched):
    numbers = iter(range(100))
    assert watched.until(lambda: watched.path.write_text(f"new {next(numbers)}"))


def test_a_file_renamed_over_it_is_told(watched: Watched):
    assert watched.until(lambda: replaced(watched.path))
    assert watched.until(lambda: replaced(watched.path))


def test_a_file_that_is_removed_and_made_anew_is_told(watched: Watched):
    def again() -> None:
        watched.path.unlink(missing_ok=True)
        watched.path.write_text("back")

    assert watched.until(again)


def test_a_link_is_followed_to_its_file(tmp_path: Path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "file.toml"
    target.write_text("old")
    link = tmp_path / "tasks.toml"
    link.symlink_to(target)
    found = Watched(link, polling=False)
    assert found.until(lambda: replaced(target))
    found.watch.close()


def test_other_files_of_the_folder_are_not_told(tmp_path: Path):
    path = tmp_path / "tasks.toml"
    path.write_text("old")
    found = Watched(path, polling=False)
    assert found.until(lambda: replaced(path))
    for number in range(20):
        (tmp_path / f"other-{number}").write_text("x")
    (tmp_path / "tasks.toml.bak").write_text("x")
    assert not found.bell.wait(0.3)
    found.watch.close()


def test_where_the_kernel_cannot_watch_the_file_is_looked_at(tmp_path: Path):
    path = tmp_path / "not there yet" / "tasks.toml"
    found = Watched(path, polling=False)

    def write() -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text("new")

    deadline = time.monotonic() + PATIENCE_S
    while not found.watch.polling:  # what is written before its thread has begun could be watched
        assert time.monotonic() < deadline
        found.bell.wait(0.01)
    assert found.until(write)
    found.watch.close()


def test_a_link_that_comes_to_mean_another_file_is_followed_there(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.toml").write_text("old")
    link = tmp_path / "tasks.toml"
    link.symlink_to(tmp_path / "one" / "file.toml")
    found = Watched(link, polling=False)

    def point() -> None:
        (tmp_path / "new~").symlink_to(tmp_path / "two" / "file.toml")
        os.replace(tmp_path / "new~", link)

    assert found.until(point)
    assert found.until(lambda: replaced(tmp_path / "two" / "file.toml"))
    found.watch.close()


def test_its_thread_ends_when_it_is_closed(tmp_path: Path):
    found = Watched(tmp_path / "tasks.toml", polling=False)
    found.watch.close()
    found.watch.close()
    found.watch._thread.join(PATIENCE_S)
    assert not found.watch._thread.is_alive()


LEAVES = """
import atexit, sys, threading
from gpudeck.engine.live import watch as module
from gpudeck.engine.live.watch import FileWatch
module._JOIN_S, module.POLL_S = 0.5, 0.02
held = threading.Event()
watch = FileWatch(sys.argv[1], lambda: held.set() or threading.Event().wait(), polling=True)
watch.start()
while not held.wait(0.02):
    open(sys.argv[1], "a").write("x")
atexit.register(print, "leaving", flush=True)
"""


def test_ctrl_c_while_its_thread_ends_says_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LEAVES, str(tmp_path / "tasks.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as leaving:
        assert leaving.stdout is not None
        assert leaving.stdout.readline() == "leaving\n"
        until(lambda: " S " in Path(f"/proc/{leaving.pid}/stat").read_text())
        leaving.send_signal(signal.SIGINT)
        _, said = leaving.communicate(timeout=PATIENCE_S)
    assert (leaving.returncode, said) == (0, "")
