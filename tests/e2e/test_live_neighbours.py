"""GPUs that a deck shares with colleagues, while an engine of its own runs it and people look on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.live_rig import colleague, commanded, leave, use, watching, with_cards
from tests.fakes.nvml_double.box import Box

Boxed = tuple[Commanded, Box]


def gated(count: int, key: str = "", task: str = "") -> str:
    """Tasks that wait each at a gate of their own, and lines for [deck] and for the tasks."""
    return f"""
        [deck]
        foreign_quiet = "0s"
        {key}
        [[task]]
        name = "t{{i}}"
        matrix.i = {list(range(count))}
        {task}
        command = "read _ <gate{{i}}"
    """


@pytest.fixture
def boxed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int, str], Boxed]]:
    """Makes a deck with this task file on a box with so many cards, and gates for its tasks."""
    boxes: list[Box] = []
    with commanded(tmp_path) as deck:

        def make(cards: int, text: str) -> Boxed:
            deck.write(text)
            for index in range(4):
                deck.gate(f"gate{index}")
            boxes.append(with_cards(deck, tmp_path_factory.mktemp("nvml"), cards))
            return deck, boxes[0]

        yield make
        for box in boxes:
            box.release()


@pytest.fixture
def alice() -> Iterator[int]:
    with colleague() as pid:
        yield pid


def test_a_drained_gpu_lets_its_task_end_and_gets_no_other_until_it_is_enabled(
    boxed: Callable[[int, str], Boxed],
) -> None:
    deck, _ = boxed(2, gated(4))
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running", t1="running")
        assert deck.command("gpus", "drain", "1").code == 0
        assert seen.rows["t1"].state == "running"
        deck.gates[1].let()
        seen.until_states(t1="succeeded")
        deck.gates[0].let()
        seen.until_states(t0="succeeded", t2="running")
        assert (seen.rows["t2"].gpus, seen.rows["t3"].state) == ((0,), "queued")
        assert "GPU 1: drained" in seen.why("t3")
        assert seen.gpu(1).mark == "drain"
        assert deck.command("gpus", "enable", "1").code == 0
        seen.until_states(t3="running")
        assert seen.rows["t3"].gpus == (1,)


def test_a_gpu_that_an_edit_takes_away_is_shown_until_its_task_has_ended_whichever_engine_runs(
    boxed: Callable[[int, str], Boxed],
) -> None:
    deck, _ = boxed(2, gated(3))
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running", t1="running")
    deck.write(gated(3, "gpus = [0]"))
    assert deck.command("apply", "-y").code == 0
    assert deck.command("stop").code == 0
    assert deck.go().code == 0
    with watching(deck) as seen:
        row = seen.gpu(1)
        assert (row.tasks, row.note_kind, row.leaving) == (("t1",), "leaving", True)
        shown = deck.command("gpus", "-f", "tasks.toml").out.splitlines()[-1].split()
        assert shown[:4] == ["1", "1", "of", "1"]
        assert " ".join(shown).endswith("t1 no longer the deck's, until what runs on it has ended")
        deck.gates[1].let()
        seen.until_states(t1="succeeded")
        seen.until(lambda: list(seen.gpus) == [0])
        assert seen.rows["t2"].state == "queued"


def test_a_gpu_that_a_colleague_uses_is_taken_on_request_and_given_back(
    boxed: Callable[[int, str], Boxed], alice: int
) -> None:
    deck, box = boxed(1, gated(2))
    use(box, 0, alice, 20000)
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_waits_for("t0", f"GPU 0: nobody, pid {alice}, 19.5 GiB")
        assert deck.command("gpus", "take", "0").code == 0
        seen.until_states(t0="running")
        assert deck.command("gpus", "enable", "0").code == 0
        deck.gates[0].let()
        seen.until_states(t0="succeeded")
        seen.until_waits_for("t1", f"GPU 0: nobody, pid {alice}")
        assert seen.rows["t1"].state == "queued"


JOINED = """
    [deck]
    foreign_quiet = "0s"
    [[task]]
    name = "t0"
    on_oom = [{ env = { RUNG = "1" } }]
    command = '''
        echo "$GPUDECK_ATTEMPT gpu $CUDA_VISIBLE_DEVICES rung $RUNG" >>seen
        read _ <gate0
        test $GPUDECK_ATTEMPT = 1 || exit 0
        echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2
        exit 1
    '''
"""


def test_a_colleague_who_joins_stops_nothing_and_is_on_the_row_with_the_time(
    boxed: Callable[[int, str], Boxed], alice: int
) -> None:
    deck, box = boxed(1, gated(1))
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running")
        use(box, 0, alice, 31744)
        joined = rf"nobody \(pid {alice}\) joined GPU 0 at \d\d:\d\d, 31.0 GiB"
        assert re.fullmatch(joined, seen.until_note("joined"))
        seen.until(lambda: "joined" in seen.gpu(0).note)
        assert re.fullmatch(rf"nobody joined GPU 0 at \d\d:\d\d, pid {alice}, 31.0 GiB", seen.gpu(0).note)
        assert "joined GPU 0 at" in deck.command("status").out
        assert seen.rows["t0"].state == "running"
        leave(box, 0)
        seen.until(lambda: not seen.gpu(0).note)


def test_out_of_memory_beside_one_who_joined_goes_to_a_free_card_without_a_rung_or_a_retry(
    boxed: Callable[[int, str], Boxed], alice: int
) -> None:
    deck, box = boxed(2, JOINED)
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running")
        use(box, 0, alice, 31744)
        seen.until_note("joined GPU 0")
        deck.gates[0].let()
        seen.until(lambda: seen.rows["t0"].attempt == 2 and seen.rows["t0"].state == "running")
        deck.gates[0].let()
        seen.until_states(t0="succeeded")
    assert deck.lines("seen") == ["1 gpu 0 rung ", "2 gpu 1 rung "]


def test_who_has_joined_is_told_once_and_known_to_the_next_engine(
    boxed: Callable[[int, str], Boxed], alice: int
) -> None:
    deck, box = boxed(2, JOINED)
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running")
        use(box, 0, alice, 31744)
        seen.until_note("joined GPU 0")
        seen.until(lambda: "joined" in seen.gpu(0).note)
        note = seen.gpu(0).note
    deck.kill_engine()
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until(lambda: seen.gpu(0).note == note)
        deck.gates[0].let()
        seen.until(lambda: seen.rows["t0"].attempt == 2 and seen.rows["t0"].state == "running")
        deck.gates[0].let()
        seen.until_states(t0="succeeded")
    assert deck.lines("seen") == ["1 gpu 0 rung ", "2 gpu 1 rung "]
    assert deck.text("logs/deck.log").count("joined GPU 0") == 1


BROKEN = """
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1, 2, 3, 4, 5]
    command = '''
        echo "{i} $GPUDECK_ATTEMPT $CUDA_VISIBLE_DEVICES" >>seen
        test $CUDA_VISIBLE_DEVICES = 1 && { read _ <gate0; exit 0; }
        test -e mended && exit 0
        read _ <gate1
        echo "RuntimeError: No CUDA GPUs are available" >&2
        exit 1
    '''
"""


def a_minute_on() -> tuple[str, ...]:
    """What goes before a command to which the box has been up for longer."""
    return ("unshare", "--time", "--boottime", "61", "--fork")


def test_a_broken_gpu_rests_and_comes_back_with_a_probe_and_its_victims_are_not_charged(
    boxed: Callable[[int, str], Boxed],
) -> None:
    deck, _ = boxed(2, BROKEN)
    assert deck.go().code == 0
    with watching(deck) as seen:
        deck.gates[1].let(3)
        assert "failed fast on it in a row" in seen.until_note("GPU 0 is quarantined")
        seen.until(lambda: "quarantined" in seen.gpu(0).note)
        assert not [row.name for row in seen.rows.values() if row.state == "failed"]
        seen.connection.request("pause")
        deck.gates[0].let(1)
        seen.until(lambda: [row.state for row in seen.rows.values()].count("succeeded") == 1)
        victims = len(deck.lines("seen")) - 1
    deck.command("stop")
    (deck.folder / "mended").touch()
    plain, deck.prefix = deck.prefix, (*a_minute_on(), *deck.prefix)
    assert deck.command("unpause").code == 0
    deck.prefix = plain
    with watching(deck) as seen:
        deck.gates[0].let(5)
        seen.until(lambda: all(row.state == "succeeded" for row in seen.rows.values()))
        assert seen.gpu(0).note == ""
    assert victims == 3
    assert "GPU 0 works again and is used" in deck.text("logs/deck.log")
    assert [line for line in deck.lines("seen")[1 + victims :] if line.endswith(" 0")]


def test_a_client_sees_a_gpu_go_and_come_back_and_tasks_go_round_it(boxed: Callable[[int, str], Boxed]) -> None:
    deck, box = boxed(2, gated(3))
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(t0="running", t1="running")
        box.lose(1)
        seen.until(lambda: seen.gpu(1).note.startswith("lost"))
        deck.gates[1].let()
        seen.until_states(t1="succeeded")
        seen.until_waits_for("t2", "GPU 1: lost")
        assert seen.rows["t2"].state == "queued"
        box.find(1)
        seen.until_states(t2="running")
        assert (seen.rows["t2"].gpus, seen.gpu(1).note) == ((1,), "")
