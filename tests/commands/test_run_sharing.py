"""`gpudeck run` beside a deck that has the GPU."""

from __future__ import annotations

from pathlib import Path

from tests.commands.commands_rig import Commanded
from tests.commands.run_rig import runs_of
from tests.fakes import forked
from tests.fakes.nvml_double.box import VARIABLE, Box
from tests.fakes.nvml_double.build import KINDS, SONAME, library_folder, outside

DECK = """
    [deck]
    name = "sweep"
    [[task]]
    name = "t"
    command = "read _ <gate"
"""


def on_double(deck: Commanded, box: Box) -> None:
    """Every gpudeck of this deck, its engines too, sees the box of the double."""
    deck.env[VARIABLE] = str(box.path)
    if "library" in KINDS:
        deck.env[forked.NVML_LIBRARY] = str(library_folder() / SONAME)
        return
    code, _ = outside(box)
    folder = Path(f"{deck.folder}.site")
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    deck.env["PYTHONPATH"] = str(folder)


def test_a_run_waits_for_the_gpu_of_a_deck_and_says_whose_it_is(deck: Commanded, tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", 2)
    on_double(deck, box)
    deck.write(DECK)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("t", "running")
    taken = deck.rows()["t"]["gpus"]
    run = deck.follow("run", "-n", "2", "echo mine")
    run.until("deck sweep of")
    run.until("`gpudeck add -- COMMAND` puts a command into the queue of the deck here instead")
    assert runs_of(deck)["echo"]["state"] == "queued"
    other = deck.command("run", "--name", "other", "echo $CUDA_VISIBLE_DEVICES")
    assert other.out == f"{1 - taken[0]}\n"
    gate.let()
    done = run.finish()
    assert (done.code, done.out) == (0, "mine\n")
    box.release()


def test_a_trial_of_fit_waits_like_a_run_and_gets_the_gpus_that_its_deck_may_use(
    deck: Commanded, tmp_path: Path
) -> None:
    box = Box(tmp_path / "box.txt", 2)
    on_double(deck, box)
    batch = '\n[vars]\nbatch = 1\n[[task]]\nname = "b"\ncommand = "echo $CUDA_VISIBLE_DEVICES {batch} >>tried"\n'
    deck.write(DECK.replace('name = "sweep"', 'name = "sweep"\n    gpus = [1]') + batch)
    gate = deck.gate()
    assert deck.command("hold", "b").code == 0
    assert deck.go().code == 0
    deck.until_state("t", "running")
    fit = deck.follow("fit", "b", "--var", "batch=2..4")
    fit.until("waits: ")
    fit.until("deck sweep of")
    assert deck.lines("tried") == []
    gate.let()
    done = fit.finish()
    assert (done.code, "batch = 4 fits" in done.out) == (0, True)
    assert deck.lines("tried") == ["1 2", "1 4"]
    box.release()
