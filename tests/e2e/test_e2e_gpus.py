"""Boxes without GPUs, with shared ones, and with drivers that misbehave."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.decks import Deck, Engine, put_on, until
from tests.e2e.live_rig import use
from tests.fakes.nvml_double.box import Box

TASKS = """
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1, 2, 3]
    command = "echo {i}:$CUDA_VISIBLE_DEVICES. >>seen"
"""


def quick(key: str = "") -> str:
    """Four tasks that tell which GPU they see, and a key for [deck]."""
    return f"[deck]\n{key}\n{TASKS}"


def gated(key: str = "") -> str:
    """The same, but each waits at the gate."""
    return quick(key).replace(">>seen", ">>seen; read _ <gate")


@pytest.fixture
def box(deck: Deck, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Box]]:
    """Gives the deck a box with so many cards of the NVML double."""
    boxes: list[Box] = []

    def with_cards(cards: int) -> Box:
        boxes.append(Box(tmp_path_factory.mktemp("nvml") / "box.txt", cards))
        put_on(deck, boxes[-1])
        return boxes[-1]

    yield with_cards
    for box in boxes:
        box.release()


def test_a_box_without_gpus_takes_cpu_slots_and_says_so_once(deck: Deck) -> None:
    deck.write(quick())
    ran = deck.run()
    assert ran.code == 0
    assert sorted(deck.lines("seen")) == ["0:.", "1:.", "2:.", "3:."]
    assert len([line for line in ran.notes.splitlines() if "CPU" in line]) == 1


def test_a_driver_mismatch_is_no_reason_to_train_on_the_cpu(deck: Deck, box: Callable[[int], Box]) -> None:
    box(2).set(init=18)
    deck.write(quick())
    ran = deck.run()
    assert ran.code == 3
    assert "mismatch" in ran.err.lower()
    assert deck.lines("seen") == []


def hang(engine: Engine, box: Box) -> None:
    box.hang("all")
    box.record_calls()
    until(lambda: box.calls())


def test_a_driver_that_hangs_stops_neither_tasks_nor_the_end(deck: Deck, box: Callable[[int], Box]) -> None:
    cards = box(1)
    deck.write("""
        [[task]]
        name = "first"
        command = "echo first >>seen; read _ <gate"
        [[task]]
        name = "cpu"
        gpus = 0
        needs = ["first"]
        command = "echo cpu >>seen"
    """)
    gate = deck.gate()
    engine = deck.start()
    engine.started("first")
    hang(engine, cards)
    gate.let()
    ran = engine.finish()
    assert ran.code == 0
    assert deck.lines("seen") == ["first", "cpu"]


def test_what_runs_on_a_card_that_the_box_has_lost_is_in_the_plan(
    deck: Deck, box: Callable[[int], Box], tmp_path_factory: pytest.TempPathFactory
) -> None:
    box(2)
    deck.write(gated())
    gate = deck.gate()
    engine = deck.start()
    engine.started("t0", "t1")
    engine.kill()
    put_on(deck, Box(tmp_path_factory.mktemp("less") / "box.txt", 1))
    planned = deck.command("plan")
    assert (planned.code, "GPU-double-1" in planned.out) == (0, True)
    gate.let(2)


def test_a_signal_ends_a_deck_whose_driver_hangs(deck: Deck, box: Callable[[int], Box]) -> None:
    cards = box(1)
    deck.write(gated())
    deck.gate()
    engine = deck.start()
    engine.started("t0")
    hang(engine, cards)
    engine.signal(signal.SIGTERM)
    assert engine.finish().code == 143


def test_cuda_visible_devices_of_the_caller_limits_the_deck(deck: Deck, box: Callable[[int], Box]) -> None:
    box(3)
    deck.write(quick())
    ran = deck.run(env={"CUDA_VISIBLE_DEVICES": "2"})
    assert ran.code == 0
    assert {line.split(":")[1] for line in deck.lines("seen")} == {"2."}


@pytest.mark.parametrize("process", ["$$", "$!"], ids=["its own", "a child's"])
def test_memory_of_a_tasks_own_processes_is_its_peak_and_not_foreign(
    deck: Deck, box: Callable[[int], Box], process: str
) -> None:
    cards = box(1)
    deck.write("""
        [defaults]
        linger = "0s"
        [[task]]
        name = "t"
        command = "sleep 300 & echo PROCESS >>pid; read _ <gate"
    """)
    task_file = deck.folder / "tasks.toml"
    task_file.write_text(task_file.read_text().replace("PROCESS", process))
    gate = deck.gate()
    engine = deck.start("--check-interval", "0.2")
    until(lambda: deck.lines("pid"))
    use(cards, 0, int(deck.lines("pid")[0]), 9000)
    engine.first(lambda event: event["event"] == "status" and event["gpus"][0]["used_mib"] == 9004)
    gate.let()
    ran = engine.finish()
    assert "joined" not in ran.notes
    assert ran.ended("t")[0]["peak_mib"] == 9000
    assert deck.record("t")["end"]["peak_mib"] == 9000


def test_a_run_that_leaves_its_gpu_idle_is_stopped_by_its_watch_rule(deck: Deck, box: Callable[[int], Box]) -> None:
    cards = box(2)
    cards.set(**{"gpu.1.util": 80})
    watch = 'watch = { idle_gpu = "500ms", action = "fail" }'
    deck.write(
        f'[[task]]\nname = "idle"\ngpu_ids = ["0"]\ncommand = "sleep 60"\n{watch}\n'
        f'[[task]]\nname = "busy"\ngpu_ids = ["1"]\ncommand = "sleep 1.5"\n{watch}\n'
    )
    ran = deck.run()
    assert ran.ended("idle")[0]["reason"] == "watch: its GPUs have been idle for 0.5 s"
    assert ran.states == {"idle": "failed", "busy": "succeeded"}


PROFILES = """
    [vars]
    bs = 8
    [[gpu_profile]]
    min_memory = "40GiB"
    vars = { bs = 16 }
    [[gpu_profile]]
    min_memory = "80GiB"
    vars = { bs = 32 }
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1]
    command = "echo {i}:{bs} >>seen"
    gpu_ids = ["{i}"]
    [[task]]
    name = "gang"
    command = "echo gang:{bs} >>seen"
    gpus = 2
    round = 1
    [[task]]
    name = "cpu"
    command = "echo cpu:{bs} >>seen"
    gpus = 0
"""


def test_a_task_gets_the_values_of_the_card_that_it_lands_on(deck: Deck, box: Callable[[int], Box]) -> None:
    cards = box(2)
    large = {"total": 81559, "reserved": 0, "name": "NVIDIA H100 80GB HBM3"}
    cards.set(**{f"gpu.1.{key}": value for key, value in large.items()})
    deck.write(PROFILES)
    engine = deck.start()
    assert engine.event("task_started", task="t1")["gpu_profile"] == "80GiB"
    gang = engine.event("task_started", task="gang")
    assert (gang["gpu_profile"], gang["mixed"]) == ("40GiB", "mixed models: NVIDIA A40 and NVIDIA H100 80GB HBM3")
    assert engine.finish().code == 0
    assert sorted(deck.lines("seen")) == ["0:16", "1:32", "cpu:8", "gang:16"]
    assert deck.record("t0")["gpu_profile"] == "40GiB"
    assert "gpu_profile 80GiB: 1:8 → 1:32" in deck.command("show", "t1").out
    assert "mixed models" in deck.command("plan", "--no-skip-existing").out
    deck.write(PROFILES.replace("bs = 32", "bs = 64"))
    assert deck.run().started == [], "what a profile says does not make it another task"


def test_a_task_on_several_gpus_gets_those_that_nvlink_joins(deck: Deck, box: Callable[[int], Box]) -> None:
    levels = {f"topology.{one}.{other}": 50 for one in range(4) for other in range(one + 1, 4)}
    box(4).set(**levels, **{"nvlink.1.3": 1})
    deck.write('[[task]]\nname = "gang"\ncommand = "true"\ngpus = 2\n')
    engine = deck.start()
    assert engine.event("task_started", task="gang")["gpus"] == [1, 3]
    assert engine.finish().code == 0
