"""Two decks that share the GPUs of one box."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptStarting
from tests.e2e.decks import Deck, Engine, put_on, until
from tests.fakes.nvml_double.box import Box


def tasks(count: int, *, gpus: int = 1, key: str = "") -> str:
    """Tasks that write a line when they begin, wait at the gate, and write one when they end."""
    return f"""
        [deck]
        foreign_quiet = "0s"
        {key}
        [[task]]
        name = "t{{i}}"
        matrix.i = {list(range(count))}
        gpus = {gpus}
        command = "echo begin {{i}} on $CUDA_VISIBLE_DEVICES >>log.txt; read _ <gate; echo end {{i}} >>log.txt"
    """


class Pair:
    """Decks in folders of their own on one box of the NVML double."""

    def __init__(self, folder: Path, cards: int) -> None:
        self.folder = folder
        self.decks: list[Deck] = []
        self.box = Box(folder / "box.txt", cards)

    def deck(self, name: str, text: str) -> Deck:
        deck = Deck(self.folder / name)
        put_on(deck, self.box)
        deck.env["GPUDECK_LOCK_DIR"] = str(self.folder / "locks")
        deck.write(text)
        deck.gate()
        self.decks.append(deck)
        return deck

    def close(self) -> None:
        for deck in self.decks:
            deck.close()
        self.box.release()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Callable[[int], Pair]]:
    made: list[Pair] = []

    def on(cards: int) -> Pair:
        made.append(Pair(tmp_path, cards))
        return made[-1]

    yield on
    for pair in made:
        pair.close()


def named(name: str, text: str) -> str:
    return text.replace("[deck]", f'[deck]\n        name = "{name}"')


def waits(deck: Deck, why: str) -> Engine:
    """Start a deck and see it say what it waits for."""
    engine = deck.start("--check-interval", "0.2")
    engine.first(lambda event: event["event"] == "status" and any(why in text for text in event["waiting_why"]))
    return engine


def starts(deck: Deck) -> list[AttemptStarting]:
    return [fact for fact in deck.facts() if isinstance(fact, AttemptStarting)]


def test_two_decks_never_have_the_same_gpu(two: Callable[[int], Pair]) -> None:
    pair = two(2)
    log = pair.folder / "both.txt"
    text = """
        [deck]
        foreign_quiet = "0s"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3, 4, 5, 6, 7]
        command = "mkdir BOTH.$CUDA_VISIBLE_DEVICES || echo double >>BOTH; sleep 0.05; rmdir BOTH.$CUDA_VISIBLE_DEVICES"
    """.replace("BOTH", str(log))
    engines = [pair.deck(name, text).start() for name in ("first", "second", "third")]
    assert [engine.finish().code for engine in engines] == [0, 0, 0]
    assert not log.exists()


def test_after_kill_9_of_an_engine_its_tasks_still_keep_their_gpus(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    first, second = pair.deck("first", named("pets", tasks(1))), pair.deck("second", tasks(1))
    running = first.start()
    running.started("t0")
    running.kill()
    waiting = waits(second, "deck pets of")
    again = first.start()
    first.gates[0].let()
    assert again.finish().code == 0
    waiting.started("t0")


def test_half_a_box_each_is_no_deadlock(two: Callable[[int], Pair]) -> None:
    pair = two(4)
    text = """
        [deck]
        foreign_quiet = "0s"
        [[task]]
        name = "short"
        command = "read _ <go"
        [[task]]
        name = "long"
        command = "read _ <gate"
        [[task]]
        name = "gang"
        gpus = 3
        after = ["short"]
        command = "true"
    """
    first, second = pair.deck("first", text), pair.deck("second", text)
    for deck in (first, second):
        deck.gate("go")
    engines = [first.start(), second.start()]
    for engine in engines:
        engine.started("short", "long")
    for deck, engine in zip(pair.decks, engines, strict=True):
        deck.gates[1].let()
        engine.ended("short", outcome="ok")
    for deck in pair.decks:
        deck.gates[0].let()
    assert [engine.finish().code for engine in engines] == [0, 0]


def test_a_file_that_a_cleaner_removed_is_made_again(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    first, second = pair.deck("first", named("pets", tasks(1))), pair.deck("second", tasks(1))
    running = first.start()
    running.started("t0")
    file = pair.folder / "locks" / "gpus"
    file.unlink()
    until(file.exists)
    waits(second, "deck pets of")


def test_where_nothing_can_be_locked_a_deck_says_so_once_and_runs(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    (pair.folder / "locks").touch()
    deck = pair.deck("first", tasks(2))
    deck.gates[0].let(2)
    ran = deck.run()
    assert ran.code == 0
    assert ran.notes.count("another one may use them too") == 1


def test_the_lock_file_costs_tasks_no_attempt(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    first, second = pair.deck("first", tasks(1)), pair.deck("second", tasks(1))
    running = first.start()
    running.started("t0")
    waiting = waits(second, "deck first of")
    first.gates[0].let()
    second.gates[0].let()
    waiting.ended("t0", outcome="ok")
    assert {fact.attempt for fact in starts(second)} == {1}


def test_what_a_task_left_on_its_gpu_keeps_others_away_while_no_engine_claims_it(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    left = tasks(1).replace("read _ <gate; echo end {i} >>log.txt", "sleep 300 9>&- & echo $! >>left")
    first = pair.deck("first", left.replace("gpus = 1", 'gpus = 1\n        leftovers = "wait"'))
    second = pair.deck("second", tasks(1))
    running = first.start()
    (pid,) = map(int, until(lambda: first.lines("left")))
    pair.box.set(**{"gpu.0.used": 9004})
    pair.box.processes(0, f"{pid} 9000 C")
    until(lambda: json.loads(first.command("ls", "--json").out)[0]["state"] == "closing")
    assert first.command("stop").code == 0
    running.finish()
    waits(second, f"pid {pid}")
    assert second.lines("log.txt") == []


LEAVES = """
    [deck]
    name = "pets"
    foreign_quiet = "0s"
    [[task]]
    name = "left"
    leftovers = "wait"
    command = "(read _ <gate; echo end >>log.txt) & echo begin >>log.txt"
"""


def test_what_a_task_waits_for_keeps_its_gpu_after_kill_9_of_its_engine(two: Callable[[int], Pair]) -> None:
    pair = two(1)
    first, second = pair.deck("first", LEAVES), pair.deck("second", tasks(1))
    running = first.start()
    running.started("left")
    until(lambda: first.lines("log.txt") == ["begin"])
    running.kill()
    waiting = waits(second, "deck pets of")
    again = first.start()
    again.event("deck_opened")
    first.gates[0].let()
    assert again.finish().code == 0
    waiting.started("t0")
    assert first.lines("log.txt") == ["begin", "end"]
