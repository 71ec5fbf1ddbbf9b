"""Rows have the metrics of attempts that ended under an engine that is gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import Outcome
from gpudeck.engine.core.phases import Ended
from gpudeck.engine.core.spec import DeckFile, DeckSettings
from tests.fakes.following_rig import task
from tests.fakes.live_deck import LiveDeck, live_deck
from tests.inside.attempts import Background, LastMetrics, LogFolder, last_scores, progress

REPORTING = """
[deck]
gpus = "sim:2"
[[task]]
name = "told"
command = "echo acc=0.25; echo acc=0.75; echo acc=0.5"
metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }
[[task]]
name = "long"
command = ["sleep", "1000"]
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, REPORTING) as deck:
        yield deck


def test_the_best_of_a_metric_and_its_curve_are_shown_and_its_best_by_the_next_engine(deck: LiveDeck) -> None:
    first = deck.start()
    with deck.client() as client:
        deck.until_states(client, told="succeeded", long="running")
        told = deck.until_rows(client, lambda rows: rows["told"].metrics)["told"]
        assert (told.best, told.curve) == ({"acc": 0.75}, (0.25, 0.75, 0.5))
        record = deck.folder / "logs" / "told" / "attempt-1.json"
        deck.until(lambda: last_scores(str(record))[0], "attempt-1.json has them")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    deck.start()
    with deck.client() as client:
        told = deck.until_rows(client, lambda rows: rows["told"].metrics == {"acc": 0.5})["told"]
        assert told.best == {"acc": 0.75}


class Folder:
    """Tasks whose attempts have ended, and their attempt-N.json."""

    def __init__(self, folder: Path, *names: str) -> None:
        specs = [task(name) for name in names]
        file = DeckFile(str(folder / "tasks.toml"), "tasks", DeckSettings(log_dir=str(folder)), tuple(specs))
        self.deck: Deck = build(file, gpus=[], cores=4)
        self.logs = LogFolder(str(folder), names)
        self.told: dict[str, dict[str, float]] = {}

    def ended(self, name: str, number: int, text: str) -> None:
        self.deck.by_name[name].ended = (*self.deck.by_name[name].ended, Ended(number, Outcome("ok"), (), 1.0, 0))
        paths = self.logs.paths(name, number, False)
        self.logs.claim(name, number, paths, again=False, make=False)
        Path(paths.json).write_text(text)

    def read(self, until: int) -> None:
        """Until so many tasks have been told of."""

        async def whole() -> None:
            loop = asyncio.get_running_loop()
            reading = LastMetrics(self.deck, loop, self.logs.paths, Background(loop))
            async with asyncio.timeout(30):
                while len(self.told) < until:
                    await asyncio.sleep(0.01)  # between two looks
                    found = {task.name: dict(reading.of(task.name).metrics) for task in self.deck.tasks}
                    self.told = {name: last for name, last in found.items() if last}
            reading.close()

        asyncio.run(whole())


def record(**last: object) -> str:
    return json.dumps({"end": {"metrics": {name: {"last": value} for name, value in last.items()}}})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(progress, "FIRST_S", 0.0)


def test_more_tasks_than_are_read_in_one_go_are_all_told_of(tmp_path: Path) -> None:
    folder = Folder(tmp_path, *(f"t{number}" for number in range(600)))
    for number in range(600):
        folder.ended(f"t{number}", 1, record(loss=number))
    folder.read(600)
    assert folder.told["t599"] == {"loss": 599.0}


def test_of_several_attempts_the_newest_is_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "a")
    folder.ended("a", 1, record(loss=1.0))
    folder.ended("a", 2, record(loss=0.5))
    folder.read(1)
    assert folder.told == {"a": {"loss": 0.5}}


def test_a_record_that_is_damaged_or_tells_nothing_is_passed_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "damaged", "quiet", "odd", "good")
    for name, text in (("damaged", '{"end": {'), ("quiet", record()), ("odd", '{"end": 3}'), ("good", record(x="nan"))):
        folder.ended(name, 1, text)
    folder.read(1)
    assert [*folder.told] == ["good"]
