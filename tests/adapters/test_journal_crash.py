"""What a journal holds after kill -9 and after a power cut."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes.journal import appended, numbered, numbers
from tests.fakes.journal_child import started
from tests.inside.adapters import SCHEMA, FactCodec, SqliteJournal, look_at, open_db

KILLS = 8


def killed_after(folder: Path, seed: int, acknowledged: int) -> set[int]:
    """Kill a writer with -9 right after it said that *acknowledged* batches are written; the ends that it told."""
    with started("write", str(folder), str(seed)) as (child, out):
        told = {int(out.readline()) for _ in range(acknowledged)}
        child.kill()
        rest = out.read().splitlines(keepends=True)
        assert child.wait() == -signal.SIGKILL
    return told | {int(line) for line in rest if line.endswith("\n")}


@pytest.mark.parametrize("seed", range(KILLS))
def test_after_kill_9_every_acknowledged_fact_is_there_and_no_half_batch(tmp_path: Path, seed: int):
    told: set[int] = set()
    for round_ in range(2):
        told = killed_after(tmp_path, seed * 2 + round_, random.Random(seed + round_).choice([1, 5, 40, 300]))
        facts, damage = look_at(str(tmp_path / "deck.db"))
        held = numbers(facts)
        assert (held, damage) == (list(range(len(held))), "")
        assert max(told) <= len(held)
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))
    assert journal.damage == ""
    journal.close()


def test_a_wal_cut_anywhere_leaves_whole_appends_from_the_beginning(tmp_path: Path):
    live = tmp_path / "live"
    live.mkdir()
    journal = SqliteJournal.open(str(live / "deck.db"))
    for first in range(0, 120, 4):
        appended(journal, numbered(first, 4)).result(20)
    wal = (live / "deck.db-wal").read_bytes()
    draw = random.Random(1)
    for cut in [0, 10, *sorted(draw.sample(range(len(wal)), 25)), len(wal)]:
        folder = tmp_path / str(cut)
        folder.mkdir()
        shutil.copy(live / "deck.db", folder)
        (folder / "deck.db-wal").write_bytes(wal[:cut])
        again = SqliteJournal.open(str(folder / "deck.db"))
        held = numbers(again.load())
        again.close()
        assert (held, len(held) % 4, again.damage) == (list(range(len(held))), 0, "")
    journal.close()


def test_appends_of_several_threads_keep_the_order_of_each(tmp_path: Path):
    journal = SqliteJournal.open(str(tmp_path / "deck.db"))

    def write(lane: int) -> None:
        for number in range(200):
            journal.submit(numbered(lane * 1000 + number), durable=number % 10 == 0)

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    appended(journal, []).result(20)
    held = numbers(journal.load())
    journal.close()
    assert [[n for n in held if n // 1000 == lane] for lane in range(4)] == [
        list(range(lane * 1000, lane * 1000 + 200)) for lane in range(4)
    ]


def test_one_whose_making_was_cut_short_was_never_begun(tmp_path: Path):
    path = str(tmp_path / "deck.db")
    cut_short = replace(SCHEMA, create=(*SCHEMA.create, "no statement"))
    with pytest.raises(EngineUnavailableError):
        open_db(path, FactCodec(), cut_short)
    looked_at = look_at(path)
    journal = SqliteJournal.open(path)
    journal.close()
    assert (looked_at, journal.damage) == (([], ""), "")
    assert sorted(os.listdir(tmp_path)) == ["deck.db", "reserve"]
