"""What runs where, beside what, and in which order; on simulated GPUs."""

from __future__ import annotations

from tests.e2e.decks import Deck, Ran


def spans(ran: Ran) -> dict[str, tuple[float, float, list[int]]]:
    """By task: when it started, when it ended (seconds of the run), and on which GPUs."""
    starts = {event["task"]: event for event in ran.events if event["event"] == "task_started"}
    ends = {event["task"]: event for event in ran.events if event["event"] == "task_ended"}
    return {task: (start["at_s"], ends[task]["at_s"], start["gpus"]) for task, start in starts.items()}


def most_at_once(ran: Ran, *, on: int | None = None, prefix: str = "") -> int:
    """How many attempts there were at most at one moment, told by the order of the events."""
    now, most = 0, 0
    for event in ran.events:
        if event.get("task", "").startswith(prefix) and (on is None or on in event.get("gpus", ())):
            now += {"task_started": 1, "task_ended": -1}.get(event["event"], 0)
            most = max(most, now)
    return most


def place(ran: Ran, kind: str, task: str) -> int:
    return next(
        number for number, event in enumerate(ran.events) if (event["event"], event.get("task")) == (kind, task)
    )


def started_after_end(ran: Ran, later: str, earlier: str) -> bool:
    return place(ran, "task_started", later) > place(ran, "task_ended", earlier)


def test_a_gang_among_singles_gets_all_its_gpus_at_once(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:4"
        [[task]]
        name = "single-{i}"
        matrix.i = [0, 1, 2, 3, 4, 5]
        command = "sleep 0.1"
        [[task]]
        name = "gang"
        gpus = 4
        priority = 1
        command = "echo $CUDA_VISIBLE_DEVICES >gang"
        after = ["single-0"]
    """)
    ran = deck.run()
    assert ran.code == 0
    assert deck.lines("gang") == ["0,1,2,3"]
    assert all(
        not (start < spans(ran)["gang"][1] and end > spans(ran)["gang"][0])
        for task, (start, end, _) in spans(ran).items()
        if task != "gang"
    )


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


def test_a_cpu_task_sees_no_gpu(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "cpu"
        gpus = 0
        command = "echo devices=$CUDA_VISIBLE_DEVICES. >seen"
    """)
    ran = deck.run()
    assert deck.lines("seen") == ["devices=."]
    assert spans(ran)["cpu"][2] == []


def test_two_slots_take_two_tasks_on_one_gpu(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        slots_per_gpu = 2
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3]
        command = "echo up >>up; read _ <gate"
    """)
    gate = deck.gate()
    engine = deck.start()
    engine.started("t0", "t1")
    gate.let(4)
    ran = engine.finish()
    assert ran.code == 0
    assert most_at_once(ran, on=0) == 2


def test_an_exclusive_task_shares_its_gpu_with_nobody(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        slots_per_gpu = 3
        [[task]]
        name = "a{i}"
        matrix.i = [0, 1]
        command = "sleep 0.05"
        [[task]]
        name = "alone"
        exclusive = true
        command = "sleep 0.05"
        [[task]]
        name = "z{i}"
        matrix.i = [0, 1]
        command = "sleep 0.05"
    """)
    ran = deck.run()
    alone = spans(ran).pop("alone")
    assert ran.code == 0
    others = [span for task, span in spans(ran).items() if task != "alone"]
    assert not [span for span in others if span[0] < alone[1] - 0.001 and span[1] > alone[0] + 0.001]


def test_higher_priority_starts_first(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "p{p}"
        priority = "{p}"
        matrix.p = [1, 3, 0, 2]
        command = "true"
    """)
    assert deck.run().started == ["p3", "p2", "p1", "p0"]


def test_no_more_of_an_entry_run_at_once_than_max_parallel(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:8"
        [[task]]
        name = "few-{i}"
        max_parallel = 2
        matrix.i = [0, 1, 2, 3, 4, 5]
        command = "sleep 0.05"
        [[task]]
        name = "many-{i}"
        matrix.i = [0, 1, 2, 3]
        command = "read _ <gate"
    """)
    gate = deck.gate()
    engine = deck.start()
    engine.started("many-0", "many-1", "many-2", "many-3", "few-0", "few-1")
    gate.let(4)
    ran = engine.finish()
    assert ran.code == 0
    assert most_at_once(ran, prefix="few-") == 2


def test_a_round_starts_when_the_earlier_one_has_succeeded(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:4"
        [[task]]
        name = "r{r}-{i}"
        round = "{r}"
        matrix.r = [0, 1, 2]
        matrix.i = [0, 1]
        command = "sleep 0.03"
    """)
    ran = deck.run()
    assert ran.code == 0
    assert all(started_after_end(ran, f"r{r}-{i}", f"r{r - 1}-{j}") for r in (1, 2) for i in (0, 1) for j in (0, 1))


def test_a_failure_closes_the_later_rounds_of_its_group_only(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:4"
        [[task]]
        name = "{g}-{r}"
        group = "{g}"
        round = "{r}"
        matrix.g = ["good", "bad"]
        matrix.r = [0, 1, 2]
        command = "test {task} != bad-0"
    """)
    ran = deck.run()
    assert ran.code == 1
    assert ran.states == {
        "good-0": "succeeded", "good-1": "succeeded", "good-2": "succeeded",
        "bad-0": "failed", "bad-1": "blocked", "bad-2": "blocked",
    }  # fmt: skip
    assert "bad-0" in ran.rows["bad-1"]["reason"]


def test_a_barrier_on_ended_lets_a_round_follow_a_failed_one(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        round_barrier = "ended"
        [[task]]
        name = "r{r}"
        round = "{r}"
        matrix.r = [0, 1]
        command = "test {r} = 1"
    """)
    assert deck.run().states == {"r0": "failed", "r1": "succeeded"}


def test_needs_wait_for_success_and_after_for_any_end(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:4"
        [[task]]
        name = "first"
        command = "sleep 0.05; exit 1"
        [[task]]
        name = "needs-it"
        needs = ["first"]
        command = "true"
        [[task]]
        name = "comes-after"
        after = ["first", "needs-it"]
        command = "true"
    """)
    ran = deck.run()
    assert ran.states == {"first": "failed", "needs-it": "blocked", "comes-after": "succeeded"}
    assert started_after_end(ran, "comes-after", "first")


def test_shards_know_their_number_and_how_many_there_are(deck: Deck) -> None:
    deck.write("""
        [deck]
        gpus = "sim:2"
        [[task]]
        name = "part"
        shards = 3
        command = "echo $GPUDECK_SHARD/$GPUDECK_SHARDS {shard}/{shards} >>seen"
    """)
    deck.run()
    assert sorted(deck.lines("seen")) == ["0/3 0/3", "1/3 1/3", "2/3 2/3"]


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
    [profile.smoke]
    vars = { seeds = [1] }
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


def test_only_takes_names_globs_tags_and_values(deck: Deck) -> None:
    deck.write(SWEEP)
    assert rows(deck, "--only", "train-0.1-s1") == {"train-0.1-s1"}
    assert rows(deck, "--only", "train-*-s2") == {"train-0.1-s2", "train-0.2-s2"}
    assert rows(deck, "--only", "rate=0.2") == {"train-0.2-s1", "train-0.2-s2"}
    assert len(rows(deck, "--only", "tag:train")) == 4


def test_a_need_that_only_leaves_out_blocks_and_is_named(deck: Deck) -> None:
    deck.write(SWEEP)
    ran = deck.run("--only", "gather")
    assert ran.code == 1
    assert ran.states == {"gather": "blocked"}
    assert "left out by --only" in ran.rows["gather"]["reason"]
    assert "train-0.1-s1" in ran.rows["gather"]["reason"]


def test_with_needs_adds_what_a_selected_task_needs(deck: Deck) -> None:
    deck.write(SWEEP)
    assert len(rows(deck, "--only", "gather", "--with-needs")) == 5


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


def test_exclude_leaves_out(deck: Deck) -> None:
    deck.write(SWEEP)
    assert rows(deck, "--exclude", "gather", "--exclude", "seed=2") == {"train-0.1-s1", "train-0.2-s1"}


def test_limit_takes_the_first_of_each_entry(deck: Deck) -> None:
    deck.write(SWEEP)
    assert rows(deck, "--exclude", "gather", "--limit", "1") == {"train-0.1-s1"}


def test_set_overrides_a_variable(deck: Deck) -> None:
    deck.write(SWEEP)
    rows(deck, "--limit", "1", "--exclude", "gather", "--set", "word=two words")
    assert deck.lines("words") == ["two words"]


def test_a_bare_pair_after_the_file_sets_too(deck: Deck) -> None:
    deck.write(SWEEP)
    assert rows(deck, "seeds=[7]", "--exclude", "gather") == {"train-0.1-s7", "train-0.2-s7"}


def test_a_profile_has_a_state_of_its_own(deck: Deck) -> None:
    deck.write(SWEEP)
    rows(deck)
    ran = deck.run("--profile", "smoke")
    assert set(ran.states.values()) == {"succeeded"}
    assert len(ran.states) == 3
    assert set(deck.run().states.values()) == {"cached"}


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
