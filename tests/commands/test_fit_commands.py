"""`gpudeck fit`: scripts that run out of memory above a limit, on simulated GPUs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LIMITED = f"""
    [deck]
    gpus = "sim:1"
    [vars]
    batch = 8
    lr = 0.1
    [[task]]
    name = "train"
    command = "echo {{batch}} >>tried; test {{batch}} -le 77 || {{ echo '{OOM}' >&2; exit 1; }}"
    env.GPUDECK_SIM_MIB = "{{batch}}00"
    outputs = ["never-written.pt"]
    retries = 5
    on_oom = [{{ vars = {{ batch = 4 }} }}]
"""
STEPS = """
    [deck]
    gpus = "sim:1"
    [vars]
    batch = 8
    [[task]]
    name = "train"
    command = "for i in $(seq 99999); do echo step $i/99999 of {batch}; sleep 0.05; done"
"""


@pytest.fixture
def fitted(deck: Commanded) -> Commanded:
    deck.write(LIMITED)
    return deck


def logs_of(deck: Commanded, value: int) -> Path:
    return deck.folder / "logs" / "fit" / "train" / f"batch={value}"


def test_it_finds_the_largest_value_and_says_how_to_keep_it(fitted: Commanded) -> None:
    done = fitted.command("fit", "train", "--var", "batch=4..200")
    assert (done.code, done.err) == (0, "")
    assert fitted.lines("tried") == ["4", "8", "16", "32", "64", "128", "96", "80", "72", "76", "78", "77"]
    assert "batch=128  out of memory" in done.out
    assert "batch = 77 fits" in done.out
    assert "`gpudeck --set batch=77" in done.out
    assert "[vars]: batch = 77" in done.out
    assert "SIM: simulated GPUs" in done.out
    assert '[[gpu_profile]]: min_memory = "80GiB", vars = { batch = 77 }' in done.out


def test_powers_of_two_are_tried_between_two_of_them_and_steps_where_they_are_asked_for(fitted: Commanded) -> None:
    assert fitted.command("fit", "train", "--var", "batch=16..256").code == 0
    assert fitted.lines("tried") == ["16", "32", "64", "128"]
    done = fitted.command("fit", "train", "--var", "batch=64..128", "--step", "8")
    assert "batch = 72 fits" in done.out


def test_json_tells_every_trial_and_the_room_that_is_left(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\ncommand = "sleep 999 # {batch}"\n'
        'env.GPUDECK_SIM_MIB = "{batch}00"\n'
    )
    done = deck.command("fit", "train", "--var", "batch=30", "--for", "1s", "--json")
    found = json.loads(done.out)
    assert (done.code, found["value"], found["complete"], found["exhausted"]) == (0, 30, True, True)
    assert (found["peak_mib"], found["total_mib"], found["room_mib"]) == (3000, 81920, 78920)
    (trial,) = found["trials"]
    assert (trial["value"], trial["verdict"], trial["gpus"]) == (30, "fits", [0])


def test_where_not_even_the_lowest_fits_it_ends_with_1(fitted: Commanded) -> None:
    done = fitted.command("fit", "train", "--var", "batch=100..200")
    assert (done.code, "not even batch = 100 fits" in done.out) == (1, True)
    assert fitted.lines("tried") == ["100"]


def test_the_kernels_out_of_memory_counts_too(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\n'
        "command = \"test {batch} -lt 2 || { echo 'MemoryError' >&2; exit 1; }\"\n"
    )
    done = deck.command("fit", "train", "--var", "batch=1..4")
    assert (done.code, "batch = 1 fits" in done.out) == (0, True)


def test_another_failure_ends_the_search_with_its_reason_and_last_lines(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\n'
        "command = \"test {batch} -lt 4 || { echo first; echo 'ValueError: odd shape' >&2; exit 3; }\"\n"
    )
    done = deck.command("fit", "train", "--var", "batch=2..64")
    assert done.code == 1
    assert "batch = 4 failed for another reason: exit 3: ValueError: odd shape" in done.out
    assert "  | ValueError: odd shape" in done.out
    assert str(logs_of(deck, 4)) in done.out
    assert "batch = 2 fits" in done.out
    assert "larger values were not all tried" in done.out


def test_a_trial_leaves_the_deck_its_tasks_and_their_logs_alone(fitted: Commanded) -> None:
    assert fitted.command("fit", "train", "--var", "batch=64..128").code == 0
    assert not (fitted.folder / "logs" / "train").exists()
    assert not (fitted.folder / ".gpudeck" / "tasks").exists()
    assert not list((fitted.folder / ".gpudeck").glob("fit@*.toml"))
    assert fitted.state("train") == "waiting"
    assert "of 1 attempt" not in fitted.command("show", "train").out
    assert OOM in (logs_of(fitted, 128) / "attempt-1.err").read_text()


def test_a_trial_knows_that_it_is_one_and_what_is_asked_for(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:2"\n[vars]\nbatch = 1\nlr = 1\n[[task]]\nname = "train"\ngpus = 2\nenv.MINE = "{{x}}"\n'
        'command = "echo $GPUDECK_FIT $WANDB_MODE $MINE $CUDA_VISIBLE_DEVICES {batch} {lr} {num_gpus} {run_dir}"\n'
    )
    words = ("--var", "batch=3", "--env", "WANDB_MODE=disabled", "--set", "lr=5")
    assert deck.command("fit", "train", *words).code == 0
    folder = logs_of(deck, 3)
    assert (folder / "attempt-1.log").read_text() == f"1 disabled {{x}} 0,1 3 5 2 {folder}\n"


def test_a_trial_is_stopped_once_its_progress_has_moved_often_enough(deck: Commanded) -> None:
    deck.write(STEPS)
    done = deck.command("fit", "train", "--var", "batch=8", "--steps", "2", "--for", "1h", "--json")
    found = json.loads(done.out)
    assert (done.code, found["value"], found["trials"][0]["steps"] >= 2) == (0, 8, True)


def test_ctrl_c_stops_the_trial_and_tells_the_best_so_far(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\n'
        "command = \"test {batch} -lt 4 || { echo up; trap 'echo saved; exit 0' TERM; read _ <gate; }\"\n"
    )
    deck.gate()
    piped = deck.follow("fit", "train", "--var", "batch=2..64")
    log = logs_of(deck, 4) / "attempt-1.log"
    until(lambda: log.exists() and "up" in log.read_text())
    piped.signal(signal.SIGINT)
    done = piped.finish()
    assert done.code == 130
    assert "stopped at batch = 4" in done.out
    assert "batch = 2 fits" in done.out
    assert log.read_text() == "up\nsaved\n"


def test_a_trial_goes_on_after_its_engine_was_killed(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\n'
        'command = "echo up; read _ <gate; echo {batch} >>done"\n'
    )
    gate = deck.gate()
    piped = deck.follow("fit", "train", "--var", "batch=3", "--for", "1h")
    log = logs_of(deck, 3) / "attempt-1.log"
    until(lambda: log.exists() and "up" in log.read_text())
    deck.kill_engine()
    gate.let()
    done = piped.finish()
    assert (done.code, "batch = 3 fits" in done.out) == (0, True)
    assert deck.lines("done") == ["3"]


def test_a_trial_goes_on_after_its_engine_was_killed_before_anybody_had_connected(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\n[[task]]\nname = "train"\n'
        'command = "echo up; read _ <gate; echo {batch} >>done"\n'
    )
    gate = deck.gate()
    piped = deck.follow("fit", "train", "--var", "batch=3", "--for", "1h")
    until(deck.engines_alive)
    piped.signal(signal.SIGSTOP)
    log = logs_of(deck, 3) / "attempt-1.log"
    until(lambda: log.exists() and "up" in log.read_text())
    deck.kill_engine()
    piped.signal(signal.SIGCONT)
    gate.let()
    done = piped.finish()
    assert (done.code, "batch = 3 fits" in done.out) == (0, True), done.err
    assert deck.lines("done") == ["3"]


def test_the_values_of_its_card_are_a_trials_too(deck: Commanded) -> None:
    deck.write(
        '[deck]\ngpus = "sim:1"\n[vars]\nbatch = 1\nworkers = 1\n[[task]]\nname = "train"\n'
        'command = "echo {batch} {workers} >>tried"\n'
        '[[gpu_profile]]\nmin_memory = "40GiB"\nvars = { batch = 9, workers = 8 }\n'
    )
    assert deck.command("fit", "train", "--var", "batch=3").code == 0
    assert deck.lines("tried") == ["3 8"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trian", "--var", "batch=1..2"), "trian: there is no such task: did you mean train?"),
        (("train", "--var", "bach=1..2"), "--var bach: [vars] has no bach: did you mean batch?"),
        (("train", "--var", "lr=1..2"), "train: its command does not use {lr}"),
        (("train", "--var", "batch=2..1"), "--var batch=2..1: 2 is more than 1"),
        (("train", "--var", "batch=a..b"), "--var wants NAME=LOW..HIGH"),
        (("train", "--var", "batch=1..2", "--for", "soon"), "--for must be a duration"),
        (("train", "--var", "batch=1..2", "-n", "0"), "-n wants a number of GPUs from 1 on"),
        (("train", "--var", "batch=1..2", "--gpus", "none"), "the deck has no GPUs"),
        (("train",), "required: --var"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(fitted: Commanded, words: tuple[str, ...], said: str) -> None:
    done = fitted.command("fit", *words)
    assert (done.code, done.err.count("\n"), said in done.err) == (2, 1, True), done.err
    assert fitted.lines("tried") == []
