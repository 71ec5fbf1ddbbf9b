"""`gpudeck run` beside a deck that has the GPU."""

from __future__ import annotations

from pathlib import Path

from tests.commands.commands_rig import Commanded
from tests.commands.run_rig import runs_of
from tests.e2e.decks import until
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


SWEEP = """
    [deck]
    name = "sweep"
    [[task]]
    name = "t-{i}"
    matrix.i = [1, 2, 3]
    command = "echo t-{i} >>order; read _ <gate"
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


def test_without_a_gpu_it_says_that_it_runs_on_the_cpu_and_what_simulates_gpus(deck: Commanded, tmp_path: Path) -> None:
    on_double(deck, Box(tmp_path / "box.txt"))
    done = deck.command("run", "--name", "mine", "-n", "2", "true")
    assert "mine runs on the CPU; `--gpus sim:2` simulates GPUs for it" in done.err


def test_without_a_gpu_but_beside_a_task_file_it_names_the_way_into_that_deck(deck: Commanded, tmp_path: Path) -> None:
    on_double(deck, Box(tmp_path / "box.txt"))
    deck.write(DECK)
    done = deck.command("run", "--name", "mine", "true")
    assert "mine runs on the CPU; `gpudeck add --next -- COMMAND` gives it the next slot of the deck here" in done.err


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
    assert runs_of(deck)["echo"]["state"] == "queued"
    other = deck.command("run", "--name", "other", "echo $CUDA_VISIBLE_DEVICES")
    assert other.out == f"{1 - taken[0]}\n"
    gate.let()
    done = run.finish()
    assert (done.code, done.out) == (0, "mine\n")
    box.release()


def test_a_queue_that_was_started_on_some_of_the_cards_keeps_to_them(deck: Commanded, tmp_path: Path) -> None:
    on_double(deck, Box(tmp_path / "box.txt", 2))
    assert deck.command("run", "-n", "0", "true").code == 0
    assert deck.command("stop", "--queue").code == 0
    assert deck.command("start", "--queue", "--gpus", "1").code == 0
    engine = deck.engines_alive()
    for _ in range(2):
        assert deck.command("run", "echo $CUDA_VISIBLE_DEVICES").out == "1\n"
    assert deck.engines_alive() == engine


def test_a_run_goes_before_what_waits_in_a_sweep(deck: Commanded, tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", 1)
    on_double(deck, box)
    deck.write(SWEEP)
    gate = deck.gate()
    assert deck.go().code == 0
    deck.until_state("t-1", "running")
    urgent = deck.follow("run", "--name", "urgent", "echo urgent >>order")
    urgent.until("urgent waits")
    gate.let(1)
    assert urgent.finish().code == 0
    gate.let(2)
    assert deck.command("wait").code == 0
    assert deck.lines("order") == ["t-1", "urgent", "t-2", "t-3"]
    box.release()


def test_an_added_task_that_is_next_goes_before_other_decks(deck: Commanded, tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", 1)
    on_double(deck, box)
    deck.write(SWEEP)
    deck.write('[deck]\nname = "other"\n[[task]]\nname = "o"\ncommand = "echo o >>order; read _ <gate"\n', "other.toml")
    gate = deck.gate()
    assert deck.command("start", "other.toml").code == 0
    until(lambda: deck.lines("order") == ["o"])
    assert deck.go().code == 0
    assert deck.command("add", "--next", "--name", "added", "--", "sh", "-c", "echo added >>order").code == 0
    until(lambda: "deck other of" in deck.command("explain", "added").out)
    gate.let(4)
    assert deck.command("wait").code == 0
    assert deck.lines("order") == ["o", "added", "t-1", "t-2", "t-3"]
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
