"""Tasks that run and leave the file, or get another name in it, while no engine looks."""

from __future__ import annotations

from tests.e2e.decks import Deck, Engine, Gate

THREE = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "{name}-{{i}}"
    matrix.i = {values}
    command = "echo {{i}} >>ran; read _ <gate"
"""


def killed_with_two_running(deck: Deck) -> None:
    deck.write(THREE.format(name="t", values=[1, 2, 3]))
    engine: Engine = deck.start()
    engine.started("t-1", "t-2")
    engine.kill()


def test_a_task_that_left_the_file_keeps_its_gpu_to_its_end(deck: Deck, gate: Gate) -> None:
    killed_with_two_running(deck)
    deck.write(THREE.format(name="t", values=[1, 3]))
    status = deck.command("status").out
    assert "SIM 0  - of 80.0 GiB  -  t-1" in status
    assert "SIM 1  - of 80.0 GiB  -  t-2" in status
    assert "2 running" in status
    engine = deck.start()
    engine.started("t-1", "t-2")
    assert engine.count("task_started") == 2
    assert "2 running" in deck.command("status").out
    gate.let(3)
    assert engine.finish().states == {"t-1": "succeeded", "t-3": "succeeded"}
    assert sorted(deck.lines("ran")) == ["1", "2", "3"]


def test_what_left_the_file_counts_for_max_parallel_however_many_engines_come(deck: Deck, gate: Gate) -> None:
    most_two = THREE.replace("sim:2", "sim:3") + "    max_parallel = 2\n"
    deck.write(most_two.format(name="t", values=[1, 2, 3]))
    first = deck.start()
    first.started("t-1", "t-2")
    first.kill()
    for values in ([1, 3], [1, 3, 4]):
        deck.write(most_two.format(name="t", values=values))
        engine = deck.start()
        engine.event("deck_opened")
        assert "max_parallel = 2" in deck.command("explain", "t-3").out
        if values == [1, 3]:
            engine.kill()
    gate.let(4)
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["1", "2", "3", "4"]


def test_what_was_changed_and_left_the_file_later_counts_for_max_parallel(deck: Deck, gate: Gate) -> None:
    most_two = THREE.replace("sim:2", "sim:3") + "    max_parallel = 2\n"
    deck.write(most_two.format(name="t", values=[1, 2, 3]))
    first = deck.start()
    first.started("t-1", "t-2")
    first.kill()
    other = most_two.replace('command = "', 'command = "true; ')
    deck.write(other.format(name="t", values=[1, 2, 3]))
    second = deck.start()
    second.event("deck_opened")
    second.kill()
    deck.write(other.format(name="t", values=[3]))
    last = deck.start()
    last.event("deck_opened")
    assert "max_parallel = 2" in deck.command("explain", "t-3").out
    gate.let(3)
    assert last.finish().code == 0
