"""What every journal promises: the one on disk, the one in memory, and the one of simulated worlds."""

from __future__ import annotations

import contextlib
import errno
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpudeck.engine.core.events import FACTS, Fact, TaskHeld
from gpudeck.engine.ports import Done, Journal, JournalBrokenError
from tests.fakes.journal import MemoryJournal, appended, numbered, numbers
from tests.inside.contract import SqliteJournal, journal
from tests.sim.box import Disk, Simulated
from tests.sim.journal import SimJournal

LONG_S = 20.0


@dataclass
class Bench:
    """A journal, how its disk is filled, and how it is opened again."""

    journal: SqliteJournal | MemoryJournal | SimJournal
    reopen: Callable[[], SqliteJournal | MemoryJournal | SimJournal]
    full_disk: Callable[[], contextlib.AbstractContextManager[None]]


def _memory() -> Bench:
    journal = MemoryJournal()

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        journal.fill()
        yield
        journal.free()

    return Bench(journal, lambda: MemoryJournal(journal.facts), full)


class _AtOnce(SimJournal):
    """In a world in which nothing else happens."""

    def __init__(self, disk: Disk) -> None:
        self._world = Simulated(1, 0)
        super().__init__(self._world, disk)

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        super().submit(facts, durable=durable, done=done, keep=keep)
        while self._world.next_event is not None:
            self._world.happen()


def _sim() -> Bench:
    disk = Disk()
    journal = _AtOnce(disk)

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        disk.full = True
        yield
        disk.full = False
        journal.look()

    return Bench(journal, lambda: _AtOnce(disk), full)


def _sqlite(folder: Path) -> Bench:
    path = str(folder / "deck.db")
    return Bench(SqliteJournal.open(path), lambda: SqliteJournal.open(path), _no_file_may_grow)


@contextlib.contextmanager
def _no_file_may_grow() -> Iterator[None]:
    """The kernel refuses every write of this process to a file, as a full disk does, with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(params=["memory", "sqlite", "sim"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = {"memory": _memory, "sim": _sim, "sqlite": lambda: _sqlite(tmp_path)}[request.param]()
    yield made
    made.journal.close()


def loaded(journal: Journal) -> list[int]:
    return numbers(journal.load())


def test_a_new_journal_is_empty_and_sound(bench: Bench):
    assert (list(bench.journal.load()), bench.journal.damage) == ([], "")


def test_facts_are_read_back_in_the_order_of_the_appends(bench: Bench):
    for first in range(0, 100, 4):
        appended(bench.journal, numbered(first, 4), durable=first % 3 == 0)
    appended(bench.journal, []).result(LONG_S)
    assert loaded(bench.journal) == list(range(100))


def test_a_second_load_sees_what_was_appended_after_the_first(bench: Bench):
    list(bench.journal.load())
    appended(bench.journal, numbered(0)).result(LONG_S)
    assert loaded(bench.journal) == [0]


def test_facts_survive_a_close_and_an_open(bench: Bench):
    appended(bench.journal, numbered(0, 50))
    bench.journal.close()
    again = bench.reopen()
    assert (loaded(again), again.damage) == (list(range(50)), "")
    again.close()


def test_close_writes_what_is_not_durable_yet(bench: Bench):
    future = appended(bench.journal, numbered(0), durable=False)
    bench.journal.close()
    assert (future.done(), loaded(bench.reopen())) == (True, [0])


def test_a_fact_that_is_not_durable_is_written_without_a_durable_one(bench: Bench):
    appended(bench.journal, numbered(0), durable=False).result(LONG_S)
    assert loaded(bench.journal) == [0]


def test_a_durable_append_takes_earlier_ones_with_it(bench: Bench):
    early = appended(bench.journal, numbered(0), durable=False)
    appended(bench.journal, numbered(1)).result(LONG_S)
    assert early.done()


def test_an_append_of_nothing_is_done(bench: Bench):
    assert appended(bench.journal, []).result(LONG_S) is None


def test_callbacks_come_in_the_order_of_the_appends(bench: Bench):
    order: list[int] = []
    last = threading.Event()
    for number in range(200):
        bench.journal.submit(
            numbered(number), durable=number % 7 == 0, done=lambda _, number=number: order.append(number)
        )
    bench.journal.submit([], durable=True, done=lambda _: last.set())
    assert last.wait(LONG_S)
    assert order == list(range(200))


def test_a_thousand_facts_of_one_append_are_kept(bench: Bench):
    appended(bench.journal, numbered(0, 1000)).result(LONG_S)
    assert loaded(bench.journal) == list(range(1000))


def test_every_kind_of_fact_has_a_place(bench: Bench):
    appended(bench.journal, [TaskHeld("a", True)]).result(LONG_S)
    assert {type(fact) for fact in bench.journal.load()} <= set(FACTS)


def test_close_may_be_called_twice(bench: Bench):
    bench.journal.close()
    bench.journal.close()


def test_nothing_can_be_appended_after_close(bench: Bench):
    bench.journal.close()
    with pytest.raises(JournalBrokenError):
        appended(bench.journal, numbered(0))


def test_on_a_full_disk_an_append_fails_with_oserror_and_writes_nothing(bench: Bench):
    with bench.full_disk():
        error = appended(bench.journal, numbered(0, 3)).exception(LONG_S)
    appended(bench.journal, numbered(3)).result(LONG_S)
    assert isinstance(error, OSError)
    assert loaded(bench.journal) == [3]


def test_kept_facts_are_written_first_when_there_is_space_again(bench: Bench):
    with bench.full_disk():
        appended(bench.journal, numbered(0), keep=True).exception(LONG_S)
        appended(bench.journal, numbered(90)).exception(LONG_S)
        appended(bench.journal, numbered(1), durable=False, keep=True).exception(LONG_S)
    appended(bench.journal, numbered(2)).result(LONG_S)
    assert loaded(bench.journal) == [0, 1, 2]


def test_the_full_disk_is_told_and_so_is_the_space(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(journal, "RETRY_S", 0.02)
    told: list[bool] = []
    freed = threading.Event()

    def tell(full: bool, _: str) -> None:
        told.append(full)
        if not full:
            freed.set()

    bench.journal.on_disk = tell
    with bench.full_disk():
        appended(bench.journal, numbered(0), keep=True).exception(LONG_S)
    assert freed.wait(LONG_S)
    assert (told, loaded(bench.journal)) == ([True, False], [0])


def test_the_error_of_a_full_disk_names_its_kind(bench: Bench):
    with bench.full_disk():
        error = appended(bench.journal, numbered(0)).exception(LONG_S)
    assert isinstance(error, OSError)
    assert error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
