"""What runs where, beside what, and in which order; on simulated GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Ran
from tests.rigs.desk import desk_on


def spans(ran: Ran) -> dict[str, tuple[float, float, list[int]]]:
    """By task: when it started, when it ended (seconds of the run), and on which GPUs."""
    starts = {event["task"]: event for event in ran.events if event["event"] == "task_started"}
    ends = {event["task"]: event for event in ran.events if event["event"] == "task_ended"}
    return {task: (start["at_s"], ends[task]["at_s"], start["gpus"]) for task, start in starts.items()}


def test_each_task_sees_the_gpu_that_it_was_given(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:3"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3, 4, 5]
        command = "echo {task}=$CUDA_VISIBLE_DEVICES=$CUDA_DEVICE_ORDER >>seen; sleep 0.05"
    """)
    ran = deck.run()
    seen = {line.split("=")[0]: line.split("=")[1:] for line in deck.lines("seen")}
    assert seen == {task: [str(gpus[0]), "PCI_BUS_ID"] for task, (_, _, gpus) in spans(ran).items()}
    assert {gpus[0] for _, _, gpus in spans(ran).values()} == {0, 1, 2}


@pytest.mark.parametrize(
    ("deck", "tasks", "running"),
    [
        ('gpus = "sim:1"\nslots_per_gpu = 2', ["", "", ""], "ab"),
        ('gpus = "sim:1"\nslots_per_gpu = 3', ["exclusive = true", "", ""], "a"),
        ('gpus = "sim:1"\nslots_per_gpu = 3', ["", "exclusive = true", ""], "ac"),
        ('gpus = "sim:4"', ["", "gpus = 4\npriority = 1", ""], "b"),
        ('gpus = "sim:1"', ["", "priority = 3", "priority = 2"], "b"),
        ('gpus = "sim:8"', ["max_parallel = 2\nmatrix.i = [1, 2, 3]", ""], "a1 a2 b"),
        ('gpus = "sim:4"', ["", "round = 1", "round = 1"], "a"),
        ('gpus = "sim:4"', ["", "", 'needs = ["a"]'], "ab"),
        ('gpus = "sim:4"', ["", 'needs = ["fails"]', 'after = ["fails"]'], "ac"),
        ('gpus = "sim:4"\nround_barrier = "ended"', ["round = 1", "round = 2"], "a"),
        ('gpus = "sim:4"', ["round = 1", "round = 1\nround_barrier = 'ended'"], "b"),
    ],
)
async def test_what_runs_beside_what_is_as_the_file_says(
    tmp_path: Path, deck: str, tasks: Sequence[str], running: str
) -> None:
    names = [f"{name}{{i}}" if "matrix" in keys else name for name, keys in zip("abc", tasks, strict=False)]
    entries = [
        f'[[task]]\nname = "{name}"\ncommand = "true"\n{keys}\n' for name, keys in zip(names, tasks, strict=True)
    ]
    text = f'[deck]\n{deck}\n[[task]]\nname = "fails"\ngpus = 0\ncommand = "false"\n{"".join(entries)}'
    async with desk_on(tmp_path, text, {"fails": 1}) as desk:
        await desk.start()
        await desk.until_state("fails", "failed")
        await desk.settle()
        assert desk.in_state("running") == (running.split() if " " in running else [*running])


SHARDS_PER_GPU = """
    [deck]
    gpus = "sim:{count}"
    [[task]]
    name = "part"
    shards = "gpus"
    command = "echo $GPUDECK_SHARDS >>seen"
"""


def test_one_shard_a_gpu_stays_that_many_when_the_gpus_change(deck: Deck) -> None:
    deck.write(SHARDS_PER_GPU.format(count=3))
    deck.run()
    deck.write(SHARDS_PER_GPU.format(count=2))
    assert deck.run().states == {"part-shard0": "cached", "part-shard1": "cached", "part-shard2": "cached"}
    assert deck.lines("seen") == ["3", "3", "3"]


SWEEP = """
    [deck]
    gpus = "sim:2"
    [vars]
    word = "one"
    seeds = [1, 2]
    [[task]]
    name = "train-{rate}-s{seed}"
    tags = ["train"]
    matrix.rate = [0.1, 0.2]
    matrix.seed = "{seeds}"
    command = "echo {word} >>words"
    [[task]]
    name = "gather"
    needs = ["train-*"]
    gpus = 0
    command = "true"
"""


def rows(deck: Deck, *options: str) -> set[str]:
    ran = deck.run(*options)
    assert ran.code == 0, ran.err
    return set(ran.rows)


def test_a_need_that_only_leaves_out_blocks_and_is_named(deck: Deck) -> None:
    deck.write(SWEEP)
    ran = deck.run("--only", "gather")
    assert ran.code == 1
    assert ran.states == {"gather": "blocked"}
    assert "left out by --only" in ran.rows["gather"]["reason"]
    assert "train-0.1-s1" in ran.rows["gather"]["reason"]


def test_only_is_content_with_a_need_that_is_done(deck: Deck) -> None:
    deck.write(SWEEP)
    rows(deck, "--exclude", "gather")
    assert rows(deck, "--only", "gather") == {"gather"}


def test_a_need_that_only_leaves_out_is_not_done_without_its_outputs(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "need"
        command = "echo made >out"
        outputs = ["out"]
        [[task]]
        name = "builds"
        needs = ["need"]
        command = "exit 1"
    """)
    deck.run()
    (deck.folder / "out").unlink()
    assert deck.run("--only", "builds").states["builds"] == "blocked"


def test_an_engine_short_of_descriptors_starts_less_at_once_and_loses_nothing(deck: Deck) -> None:
    deck.prefix = ("bash", "-c", 'ulimit -n 48; exec "$@"', "bash", *deck.prefix)
    deck.write("""
        [deck]
        gpus = "sim:24"
        [[task]]
        name = "t"
        shards = 24
        command = "echo {shard} >>ran; while [ ! -e go ]; do sleep 0.05; done"
    """)
    engine = deck.start()
    engine.note("ulimit -n is 48")
    (deck.folder / "go").touch()
    ran = engine.finish()
    assert ran.code == 0
    assert len(deck.lines("ran")) == 24


def test_a_run_in_which_all_that_is_left_waits_for_drained_gpus_ends(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "a"
        command = "read _ <gate"
        [[task]]
        name = "b"
        command = "echo b"
    """)
    gate = deck.gate()
    engine = deck.start()
    engine.started("a")
    assert deck.command("gpus", "drain", "0").code == 0
    gate.let()
    ran = engine.finish()
    assert (ran.code, ran.states, ran.rows["b"]["reason"]) == (1, {"a": "succeeded", "b": "queued"}, "GPU 0: drained")
