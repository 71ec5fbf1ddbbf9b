"""`gpudeck gpus` for a deck."""

from __future__ import annotations

from pathlib import Path

from tests.commands.commands_rig import GATED
from tests.rigs.desk import Desk, at_desk, typed_in


@at_desk(GATED.replace('gpus = "sim:2"', 'gpus = "sim:2"\nslots_per_gpu = 2'))
async def test_a_decks_gpus_are_shown_with_their_slots_and_tasks(desk: Desk) -> None:
    await desk.start()
    await desk.until(lambda: len(desk.in_state("running")) == 3)
    shown = (await desk.command("gpus", "-f", "tasks.toml")).out.splitlines()
    assert shown[0].split() == ["GPU", "slots", "memory", "util", "tasks", "note"]
    assert [line.split()[:5] for line in shown[1:]] == [["SIM", "0", "2", "of", "2"], ["SIM", "1", "1", "of", "2"]]
    assert sum(line.count("wait-") for line in shown) == 3
    told = await desk.told("gpus", "--file", "tasks.toml")
    assert [gpu["slots"] for gpu in told["gpus"]] == [2, 2]


def test_simulated_gpus_of_a_deck_without_an_engine_are_shown_too(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(GATED)
    assert typed_in(tmp_path, "gpus", "--gpus", "sim:2").code == 0
    shown = typed_in(tmp_path, "gpus", "--file", "tasks.toml")
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [["SIM", "0"], ["SIM", "1"]]


def test_on_a_box_without_gpus_those_that_the_deck_here_simulates_are_shown(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(GATED)
    assert [line.split()[:2] for line in typed_in(tmp_path, "gpus").out.splitlines()[3:]] == [
        ["SIM", "0"],
        ["SIM", "1"],
    ]
