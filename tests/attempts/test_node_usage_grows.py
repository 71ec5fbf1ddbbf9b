"""Samples of a job's GPUs, read as the file grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import AttemptStarting
from gpudeck.engine.core.phases import Attempt, Running, Starting
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Extras, Resources, TaskSpec, Work
from tests.inside.attempts import NodeUsage, Usage, cards_of


class Inline:
    """`ports.Aside` that does all at once; one that *hangs* does nothing."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.limits: list[float] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], *, timeout_s: float = 2.0) -> None:
        self.limits.append(timeout_s)
        done(None if self.hangs else work())

    def close(self) -> None:
        pass


@dataclass
class Rig:
    folder: Path
    aside: Inline = field(default_factory=Inline)
    backend: str = "slurm"
    running: bool = True
    usage: Usage = field(default_factory=Usage)
    due: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def __post_init__(self) -> None:
        self.deck = deck(self.backend)
        task = self.deck.tasks[0]
        attempt = Attempt(1, "token", "f", (), 0, 0, at=0.0, wall=1000.0, where="slurm")
        task.phase = Running(attempt) if self.running else Starting(attempt)
        self.deck.active["token"] = task
        self.read = NodeUsage(self.deck, self.usage, str(self.folder), self.aside, self._later)

    def _later(self, after_s: float, call: Callable[[], None]) -> None:
        assert after_s > 0
        self.due.append(call)

    def sampled(self, text: str) -> None:
        with (self.folder / "token.gpu").open("a") as file:
            file.write(text)

    def look(self) -> int | None:
        """What is known of its memory after the next look."""
        self.read.wake()
        (call,) = self.due
        self.due.clear()
        call()
        return self.usage.peek("token").peak_mib


def deck(backend: str) -> Deck:
    spec = TaskSpec("a", "a", 0, Work(("true",)), "f")
    settings = DeckSettings(backend=backend)  # pyright: ignore[reportArgumentType]
    return build(DeckFile("/t/tasks.toml", "tasks", settings, (spec,), shown="tasks.toml"), gpus=(), cores=4)


def test_what_is_new_is_read_and_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.sampled("1010,0,50,1000,8000,40,100\n")
    assert rig.look() == 1000
    rig.sampled("1015,0,50,3000,8000,40,100\n")
    assert rig.look() == 3000
    assert rig.usage.peek("token").mean_mib == 2000


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.sampled("1010,0,50,1000,8000,40,100\n1015,0,50,20")
    assert rig.look() == 1000
    rig.sampled("00,8000,40,100\n")
    assert rig.look() == 2000


def test_a_sample_counts_from_the_beginning_of_its_attempt(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.sampled("1010,0,50,1000,8000,40,100\n1020,0,50,1000,8000,40,100\n")
    rig.look()
    assert rig.usage.peek("token").history.at_s == [10.0, 20.0]


def test_a_file_server_that_hangs_is_looked_at_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, aside=Inline(hangs=True))
    rig.sampled("1010,0,50,1000,8000,40,100\n")
    rig.look()
    assert len(rig.due) == 1


def test_of_a_job_that_has_not_begun_nothing_is_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path, running=False)
    rig.sampled("1010,0,50,1000,8000,40,100\n")
    assert rig.look() is None


def test_a_deck_on_this_box_reads_no_such_files(tmp_path: Path) -> None:
    rig = Rig(tmp_path, backend="local")
    rig.read.wake()
    assert rig.due == []


def test_an_attempts_cards_are_those_of_all_its_nodes() -> None:
    start = AttemptStarting("a", 1, "token", "f", (), 1, 0, 1.0, 1.0, where="slurm")
    spec = TaskSpec("a", "a", 0, Work(("true",)), "f", resources=Resources(gpus=4), extras=Extras(nodes=2))
    assert (cards_of(start, spec), cards_of(start, None)) == (8, 0)
    assert cards_of(replace(start, where="", gpus=("G1", "G2")), spec) == 2
