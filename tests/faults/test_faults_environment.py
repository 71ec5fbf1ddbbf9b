"""A run that goes on from another shell: what its environment said at the start holds on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside

ONE_AFTER_THE_OTHER = """
    [deck]
    foreign = "ignore"
    {deck}
    [vars]
    {vars}
    [[task]]
    name = "first"
    command = 'echo $CUDA_VISIBLE_DEVICES >>seen; read _ <gate'
    [[task]]
    name = "task-{{i}}"
    matrix.i = [1, 2, 3]
    command = 'echo $CUDA_VISIBLE_DEVICES >>seen; echo {data}'
"""


def four_gpus(folder: Path) -> dict[str, str]:
    """The environment of a box that has them."""
    code, environment = outside(Box(folder / "box.txt", 4))
    assert not code, "the double of the driver needs no start script here"
    return {name: environment[name] for name in ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE") if name in environment}


def test_a_run_that_goes_on_from_another_shell_takes_no_gpu_that_it_was_not_given(
    deck: Deck, tmp_path_factory: pytest.TempPathFactory
) -> None:
    box = four_gpus(tmp_path_factory.mktemp("nvml"))
    deck.write(ONE_AFTER_THE_OTHER.format(deck="", vars="", data="x"))
    gate = deck.gate()
    engine = deck.start(env={**box, "CUDA_VISIBLE_DEVICES": "2"})
    until(lambda: deck.lines("seen"))
    engine.kill()
    gate.let()
    ran = deck.run(env=box)
    assert set(deck.lines("seen")) == {"2"}
    assert "CUDA_VISIBLE_DEVICES" in ran.notes


def test_a_run_goes_on_from_a_shell_without_the_variables_that_vars_are_made_of(deck: Deck) -> None:
    text = ONE_AFTER_THE_OTHER.format(deck='gpus = "sim:1"', vars='root = "{env.DATA}/pets"', data="{root} >>roots")
    deck.write(text)
    gate = deck.gate()
    engine = deck.start(env={"DATA": "/data"})
    until(lambda: deck.lines("seen"))
    engine.kill()
    told = deck.command("status")
    gate.let()
    assert deck.run().code == 0
    assert deck.lines("roots") == ["/data/pets"] * 3
    assert "DATA is not set" not in told.err
