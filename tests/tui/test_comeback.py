"""An engine that somebody else starts is seen when it writes into the deck's state folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import cast

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from gpudeck.engine.protocol.wire import Hello
from tests.fakes.live_deck import DEADLINE_S
from tests.inside.tui import Again, Comeback, Connection, feed

HOUR_S = 3600.0
OLD = 7


class Engine:
    """As much of a connection as is looked at."""

    def __init__(self, pid: int) -> None:
        self.hello = Hello(protocol=1, version="", pid=pid, host="", deck="", file="")
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Waiting:
    """A thread that waits for an engine. *finds*: what each look comes to, the last one again and again."""

    def __init__(self, folder: Path, *finds: Engine | EngineUnavailableError | None) -> None:
        self._finds = list(finds)
        self.again = Again()
        self.looked = threading.Semaphore(0)
        self.found: list[Connection | None] = []
        waits = Comeback(self._find, lambda: str(folder))
        self._thread = threading.Thread(target=lambda: self.found.append(waits.wait(self.again, OLD)), daemon=True)
        self._thread.start()

    def _find(self) -> Connection | None:
        found = self._finds.pop(0) if len(self._finds) > 1 else self._finds[0]
        self.looked.release()
        if isinstance(found, EngineUnavailableError):
            raise found
        return cast("Connection | None", found)

    def come_to(self, found: object) -> bool:
        self._thread.join(DEADLINE_S)
        return self.found == [found]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is seen by looking every other second."""
    monkeypatch.setattr(feed, "LOOK_S", HOUR_S)


@pytest.mark.usefixtures("patient")
def test_what_is_written_in_the_folder_is_a_reason_to_look(tmp_path: Path) -> None:
    engine = Engine(8)
    waiting = Waiting(tmp_path, None, engine)
    assert waiting.looked.acquire(timeout=DEADLINE_S)
    (tmp_path / "lock").write_text("8")
    assert waiting.come_to(engine)


@pytest.mark.usefixtures("patient")
def test_a_folder_that_takes_the_place_of_another_is_watched(tmp_path: Path) -> None:
    folder, engine = tmp_path / "tasks", Engine(8)
    folder.mkdir()
    waiting = Waiting(folder, None, None, engine)
    assert waiting.looked.acquire(timeout=DEADLINE_S)
    other = tmp_path / "other"
    other.mkdir()
    os.rename(folder, tmp_path / "away")
    os.rename(other, folder)
    (tmp_path / "away" / "last").write_text("")  # the folder that is watched tells so for the last time
    assert waiting.looked.acquire(timeout=DEADLINE_S)
    (folder / "lock").write_text("8")
    assert waiting.come_to(engine)


@pytest.mark.parametrize("first", [Engine(OLD), EngineUnavailableError("does not answer")], ids=["dying", "frozen"])
def test_an_engine_that_cannot_be_followed_now_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Engine | EngineUnavailableError
) -> None:
    monkeypatch.setattr(feed, "LOOK_S", 0.01)
    engine = Engine(8)
    waiting = Waiting(tmp_path, first, engine)
    assert waiting.come_to(engine)
    assert not isinstance(first, Engine) or first.closed


def test_a_folder_that_is_not_there_yet_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_S", 0.01)
    engine = Engine(8)
    assert Waiting(tmp_path / "none", None, None, engine).come_to(engine)


@pytest.mark.usefixtures("patient")
def test_whoever_wants_an_engine_ends_the_waiting(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, None)
    assert waiting.looked.acquire(timeout=DEADLINE_S)
    waiting.again.set()
    assert waiting.come_to(None)
